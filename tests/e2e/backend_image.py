"""The image of an example's backend for a node that can pull nothing: this machine's own Node, the libraries it is linked to, and the
backend with what its lock file says.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.adoption.backend_process import backend_home
from tests.cluster.node_images import _archive, _plain
from tests.cluster.versions import cache
from tests.queue.nodejs import find_node

CONFIG = {"Entrypoint": ["/bin/node", "/app/server.js"], "WorkingDir": "/app"}


def backend_archive(example: str) -> tuple[Path, str]:
    """A docker archive and its tag. Raises Unavailable where there is no Node."""
    node = str(find_node().program)
    home, tag = backend_home(example), f"localhost/{example}:dev"
    told = hashlib.sha256(f"{home.name} {Path(node).stat().st_mtime_ns} {CONFIG}".encode()).hexdigest()[:12]
    path = cache() / "images" / f"{example}-{told}.tar"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            layer = Path(folder) / "layer.tar"
            with tarfile.open(layer, "w", dereference=True) as tar:
                tar.add(node, "bin/node", filter=_plain)
                for library in libraries(node):
                    tar.add(library, library.lstrip("/"), filter=_plain)
                tar.add(home, "app", filter=_plain)
            _archive(path, tag, layer, CONFIG)
    return path, tag


def libraries(program: str) -> list[str]:
    """Their paths, the dynamic loader's among them."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [word for line in said.splitlines() for word in line.split() if word.startswith("/")]
