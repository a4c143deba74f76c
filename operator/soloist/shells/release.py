"""The Lease of a child that was seen dead is given back at once, so that nobody waits for it to run out.

Only what that very child held: the Lease has the uid, the holder and the nonce that the child last said, and the write
carries the resourceVersion of that reading. A renewal of the dead child that is still under way either comes first
(then this write conflicts, and reads again) or finds a changed resourceVersion.

A Lease is on an API server, or in a row of a database (``database`` among the facts of its connection); the rules are one.

What is left in the Lease is when the term ended, on the term's own clock: the last renewTime plus the CLOCK_BOOTTIME
that passed from that renewal's send until the child was seen dead. Where the Lease has a later renewTime than the child
came to say, that one counts, from the earlier send: never too early an end.
"""

import contextlib
import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.lease import Answer, instant, parse
from soloist.domain.lease_bodies import released_body
from soloist.shells.child import arm_dead_man, die_on_alarm

if TYPE_CHECKING:
    from soloist.ports import Clock

TRY_SECONDS, ALL_SECONDS, HARD_SECONDS, PAUSE_SECONDS = 2.0, 5.0, 6.0, 0.2
_AGAIN = {401, 408, 409, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What came of one try: settled, or not, and then perhaps worth another."""

    outcome: str
    settled: bool = False
    again: bool = False

    @classmethod
    def answered(cls, status: int) -> "_Tried":
        if status == 404:
            return cls(outcome="gone", settled=True)
        return cls(outcome=f"the answer was {status}", again=status in _AGAIN)


def release(held: Mapping[str, Any], *, seen_dead: float, clock: "Clock", say: Callable[..., None]) -> None:
    """Give the Lease back; every failure is said, none is raised. Ends itself at the latest after ``HARD_SECONDS``."""
    die_on_alarm()
    arm_dead_man(HARD_SECONDS)
    until = clock.boottime() + ALL_SECONDS
    while True:
        tried = _try(held, seen_dead, timeout=min(TRY_SECONDS, until - clock.boottime()))
        if not tried.again or clock.boottime() + PAUSE_SECONDS >= until:
            break
        time.sleep(PAUSE_SECONDS)
    message = "lease of the dead child" if tried.settled else "lease not released: it runs out by itself"
    say(message, outcome=tried.outcome, lease="{namespace}/{name}".format(**held["lease"]), epoch=held["epoch"])


def _try(held: Mapping[str, Any], seen_dead: float, *, timeout: float) -> _Tried:
    try:
        return _read_and_write(held, seen_dead, timeout=timeout)
    except ssl.SSLCertVerificationError as error:
        return _Tried(outcome=f"the API server is not who it should be: {error.verify_message}")
    except PermanentError as error:
        return _Tried(outcome=str(error))
    except (OSError, http.client.HTTPException, ValueError, TransientError) as error:
        return _Tried(outcome=f"{type(error).__name__}: {error}", again=True)


def _read_and_write(held: Mapping[str, Any], seen_dead: float, *, timeout: float) -> _Tried:
    row = "database" in held["connection"]
    with contextlib.closing(_InARow(held, timeout) if row else _OnAnApiServer(held, timeout)) as at:
        return _given_back(at, held, seen_dead)


def _given_back(at: "_InARow | _OnAnApiServer", held: Mapping[str, Any], seen_dead: float) -> _Tried:
    status, lease = at.read()
    if status != 200:
        return _Tried.answered(status)
    record = parse(lease)
    if (record.uid, record.holder, record.nonce) != (held["lease"]["uid"], held["identity"], held["nonce"]):
        return _Tried(outcome="not its own any more", settled=True)
    renewed = max(filter(None, (instant(held["renewTime"]), record.renew_time)))
    body = released_body(lease, epoch=held["epoch"], end=renewed + timedelta(seconds=seen_dead - held["sentBoot"]))
    status = at.write(body)
    return _Tried(outcome="released", settled=True) if status == 200 else _Tried.answered(status)


class _OnAnApiServer:
    """One reading and one write, each on a connection of its own."""

    def __init__(self, held: Mapping[str, Any], timeout: float) -> None:
        where, self._connection, self._timeout = held["lease"], held["connection"], timeout
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{where['namespace']}/leases/{where['name']}"

    def read(self) -> tuple[int, Any]:
        return _call(self._connection, "GET", self._path, timeout=self._timeout)

    def write(self, body: Any) -> int:
        return _call(self._connection, "PUT", self._path, body, timeout=self._timeout)[0]

    def close(self) -> None:
        """Nothing is kept open."""


class _InARow:
    """The same in a database; the words are HTTP's."""

    def __init__(self, held: Mapping[str, Any], timeout: float) -> None:
        from soloist.adapters.postgres.row_lease import RowLease

        where, self._timeout = held["lease"], timeout
        self._lease = RowLease(**held["connection"], namespace=where["namespace"], name=where["name"])

    def read(self) -> tuple[int, Any]:
        lease = self._lease.read(timeout=self._timeout).lease
        return (404, None) if lease is None else (200, lease)

    def write(self, body: Any) -> int:
        return 200 if isinstance(self._lease.replace(body, timeout=self._timeout), Answer) else 409

    def close(self) -> None:
        self._lease.close()


def _call(
    connection: Mapping[str, Any], method: str, path: str, body: Any = None, *, timeout: float
) -> tuple[int, Any]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token := _token(connection):
        headers["Authorization"] = f"Bearer {token}"
    with contextlib.closing(_connect(connection, timeout)) as to_server:
        prefix = urlsplit(connection["server"]).path.rstrip("/")
        to_server.request(method, prefix + path, None if body is None else json.dumps(body), headers)
        reply = to_server.getresponse()
        content = reply.read()
        return reply.status, json.loads(content) if reply.status == 200 else None


def _connect(connection: Mapping[str, Any], timeout: float) -> http.client.HTTPConnection:
    server = urlsplit(connection["server"])
    plain = server.scheme == "http"
    host, port = server.hostname or "", server.port or (80 if plain else 443)
    if proxy := connection.get("proxy"):
        via = urlsplit(proxy)
        to_server = http.client.HTTPConnection(via.hostname or "", via.port, timeout=timeout)
        to_server.set_tunnel(host, port)
    else:
        to_server = http.client.HTTPConnection(host, port, timeout=timeout)
    to_server.connect()
    if not plain:
        name = connection.get("tlsServerName") or host
        to_server.sock = _tls(connection).wrap_socket(to_server.sock, server_hostname=name)
    return to_server


def _tls(connection: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=connection.get("caFile"), cadata=connection.get("caData"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities were made before it was asked for
    if connection.get("insecure"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := connection.get("certFile"):
        context.load_cert_chain(certificate, connection.get("keyFile"))
    elif content := connection.get("certData"):
        fd = os.memfd_create("soloist-certificate")  # OpenSSL takes a path only; this one reaches no disk
        os.write(fd, f"{content}\n{connection['keyData']}".encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}")
        os.close(fd)
    return context


def _token(connection: Mapping[str, Any]) -> str | None:
    """Read anew for each call, since a mounted token is rotated."""
    if path := connection.get("tokenFile"):
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    token: str | None = connection.get("token")
    return token
