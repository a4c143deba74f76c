"""How this process reaches the API server, found as kubectl and a Pod would find it.

An explicit kubeconfig, else KUBECONFIG, else the Pod's service account, else ~/.kube/config. The kubernetes library reads
them, exec plugins and expiries included; it writes certificates that a kubeconfig carries to temporary files, so those
are taken into memory and deleted at once. Bound service-account tokens are replaced under a running process: the library
reads them anew each minute, and whoever gets a 401 asks for ``again=True``.
"""

import asyncio
import os
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.incluster_config import SERVICE_CERT_FILENAME, SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME

from soloist.adapters.clock import SystemClock
from soloist.domain.errors import ConfigError

_CLOCK = SystemClock()
_HEADER_SECONDS = 1.0
"""The library goes through a whole kubeconfig at each question; a burst asks thousands of times in a second."""

_reading = threading.Lock()
"""The library shares its temporary files between all that load, by their content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What the library found, its certificates as content."""

    configuration: Any
    authority: str
    certificate: str
    key: str


class Access:
    """One API server and the way in. Safe to share between threads and loops."""

    def __init__(
        self, load: Callable[[Any, str], None], *, token_file: str | None = None, ca_file: str | None = None
    ) -> None:
        self._load = load
        self._token_file, self._ca_file = token_file, ca_file
        self._lock = threading.Lock()
        self._loaded = self._read()
        self._header: str | None = None
        self._asked_again_at = 0.0

    @classmethod
    def found(cls, kubeconfig: str | None = None, context: str | None = None) -> "Access":
        """The first of the usual places that is there; ``ConfigError`` says what is missing."""
        path = kubeconfig or os.environ.get("KUBECONFIG")
        if not path and not context and SERVICE_HOST_ENV_NAME in os.environ:
            return cls(_in_cluster, token_file=SERVICE_TOKEN_FILENAME, ca_file=SERVICE_CERT_FILENAME)
        return cls(lambda configuration, scratch: _from_file(configuration, scratch, path or "~/.kube/config", context))

    @property
    def host(self) -> str:
        """Scheme, name and port, without a slash at the end."""
        host: str = self._loaded.configuration.host
        return host.rstrip("/")

    @property
    def tls_server_name(self) -> str | None:
        """The name to verify the server's certificate by, where it is not that of ``host``."""
        name: str | None = self._loaded.configuration.tls_server_name
        return name

    @property
    def proxy(self) -> str | None:
        """An HTTP proxy on the way, unless ``no_proxy`` names the server."""
        configuration = self._loaded.configuration
        proxy: str | None = configuration.proxy
        return None if not proxy or should_bypass_proxies(self.host, configuration.no_proxy or "") else proxy

    def authorization_now(self, *, again: bool = False) -> str | None:
        """The Authorization header; ``again`` reads everything anew, after a 401. None: the way in is a certificate."""
        with self._lock:
            boot = _CLOCK.boottime()
            if again:
                self._loaded = self._read()
            elif boot < self._asked_again_at:
                return self._header
            self._asked_again_at = boot + _HEADER_SECONDS
            self._header = _header(self._loaded.configuration.get_api_key_with_prefix("BearerToken"))
            return self._header

    async def authorization(self, *, again: bool = False) -> str | None:
        """The same, for a loop that must not wait for a file or a plugin."""
        return await asyncio.to_thread(self.authorization_now, again=True) if again else self.authorization_now()

    def ssl_context(self) -> ssl.SSLContext:
        """A new context with the cluster's authority and, where there is one, the client's certificate."""
        loaded = self._loaded
        context = ssl.create_default_context(cadata=loaded.authority or None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities were made before it was asked for
        if not loaded.configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if loaded.certificate:
            with _unnamed_file(f"{loaded.certificate}\n{loaded.key}") as path:
                context.load_cert_chain(path)
        return context

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for a process that has nothing but the standard library.

        Files where a Pod has them, else their content. It may hold a token and a key: never to a log, never to a disk.
        """
        loaded = self._loaded
        authorization = None if self._token_file else self.authorization_now()
        found = {
            "server": self.host,
            "caFile": self._ca_file,
            "caData": None if self._ca_file else loaded.authority,
            "insecure": not loaded.configuration.verify_ssl,
            "tlsServerName": self.tls_server_name,
            "tokenFile": self._token_file,
            "token": authorization.partition(" ")[2] if authorization else None,
            "certData": loaded.certificate,
            "keyData": loaded.key,
        }
        return {name: value for name, value in found.items() if value}

    def _read(self) -> _Loaded:
        configuration = Configuration()
        try:
            with _reading, tempfile.TemporaryDirectory(prefix="soloist-") as scratch:
                self._load(configuration, scratch)
                return _Loaded(
                    configuration=configuration,
                    authority=_content(configuration.ssl_ca_cert),
                    certificate=_content(configuration.cert_file),
                    key=_content(configuration.key_file),
                )
        except (ConfigException, OSError) as error:
            raise ConfigError(
                f"no way to the API server: {error} "
                "Set KUBECONFIG or --kubeconfig, or run in a Pod whose service account token is mounted."
            ) from error


def _in_cluster(configuration: Any, _scratch: str) -> None:
    load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]


def _from_file(configuration: Any, scratch: str, path: str, context: str | None) -> None:
    load_kube_config(  # type: ignore[no-untyped-call]
        config_file=os.path.expanduser(path),
        context=context,
        client_configuration=configuration,
        persist_config=False,
        temp_file_path=scratch,
    )


def _header(value: str | None) -> str | None:
    if not value:
        return None
    scheme, _, token = value.partition(" ")
    return f"{scheme.capitalize()} {token.strip()}"


def _content(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""


@contextmanager
def _unnamed_file(content: str) -> Iterator[str]:
    """A path to memory that reaches no disk: OpenSSL takes a client's certificate by path only."""
    fd = os.memfd_create("soloist-certificate")
    try:
        os.write(fd, content.encode())
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
