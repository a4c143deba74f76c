"""The versions a test cluster is built from, and where their modules lie.

Each set of binaries is one Go module under `modules/`, pinned by its go.mod and go.sum. The folder a set is cached
in carries a hash of both files and of our own Go beside them, so a changed pin never meets an old binary.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
PINNED_KUBERNETES = "1.36.3"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Unavailable(Exception):
    """A binary cannot be had; the message is one sentence that says what to install or set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Go module and what is built from it: the name of each binary, its package, and its cold seconds on two cores."""

    name: str
    version: str
    packages: dict[str, str]
    seconds: dict[str, int]

    @property
    def pinned(self) -> bool:
        return self.name != "kubernetes" or self.version == PINNED_KUBERNETES

    @property
    def directory(self) -> Path:
        """Where go.mod and go.sum lie: in the repository, or made once in the cache for a version that is not pinned."""
        return MODULES / self.name if self.pinned else cache() / "modules" / f"{self.name}-{self.version}"

    @property
    def binaries(self) -> Path:
        digest = hashlib.sha256()
        pins = [self.directory / name for name in ("go.mod", "go.sum")]
        for path in (*pins, *sorted(self.directory.rglob("*.go"))):
            digest.update(path.read_bytes())
        return cache() / "bin" / f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def linker_flags(self) -> str:
        """Without these the Kubernetes binaries run, but say they are v0.0.0-master."""
        flags = ["-s", "-w"]
        if self.name in ("kubernetes", "node"):
            major, minor, _ = self.version.split(".")
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
                said = {"Version": f"v{self.version}", "Major": major, "Minor": minor, "TreeState": "clean"}
                flags += [f"-X {package}.git{key}={value}" for key, value in said.items()]
        return " ".join(flags)


def cache() -> Path:
    home = os.environ.get("SOLOIST_CACHE") or Path.home() / ".cache" / "soloist"
    return Path(home).absolute()


def kubernetes(version: str | None = None) -> Module:
    version = version or os.environ.get("SOLOIST_KUBERNETES_VERSION") or PINNED_KUBERNETES
    version = version.removeprefix("v")
    if not VERSION.fullmatch(version):
        raise Unavailable(
            f"SOLOIST_KUBERNETES_VERSION is {version!r}, which is no whole version; "
            f"write it with its patch number, as in {PINNED_KUBERNETES}."
        )
    seconds = {"kube-apiserver": 290, "kube-controller-manager": 95, "kubectl": 60}
    packages = {name: f"k8s.io/kubernetes/cmd/{name}" for name in seconds}
    return Module(name="kubernetes", version=version, packages=packages, seconds=seconds)


ETCD = Module(
    name="etcd", version="3.6.5", packages={"etcd": "go.etcd.io/etcd/server/v3"}, seconds={"etcd": 65}
)  # fmt: skip
HELM = Module(
    name="helm", version="4.3.1", packages={"helm": "helm.sh/helm/v4/cmd/helm"}, seconds={"helm": 205}
)  # fmt: skip
