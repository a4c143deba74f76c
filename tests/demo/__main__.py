"""Runs the demonstration, prints the books, and says by its exit code whether they balance. With --kind, on a cluster of kind's."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.api.crew import Crew
from tests.cluster.backend import Backend
from tests.cluster.binaries import locate, to_build
from tests.cluster.children import ChildDied
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace, install_crds
from tests.cluster.kind import Kind
from tests.cluster.versions import Unavailable
from tests.demo.story import Story
from tests.demo.tables import report
from tests.demo.verdict import verdict

NAMESPACE = "demo"
BALANCED = "No tick twice, none early, none without a run or a reason."
START = time.monotonic()


def main(arguments: Sequence[str]) -> int:
    try:
        cluster = on_kind() if "--kind" in arguments else of_processes()
        return demonstrate(cluster, Path(tempfile.mkdtemp(prefix="soloist-demo-")))
    except (Unavailable, ChildDied, TimeoutError) as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def demonstrate(cluster: ControlPlane, folder: Path) -> int:
    with ExitStack() as stack:
        stack.enter_context(cluster)
        install_crds(cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        say(f"the API server answers at {cluster.server}; the CRDs of manifests/crds are in it")
        backend = stack.enter_context(Backend(folder / "receiver"))
        crew = Crew(cluster, Namespace(name=NAMESPACE, cluster=cluster), folder, env={})
        stack.callback(crew.stop)
        story = Story(crew=crew, backend=backend, say=say)
        story.begin()
        story.kill()
        story.requests(3)
        story.end_one()
        pages = story.end()
    print("\n" + report(pages, story.hand_overs) + "\n")
    return verdict(pages, balanced=BALANCED, folder=folder, seconds=time.monotonic() - START)


def of_processes() -> ControlPlane:
    missing = to_build()
    if missing:
        say(f"{', '.join(missing)}: built once from pinned modules, which takes some minutes, then kept in the cache")
    locate()
    say("starting etcd, kube-apiserver and kube-controller-manager; all that follows takes about 45 s")
    return ControlPlane()


def on_kind() -> ControlPlane:
    made = Kind("soloist-demo")
    say("kind makes a cluster, a minute or two, more where its image is not there yet; what follows takes about 45 s")
    return made


def say(line: str) -> None:
    print(f"[{time.monotonic() - START:5.1f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
