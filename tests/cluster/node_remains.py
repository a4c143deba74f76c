"""Takes away what a node leaves on its machine, whether it was told to go or was killed: nothing that is not ours.

Pods outlive kubelet and containerd, so this is done at the end of each node and, where an earlier one was killed, at the
beginning of the next. What is ours is told by our folder (sockets, mounts), by our bridges, and by the kubelet's own names
(the kubepods cgroups, the KUBE chains): a machine on which another kubelet runs is refused before anything is started.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.children import born, until
from tests.cluster.node_binaries import installed
from tests.cluster.node_files import HOST_BRIDGE, POD_BRIDGE

CGROUPS, NAMESPACES = Path("/sys/fs/cgroup"), Path("/run/netns")
RULES = re.compile(r"KUBE-|CNI-")


def kubelet_was_here() -> bool:
    """Whether some kubelet, ours or another's, has Pods on this machine or had."""
    return any(_cgroups())


def clear(folder: Path) -> None:
    """After this nothing of the node whose folder this is runs, is mounted, or is in the way of the next."""
    _end_processes(folder)
    unmount(folder)
    programs = installed()
    for namespace in NAMESPACES.glob("cni-*"):
        _run(programs["ip"], "netns", "del", namespace.name)
    for bridge in (POD_BRIDGE, HOST_BRIDGE):
        if Path("/sys/class/net", bridge).exists():
            _run(programs["ip"], "link", "del", bridge)
    _clear_rules(programs)
    for cgroup in sorted(_cgroups(), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):  # of some hierarchies the folders go with their parent
            cgroup.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _end_processes(folder: Path) -> None:
    """First whoever would start another, then the shims, then all that is left in the cgroups of Pods."""
    ours = [pid for pid, line in _command_lines() if str(folder) in line]
    ours += [int(pid) for path in _cgroups() for pid in (path / "cgroup.procs").read_text().split()]
    for pid in ours:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not any(born(pid) for pid in ours), what="the node's processes are gone", timeout=20)


def _command_lines() -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            program = Path(os.fsdecode(words[0])).name
            if program in {"containerd", "kubelet", "kube-proxy", "coredns"} or program.startswith("containerd-shim"):
                yield int(path.parent.name), os.fsdecode(b" ".join(words))


def unmount(folder: Path) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in sorted((path for path in mounted if path.startswith(f"{folder}/")), key=len, reverse=True):
        _run("umount", "-l", path)


def _cgroups() -> list[Path]:
    tops = [*CGROUPS.glob("kubepods"), *CGROUPS.glob("*/kubepods")]
    return [found for top in tops for found in (top, *(path for path in top.rglob("*") if path.is_dir()))]


def _clear_rules(programs: dict[str, Path]) -> None:
    for name in ("iptables", "ip6tables"):
        folder = programs["iptables"].parent
        rules = subprocess.run([folder / f"{name}-save"], capture_output=True, text=True, check=False).stdout
        if RULES.search(rules):
            kept = "".join(line for line in rules.splitlines(keepends=True) if not RULES.search(line))
            subprocess.run([folder / f"{name}-restore"], input=kept, text=True, check=True)


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=False, capture_output=True)
