"""The way that a kubeconfig names, read by the Kubernetes library: contexts, exec plugins and expiries included.

It writes certificates that a kubeconfig carries to temporary files, so those are taken into memory and deleted at once. Tokens
that are replaced in a file it reads anew each minute.
"""

import os
import tempfile
import threading
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException, load_kube_config

from soloist.adapters.kube.way import Way
from soloist.domain.errors import ConfigError

_reading = threading.Lock()
"""The library shares its temporary files between all that load, by their content."""


def way(path: str, context: str | None) -> Way:
    """Raises ConfigError with what the library says."""
    found = Configuration()
    try:
        with _reading, tempfile.TemporaryDirectory(prefix="soloist-") as scratch:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=os.path.expanduser(path),
                context=context,
                client_configuration=found,
                persist_config=False,
                temp_file_path=scratch,
            )
            authority, certificate, key = map(_content, (found.ssl_ca_cert, found.cert_file, found.key_file))
    except (ConfigException, OSError) as error:
        raise ConfigError(str(error)) from error
    bypassed = not found.proxy or should_bypass_proxies(found.host, found.no_proxy or "")
    return Way(
        host=found.host.rstrip("/"),
        authority=authority,
        credentials=lambda: _header(found.get_api_key_with_prefix("BearerToken")),
        certificate=certificate,
        key=key,
        verify=found.verify_ssl,
        tls_server_name=found.tls_server_name,
        proxy=None if bypassed else found.proxy,
    )


def _header(value: str | None) -> str | None:
    if not value:
        return None
    scheme, _, token = value.partition(" ")
    return f"{scheme.capitalize()} {token.strip()}"


def _content(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""
