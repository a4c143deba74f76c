"""Whether this machine lets a node run: asked of what a node is made of, not guessed from what it is said to need.

containerd is started as the node's own, a container is run by it under a limit and in the kubelet's own cgroup, a network is made
for it by the plugin that makes those of Pods, and the rules that kube-proxy writes are written. What only the kubelet asks of a
machine is looked at. After this nothing is put down to the machine any more: what fails then is a failure.

All of it is made under the names of a node, so that ``node_remains.clear`` takes it away, whoever is killed in the middle.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cluster.children import Child, ChildDied, until
from tests.cluster.node_binaries import CNI, SYSTEM_FOLDERS
from tests.cluster.node_files import NETWORK, bridge, containerd
from tests.cluster.node_images import BUSYBOX, busybox_archive
from tests.cluster.versions import Unavailable

LIMITS = ("--memory-limit", str(64 << 20), "--cpus", "0.5")
NAME, CGROUP = "soloist-probe", "/kubepods/soloist-probe"
NAMESPACE = Path("/run/netns/cni-soloist-probe")
SETTINGS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
)
"""That the kubelet and the proxy set: where they may not, they end."""
KERNEL_LOG = Path("/dev/kmsg")
RULES = """*nat
:KUBE-PROBE - [0:0]
-A KUBE-PROBE -m comment --comment probe -m statistic --mode random --probability 0.5 -j MARK --set-xmark 0x4000/0x4000
-A KUBE-PROBE -m mark --mark 0x4000/0x4000 -m conntrack --ctstate NEW -j MASQUERADE
-A KUBE-PROBE -p tcp -m tcp --dport 1 -j DNAT --to-destination 127.0.0.1:1
COMMIT
"""  # fmt: skip
PATIENCE = 120.0


def ask(folder: Path, programs: dict[str, Path]) -> None:
    """Raises Unavailable with what this machine refused. Leaves its remains, which are a node's, in ``folder``."""
    folder.mkdir(parents=True)
    for name in SETTINGS:
        _may(os.access(Path("/proc/sys", name), os.W_OK), f"/proc/sys/{name} cannot be written")
    _may(os.access(KERNEL_LOG, os.R_OK), f"{KERNEL_LOG}, which the kubelet reads, cannot be read")
    _run([programs["iptables"].parent / "iptables-restore", "--noflush"], stdin=RULES)
    path = f"{os.environ['PATH']}:{SYSTEM_FOLDERS}"
    child = Child(
        "containerd", [programs["containerd"], *containerd(folder)], log=folder / "containerd.log", env={"PATH": path}
    )
    socket = folder / "containerd.sock"
    try:
        child.start()
        until(socket.exists, what="containerd listens", timeout=PATIENCE, needs=[child])
        ctr = [programs["ctr"], "-a", socket, "-n", "k8s.io"]
        _run([*ctr, "images", "import", busybox_archive()])
        _network(folder, programs["ip"])
        words = ("--rm", *LIMITS, "--cgroup", CGROUP, "--with-ns", f"network:{NAMESPACE}")
        said = _run([*ctr, "run", *words, BUSYBOX, NAME, "/bin/echo", "it runs"])
        _may("it runs" in said, f"a container ran and said {said!r}")
    except (ChildDied, TimeoutError) as reason:
        raise Unavailable(f"This machine cannot run a node: {reason}") from None
    finally:
        child.stop()


def _network(folder: Path, ip: Path) -> None:
    """As a Pod gets it."""
    _run([ip, "netns", "add", NAMESPACE.name])
    told = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": NAME,
        "CNI_NETNS": str(NAMESPACE),
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(CNI),
    }
    _run([CNI / "bridge"], stdin=json.dumps(NETWORK | bridge(folder)), env=told)


def _run(argv: list[str | Path], *, stdin: str = "", env: dict[str, str] | None = None) -> str:
    here = {**os.environ, "PATH": f"{os.environ['PATH']}:{SYSTEM_FOLDERS}", **(env or {})}
    done = subprocess.run(argv, input=stdin, env=here, capture_output=True, text=True, timeout=PATIENCE, check=False)
    said = (done.stderr or done.stdout).strip()
    _may(done.returncode == 0, f"`{Path(argv[0]).name} {' '.join(map(str, argv[1:]))}` said: {said[-600:]}")
    return done.stdout


def _may(it_may: bool, why_not: str) -> None:
    if not it_may:
        raise Unavailable(f"This machine cannot run a node: {why_not}.")
