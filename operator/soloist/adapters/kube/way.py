"""The way to one API server, as plain values: what a kubeconfig, or a Pod's service account, comes to."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """``host`` is scheme, name and port; certificates are content (PEM), empty where there are none.

    ``credentials`` gives the Authorization header as it is now, None where the way in is the certificate. ``token_file`` and
    ``ca_file`` where they are files that are kept up to date.
    """

    host: str
    authority: str
    credentials: Callable[[], str | None]
    certificate: str = ""
    key: str = ""
    verify: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
