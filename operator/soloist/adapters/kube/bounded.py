"""Requests of the synchronous kubernetes client, each bounded as a whole, for the thread that keeps the Lease.

urllib3's time-outs count from each read, so a server that sends a byte now and then, or a resolver that does not answer,
would hold the elector beyond the trust that it has. So a request runs in a thread of its own; when its time is over the
sockets are shut under it and the caller goes on. urllib3's own retries are off: it would send a PUT up to four times.
"""

import contextlib
import json
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from urllib3.connection import HTTPConnection, HTTPSConnection

from soloist.adapters.kube.config import Access
from soloist.domain.errors import ConfigError, PermanentError, TransientError

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Any answer that HTTP allows; ``body`` may be anything at all."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BoundedClient:
    """One connection pool of its own, shared with nothing else: reconciling cannot starve a renewal."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sockets: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()
        configuration = Configuration()
        configuration.host = access.host
        configuration.client_side_validation = False
        self._api: Any = ApiClient(configuration)
        self._api.rest_client.pool_manager = self._pools()

    def request(self, method: str, path: str, body: Raw | None = None, *, timeout: float) -> Reply:
        """Answered within ``timeout`` seconds, else ``TransientError``. A 401 is tried once more with what is re-read."""
        doing = f"{method} {path}"

        def exchange() -> Reply:
            reply = self._send(method, path, body, timeout, again=False)
            return self._send(method, path, body, timeout, again=True) if reply.status == 401 else reply

        return self._bounded(doing, exchange, timeout)

    def lines(self, path: str, *, silence: float) -> Iterator[Raw]:
        """The objects of a watch, one a line, until it ends; ``silence`` bounds each read. For a thread of its own.

        ``PermanentError`` where it may not be watched, ``TransientError`` where it broke.
        """
        response = self._call("GET", path, None, silence, again=False)
        try:
            if response.status == 403:
                raise PermanentError(f"GET {path}: the API server answered 403: grant the right to watch it.")
            if response.status != 200:
                raise TransientError(f"GET {path}: the API server answered {response.status}", sent=False)
            pending = b""
            for chunk in response.response.stream(amt=None):
                *whole, pending = (pending + chunk).split(b"\n")
                yield from (line for line in map(_object, whole) if line is not None)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise TransientError(f"GET {path}: {error}", sent=False) from error
        finally:
            response.response.close()

    def cut(self) -> None:
        """Shut every connection, under whoever is waiting on it."""
        for connection in list(self._sockets):
            sock = connection.sock
            if sock is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut, and keep nothing."""
        self.cut()
        self._api.rest_client.pool_manager.clear()

    def _send(self, method: str, path: str, body: Raw | None, timeout: float, *, again: bool) -> Reply:
        response = self._call(method, path, body, timeout, again=again)
        return Reply(status=response.status, headers=dict(response.headers), body=response.read() or b"")

    def _call(self, method: str, path: str, body: Raw | None, timeout: float, *, again: bool) -> Any:
        headers = {"Accept": "application/json", "User-Agent": "soloist"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            authorization = self._access.authorization_now(again=again)
            if authorization is not None:
                headers["Authorization"] = authorization
            return self._api.call_api(
                method, self._access.host + path, header_params=headers, body=body, _request_timeout=(timeout, timeout)
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError, ConfigError) as error:
            raise TransientError(f"{method} {path}: not sent: {error}", sent=False) from error
        except (urllib3.exceptions.HTTPError, ApiException, OSError, ValueError) as error:
            raise TransientError(f"{method} {path}: no answer: {error}") from error

    def _bounded(self, doing: str, exchange: Callable[[], Reply], timeout: float) -> Reply:
        outcome: Future[Reply] = Future()

        def run() -> None:
            try:
                outcome.set_result(exchange())
            except BaseException as error:  # noqa: BLE001 - handed to the caller, or to nobody once it has given up
                outcome.set_exception(error)

        threading.Thread(target=run, name="lease-request", daemon=True).start()
        try:
            return outcome.result(timeout)
        except TimeoutError as error:
            self.cut()
            raise TransientError(f"{doing}: no answer within {timeout:g} s") from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise TransientError(f"{doing}: the answer broke off: {error}") from error

    def _pools(self) -> urllib3.PoolManager:
        access, sockets = self._access, self._sockets

        class Plain(HTTPConnection):
            def connect(self) -> None:
                sockets.add(self)
                super().connect()

        class Encrypted(HTTPSConnection):
            def connect(self) -> None:
                sockets.add(self)
                super().connect()

        tls: dict[str, Any] = {"ssl_context": access.ssl_context()} if access.host.startswith("https") else {}
        if access.tls_server_name:
            tls |= {"server_hostname": access.tls_server_name, "assert_hostname": access.tls_server_name}
        pools = (
            urllib3.ProxyManager(access.proxy, retries=False, **tls)
            if access.proxy
            else urllib3.PoolManager(retries=False, **tls)
        )
        pools.pool_classes_by_scheme = {
            "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": Plain}),
            "https": type("EncryptedPool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": Encrypted}),
        }
        return pools


def _object(line: bytes) -> Raw | None:
    found = json.loads(line) if line.strip() else None
    return found if isinstance(found, dict) else None
