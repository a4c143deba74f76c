"""The Pod that this process runs in: its name, and what the elector needs to publish its container.

Nothing is guessed: without ``POD_NAMESPACE``, ``POD_NAME`` and ``POD_UID`` (the downward API) there is none, and a crashed
leader is replaced when its Lease runs out. The container's first process is our parent, or this process itself.
"""

import os
import socket
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from soloist.domain.errors import ConfigError
from soloist.domain.holder_pod import OwnPod
from soloist.loops.election_ports import Clocks

CONTAINER = "controller"
"""Name of the container in the Pod, unless ``POD_CONTAINER`` names another."""


def _read(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")


def own_pod(env: Mapping[str, str], clock: Clocks, *, first: int, read: Callable[[int], str] = _read) -> OwnPod | None:
    """``first``: the pid of the container's first process, whose start the kubelet calls ``startedAt``."""
    namespace, name, uid = (env.get(key, "") for key in ("POD_NAMESPACE", "POD_NAME", "POD_UID"))
    if not (namespace and name and uid):
        return None
    # Field 22, counted behind the name in parentheses, which may hold anything: clock ticks since boot.
    started = int(read(first).rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return OwnPod(
        namespace=namespace,
        name=name,
        uid=uid,
        container=env.get("POD_CONTAINER") or CONTAINER,
        started=clock.now() - timedelta(seconds=clock.boottime() - started),
    )


def own_place(env: Mapping[str, str]) -> tuple[str, str]:
    """Namespace and name of the Pod; ConfigError where it is not known."""
    namespace, name = env.get("POD_NAMESPACE", ""), env.get("POD_NAME", "")
    if not (namespace and name):
        raise ConfigError(
            "pod-deletion-cost is for a worker that knows its Pod: set POD_NAMESPACE and POD_NAME"
            " from the downward API, or leave it out."
        )
    return namespace, name


def pod_name() -> str:
    """The Pod's name; outside a cluster, the machine's and the parent's number, so that two here are two."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getppid()}"
