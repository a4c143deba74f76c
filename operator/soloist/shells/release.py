"""The Lease of a child that was seen dead is given back at once, so that nobody waits for it to run out.

Only what that very child held: the Lease has the uid, the holder and the nonce that the child last said, and the write
carries the resourceVersion of that reading. A renewal of the dead child that is still under way either comes first
(then this write conflicts, and reads again) or finds a changed resourceVersion.

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

from soloist.domain.lease import instant, parse
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
        return cls(outcome=f"the API server answered {status}", again=status in _AGAIN)


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
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _Tried(outcome=f"{type(error).__name__}: {error}", again=True)


def _read_and_write(held: Mapping[str, Any], seen_dead: float, *, timeout: float) -> _Tried:
    where = held["lease"]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{where['namespace']}/leases/{where['name']}"
    status, lease = _call(held["connection"], "GET", path, timeout=timeout)
    if status != 200:
        return _Tried.answered(status)
    record = parse(lease)
    if (record.uid, record.holder, record.nonce) != (where["uid"], held["identity"], held["nonce"]):
        return _Tried(outcome="not its own any more", settled=True)
    renewed = max(filter(None, (instant(held["renewTime"]), record.renew_time)))
    body = released_body(lease, epoch=held["epoch"], end=renewed + timedelta(seconds=seen_dead - held["sentBoot"]))
    status, _ = _call(held["connection"], "PUT", path, body, timeout=timeout)
    return _Tried(outcome="released", settled=True) if status == 200 else _Tried.answered(status)


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
