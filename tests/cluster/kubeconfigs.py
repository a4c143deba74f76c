"""Kubeconfig files, written whole: a reader never sees half of one."""

from __future__ import annotations

import base64
import json
import threading
from pathlib import Path


def write(
    path: Path,
    *,
    user: str,
    server: str,
    ca: Path,
    token: str | None = None,
    token_file: Path | None = None,
    namespace: str = "default",
) -> Path:
    """JSON, which every reader of YAML reads. `token_file` is read again by clients that support a token's rotation."""
    credentials = {"tokenFile": str(token_file)} if token_file else {"token": token}
    authority = base64.b64encode(ca.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "soloist-test",
        "clusters": [{"name": "soloist-test", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [
            {"name": "soloist-test", "context": {"cluster": "soloist-test", "user": user, "namespace": namespace}}
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{threading.get_ident()}.new")  # two threads may write the same one
    made.write_text(json.dumps(config, indent=2))
    made.chmod(0o600)
    made.replace(path)
    return path
