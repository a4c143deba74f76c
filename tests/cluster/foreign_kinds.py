"""The kinds of other programs that the chart and the pages make objects of: CRDs out of those programs' own Go modules.

Each module is pinned by version and checksum, so it does not matter which proxy hands it on. Nothing is built of it, and once a file
is in the cache no Go is needed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.go_build import cache_folder, find_go, go_environment, locked, say
from tests.cluster.versions import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Files of one module, each with one CRD."""

    module: str
    version: str
    digest: str
    folder: str
    prefix: str
    names: tuple[str, ...]

    def files(self) -> list[Path]:
        """Fetches them the first time. Raises Unavailable."""
        place = cache_folder() / "kinds" / f"{self.prefix}{self.version}"
        with locked(f"kinds-{self.prefix}{self.version}"):
            if not place.exists():
                self._fetch(place)
        return [place / f"{self.prefix}{name}.yaml" for name in self.names]

    def _fetch(self, place: Path) -> None:
        say(f"fetching the kinds of {self.module} {self.version}")
        place.parent.mkdir(parents=True, exist_ok=True)
        argv = [str(find_go()), "mod", "download", "-json", f"{self.module}@v{self.version}"]
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetching-") as made:
            env = {**go_environment(), "GONOSUMDB": self.module}  # the checksum below is the pin
            done = subprocess.run(argv, cwd=made, env=env, capture_output=True, text=True, check=False)
            said = json.loads(done.stdout or "{}")
            if done.returncode or "Dir" not in said:
                reason = said.get("Error") or done.stderr.strip()[-300:]
                raise Unavailable(f"Go could not fetch {self.module} v{self.version}: {reason}")
            if said["Sum"] != self.digest:
                raise Unavailable(f"{self.module} v{self.version} has the checksum {said['Sum']}, not {self.digest}.")
            for name in self.names:
                shutil.copy(Path(said["Dir"]) / self.folder / f"{self.prefix}{name}.yaml", made)
            shutil.copytree(made, place)


PROMETHEUS = Kinds(
    module="github.com/prometheus-operator/prometheus-operator",
    version="0.94.0",
    digest="h1:VxMKzqr8Xqw5/QInNT7a3B5XInPnHqE7SD2UIdwKpRM=",
    folder="example/prometheus-operator-crd",
    prefix="monitoring.coreos.com_",
    names=("servicemonitors", "podmonitors", "prometheusrules"),
)
KEDA = Kinds(
    module="github.com/kedacore/keda/v2",
    version="2.20.0",
    digest="h1:nPKQL9iKsPpoyq7BftlBzJiQzb2LdKHiqBIEG6ju3bk=",
    folder="config/crd/bases",
    prefix="keda.sh_",
    names=("scaledobjects", "triggerauthentications"),
)


@contextmanager
def served(cluster: ControlPlane, kinds: Kinds) -> Iterator[None]:
    """The cluster knows them for as long; whether it does is seen by what is listed."""
    files = kinds.files()
    named = [part for file in files for part in ("-f", str(file))]
    cluster.kubectl("apply", "--server-side", *named)
    until(lambda: _listed(cluster, kinds), what=f"the kinds of {kinds.module} are served", timeout=120)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--wait=false", *named)


def _listed(cluster: ControlPlane, kinds: Kinds) -> bool:
    """Right after it is established a kind may still answer 404, or 429 while its storage is being initialized."""
    group = kinds.prefix.removesuffix("_")
    versions = [each["version"] for each in (cluster.api().find(f"/apis/{group}") or {}).get("versions", ())]
    asked = [cluster.api().raw("GET", f"/apis/{group}/{versions[0]}/{name}")[0] for name in kinds.names if versions]
    return bool(asked) and set(asked) == {200}
