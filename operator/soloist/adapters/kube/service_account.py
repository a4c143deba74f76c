"""The way that a Pod has: the service account that the kubelet mounts into it.

Read with the standard library alone: the Kubernetes client's configuration takes a fifth of a second and 20 MB, in each worker.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.request import getproxies

from soloist.adapters.kube.way import Way
from soloist.domain.errors import ConfigError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_a_pod(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the kubelet has told this process of an API server."""
    return HOST in environ


def way(environ: Mapping[str, str] = os.environ, folder: Path = FOLDER) -> Way:
    """The token is read anew whenever it is asked for, since bound ones are replaced under a running process."""
    host, port = environ.get(HOST, ""), environ.get(PORT, "")
    if not host or not port:
        raise ConfigError(f"{HOST} and {PORT} are not both set.")
    name = f"[{host}]" if ":" in host or "%" in host else host
    server = f"https://{name}:{port}"
    authority, token = folder / "ca.crt", folder / "token"

    def credentials() -> str:
        return f"Bearer {_content(token)}"

    credentials()
    return Way(
        host=server,
        authority=_content(authority),
        credentials=credentials,
        proxy=_proxy(server),
        token_file=str(token),
        ca_file=str(authority),
    )


def _content(file: Path) -> str:
    try:
        content = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
    if not content:
        raise ConfigError(f"{file} is empty.")
    return content


def _proxy(server: str) -> str | None:
    """Of the environment, unless it names the server among those that need none; hardly any Pod has one."""
    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("all")
    if not proxy:
        return None
    from kubernetes.client.rest import should_bypass_proxies

    return None if should_bypass_proxies(server, proxies.get("no", "")) else proxy
