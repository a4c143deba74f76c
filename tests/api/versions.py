"""Another version of the program: a source tree that a controller is started from, by PYTHONPATH.

Nothing was released yet. An earlier version is a commit of this repository, which knows less (it writes no ``prepared`` into status.active);
a later one is today's with lines added to some modules, which writes what today's does not know. Each says its version in User-Agent.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from soloist import __version__
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import install_crds

ROOT = Path(__file__).parents[2]
EARLIER_COMMIT = "66e8b86d886111aec62bfa29898b06e00835a8a8"
LATER: dict[str, Any] = {"by": "99.0.0", "deep": {"words": ["more", "words"]}}
LATER_ON_THE_LEASE = ("soloist.dev/version", "99.0.0")
LATER_CONDITION = {"type": "Later", "status": "True", "reason": "Later", "message": "", "lastTransitionTime": "2027-01-01T00:00:00Z"}  # fmt: skip
ADDED = {
    "domain/status.py": f"""

def compose(view, step, _compose=compose):
    patch = _compose(view, step)
    others = [each for each in patch["conditions"] if each["type"] != "Later"]
    return {{**patch, "later": {LATER!r}, "conditions": [*others, {LATER_CONDITION!r}]}}
""",
    "domain/runs.py": f"""

def _to_raw(entry, _to_raw=Entry.to_raw):
    return {{**_to_raw(entry), "later": {LATER!r}}}


Entry.to_raw = _to_raw
""",
    "domain/lease_bodies.py": f"""

def held_body(raw, _held_body=held_body, **words):
    body = _held_body(raw, **words)
    body["metadata"]["annotations"][{LATER_ON_THE_LEASE[0]!r}] = {LATER_ON_THE_LEASE[1]!r}
    return body
""",
}
"""By module, what its later version has at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What it calls itself, and the folder that its package is in."""

    number: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.folder)}


def todays() -> Version:
    return Version(number=__version__, folder=ROOT / "operator")


def earlier(folder: Path) -> Version:
    """Skipped where the history is not there, as in a clone that was made without it."""
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    done = subprocess.run([*git, "archive", EARLIER_COMMIT, "operator"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(
            f"this clone has no commit {EARLIER_COMMIT[:7]} to start an earlier version of: git fetch --unshallow"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return numbered(folder / "operator", "0.0.1")


def later(folder: Path) -> Version:
    shutil.copytree(ROOT / "operator", folder / "operator", ignore=shutil.ignore_patterns("__pycache__"))
    for module, text in ADDED.items():
        with (folder / "operator" / "soloist" / module).open("a", encoding="utf-8") as source:
            source.write(text)
    return numbered(folder / "operator", str(LATER["by"]))


def numbered(folder: Path, number: str) -> Version:
    module = folder / "soloist" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    assert f'"{__version__}"' in text
    module.write_text(text.replace(f'"{__version__}"', f'"{number}"'), encoding="utf-8")
    return Version(number=number, folder=folder)


def install_later_crds(cluster: ControlPlane) -> None:
    """As an upgrade goes: the kinds come first, with what only the later version writes."""
    install_crds(cluster)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scheduledjobs.soloist.dev"
    crd = cluster.api().get(path)
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    for properties in (status, status["active"]["items"]["properties"]):
        properties["later"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.api().replace(path, crd)


def entries(status: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return status.get("active") or ()
