"""What a node needs beside its control plane: built from pinned modules like that, or from the system's packages.

containerd, runc, iptables and the CNI plugins are the distribution's: they belong to the kernel that they run on. A node is
always of the pinned Kubernetes version, since kubelet, scheduler and proxy come from the module beside that of the API server.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.cluster import go_build
from tests.cluster.versions import PINNED_KUBERNETES, Module, Unavailable

KUBERNETES = ("kubelet", "kube-scheduler", "kube-proxy")
NODE = Module(
    name="node",
    version=PINNED_KUBERNETES,
    packages={
        **{name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES},
        "coredns": "./coredns",
        "metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server",
    },
    seconds={"kubelet": 48, "kube-scheduler": 18, "kube-proxy": 21, "coredns": 20, "metrics-server": 20},
)
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "iptables-save": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
}
"""Programs that must be on PATH, and the Debian package of each."""
CNI = Path("/usr/lib/cni")
SYSTEM_FOLDERS = "/usr/sbin:/sbin"


def built() -> dict[str, Path]:
    """The paths of what comes from modules; builds what the cache lacks, one after the other: minutes, the first time."""
    go_build.build(NODE, list(NODE.packages))
    return {name: NODE.binaries / name for name in NODE.packages}


def installed() -> dict[str, Path]:
    """The paths of the system's programs. Raises Unavailable with the packages that are missing."""
    search = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
    found = {name: shutil.which(name, path=search) for name in PACKAGES}
    missing = {PACKAGES[name] for name, path in found.items() if path is None}
    if not (CNI / "bridge").exists():
        missing.add("containernetworking-plugins")
    if missing:
        raise Unavailable(f"A node needs system packages: apt-get install {' '.join(sorted(missing))}.")
    return {name: Path(path) for name, path in found.items() if path is not None}
