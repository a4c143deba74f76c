"""A cluster that outlives its command: its processes, with their times of birth, are kept in a file.

A pid alone names nothing after a while. With its time of birth it names the process that was started, or none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.versions import cache

STATE = "cluster.json"


def state_file() -> Path:
    return cache() / STATE


def up(**options: Any) -> Path:
    """Starts a cluster, or finds the one that runs; gives its kubeconfig."""
    found = read()
    if found is not None and all(child.alive() for child in children(found)):
        return Path(found["kubeconfig"])
    down()
    directory = cache() / "cluster"
    cluster = ControlPlane(directory=directory, detached=True, **options).up()
    state = {
        "directory": str(directory),
        "kubeconfig": str(directory / "kubeconfig"),
        "server": cluster.server,
        "processes": {child.name: {"pid": child.pid, "born": child.born} for child in cluster.processes()},
    }
    state_file().write_text(json.dumps(state, indent=2))
    return directory / "kubeconfig"


def down() -> bool:
    """Ends it; says whether there was one."""
    found = read()
    if found is None:
        return False
    ControlPlane.end(children(found), Path(found["directory"]))
    state_file().unlink()
    return True


def read() -> dict[str, Any] | None:
    if not state_file().exists():
        return None
    found: dict[str, Any] = json.loads(state_file().read_text())
    return found


def children(state: dict[str, Any]) -> list[Child]:
    made = []
    for name, seen in state["processes"].items():
        child = Child(name, [], log=Path(state["directory"]) / f"{name}.log")
        child.adopt(seen["pid"], seen["born"])
        made.append(child)
    return made
