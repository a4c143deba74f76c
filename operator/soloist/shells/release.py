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
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from soloist.shells.child import arm_dead_man, die_on_alarm

if TYPE_CHECKING:
    from soloist.ports import Clock

TRY_SECONDS, ALL_SECONDS, HARD_SECONDS, PAUSE_SECONDS = 2.0, 5.0, 6.0, 0.2
RELEASED, NONCE = "soloist.dev/released", "soloist.dev/nonce"
_AGAIN = {401, 408, 409, 425, 429, 500, 502, 503, 504}


def release(held: Mapping[str, Any], *, seen_dead: float, clock: "Clock", say: Callable[..., None]) -> None:
    """Give the Lease back; every failure is said, none is raised. Ends itself at the latest after ``HARD_SECONDS``."""
    die_on_alarm()
    arm_dead_man(HARD_SECONDS)
    lease = "{namespace}/{name}".format(**held["lease"])
    until = clock.boottime() + ALL_SECONDS
    while True:
        try:
            outcome = _attempt(held, seen_dead, timeout=min(TRY_SECONDS, until - clock.boottime()))
        except ssl.SSLCertVerificationError as error:
            outcome, reason = 0, f"the API server is not who it should be: {error.verify_message}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcome, reason = None, f"{type(error).__name__}: {error}"
        else:
            reason = f"the API server answered {outcome}" if isinstance(outcome, int) else ""
        if isinstance(outcome, str):
            return say("lease of the dead child", outcome=outcome, lease=lease, epoch=held["epoch"])
        if (isinstance(outcome, int) and outcome not in _AGAIN) or clock.boottime() + PAUSE_SECONDS >= until:
            return say("lease not released: it runs out by itself", reason=reason, lease=lease, epoch=held["epoch"])
        time.sleep(PAUSE_SECONDS)


def _attempt(held: Mapping[str, Any], seen_dead: float, *, timeout: float) -> str | int:
    """One reading and one write: what came of it in a word, or the HTTP status that stood in the way."""
    where = held["lease"]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{where['namespace']}/leases/{where['name']}"
    status, lease = _call(held["connection"], "GET", path, timeout=timeout)
    if status != 200:
        return "gone" if status == 404 else status
    annotations = lease["metadata"].setdefault("annotations", {})
    holder = lease.get("spec", {}).get("holderIdentity")
    named = (lease["metadata"]["uid"], holder, annotations.get(NONCE))
    if named != (where["uid"], held["identity"], held["nonce"]):
        return "not its own any more"
    renewed = max(_instant(held["renewTime"]), _instant(lease["spec"].get("renewTime") or held["renewTime"]))
    end = renewed + timedelta(seconds=seen_dead - held["sentBoot"])
    stamp = {"epoch": held["epoch"], "end": end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    annotations[RELEASED] = json.dumps(stamp)
    lease["spec"].update(holderIdentity="", leaseDurationSeconds=1)
    status, _ = _call(held["connection"], "PUT", path, lease, timeout=timeout)
    return "released" if status == 200 else "gone" if status == 404 else status


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
    return context


def _token(connection: Mapping[str, Any]) -> str | None:
    """Read anew for each call, since a mounted token is rotated."""
    if path := connection.get("tokenFile"):
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    token: str | None = connection.get("token")
    return token


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
