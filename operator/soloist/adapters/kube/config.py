"""How this process reaches the API server, found as kubectl and a Pod would find it.

An explicit kubeconfig, else KUBECONFIG, else the Pod's service account, else ~/.kube/config. Bound service-account tokens are
replaced under a running process: each way has its credentials read anew, and whoever gets a 401 asks for ``again=True``.
"""

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube import service_account
from soloist.adapters.kube.way import Way
from soloist.domain.errors import ConfigError

_CLOCK = SystemClock()
_HEADER_SECONDS = 1.0
"""The library goes through a whole kubeconfig at each question; a burst asks thousands of times in a second."""


class Access:
    """One API server and the way in. Safe to share between threads and loops."""

    def __init__(self, find: Callable[[], Way]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._way = self._found()
        self._header: str | None = None
        self._asked_again_at = 0.0

    @classmethod
    def found(cls, kubeconfig: str | None = None, context: str | None = None) -> "Access":
        """The first of the usual places that is there; ``ConfigError`` says what is missing."""
        path = kubeconfig or os.environ.get("KUBECONFIG")
        if not path and not context and service_account.in_a_pod():
            return cls(service_account.way)
        return cls(lambda: _from_file(path or "~/.kube/config", context))

    @property
    def host(self) -> str:
        """Scheme, name and port, without a slash at the end."""
        return self._way.host

    @property
    def tls_server_name(self) -> str | None:
        """The name to verify the server's certificate by, where it is not that of ``host``."""
        return self._way.tls_server_name

    @property
    def proxy(self) -> str | None:
        """An HTTP proxy on the way, unless ``no_proxy`` names the server."""
        return self._way.proxy

    def authorization_now(self, *, again: bool = False) -> str | None:
        """The Authorization header; ``again`` reads everything anew, after a 401. None: the way in is a certificate."""
        with self._lock:
            boot = _CLOCK.boottime()
            if again:
                self._way = self._found()
            elif boot < self._asked_again_at:
                return self._header
            self._asked_again_at = boot + _HEADER_SECONDS
            self._header = self._way.credentials()
            return self._header

    async def authorization(self, *, again: bool = False) -> str | None:
        """The same, for a loop that must not wait for a file or a plugin."""
        return await asyncio.to_thread(self.authorization_now, again=True) if again else self.authorization_now()

    def ssl_context(self) -> ssl.SSLContext:
        """A new context with the cluster's authority and, where there is one, the client's certificate."""
        way = self._way
        context = ssl.create_default_context(cadata=way.authority or None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities were made before it was asked for
        if not way.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if way.certificate:
            with _unnamed_file(f"{way.certificate}\n{way.key}") as path:
                context.load_cert_chain(path)
        return context

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for a process that has nothing but the standard library.

        Files where a Pod has them, else their content. It may hold a token and a key: never to a log, never to a disk.
        """
        way = self._way
        authorization = None if way.token_file else self.authorization_now()
        found = {
            "server": way.host,
            "caFile": way.ca_file,
            "caData": None if way.ca_file else way.authority,
            "insecure": not way.verify,
            "tlsServerName": way.tls_server_name,
            "proxy": way.proxy,
            "tokenFile": way.token_file,
            "token": authorization.partition(" ")[2] if authorization else None,
            "certData": way.certificate,
            "keyData": way.key,
        }
        return {name: value for name, value in found.items() if value}

    def _found(self) -> Way:
        try:
            return self._find()
        except ConfigError as error:
            raise ConfigError(
                f"no way to the API server: {error} "
                "Set KUBECONFIG or --kubeconfig, or run in a Pod whose service account token is mounted."
            ) from error


def _from_file(path: str, context: str | None) -> Way:
    from soloist.adapters.kube.kubeconfig import way

    return way(path, context)


@contextmanager
def _unnamed_file(content: str) -> Iterator[str]:
    """A path to memory that reaches no disk: OpenSSL takes a client's certificate by path only."""
    fd = os.memfd_create("soloist-certificate")
    try:
        os.write(fd, content.encode())
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
