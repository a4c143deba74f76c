"""An HTTPS server whose certificate, and whose idea of whose certificates are good, may change while it serves.

A change opens the port a second time before the first is closed, so there is no moment without it; connections under the
old ones end with it. A client need not show a certificate; one that shows one that is not of the authority gets no further
than the handshake. No session is resumed, since what was found of a certificate once would then be good for ever.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from soloist.domain.errors import PermanentError

CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a server shows: the content of ``tls.crt`` and ``tls.key`` in ``folder``."""

    folder: Path
    certificate: bytes
    key: bytes

    @classmethod
    def read(cls, folder: Path) -> "Identity":
        """As they are now; PermanentError with a sentence where they are not there."""
        try:
            found = [(folder / name).read_bytes() for name in ("tls.crt", "tls.key")]
        except OSError as error:
            raise PermanentError(f"{folder} must hold tls.crt and tls.key, and cannot be read: {error}") from error
        return cls(folder=folder, certificate=found[0], key=found[1])

    def __repr__(self) -> str:
        return f"Identity({self.folder})"


class TlsServer:
    """At one address and port."""

    def __init__(self, *, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._runner: web.AppRunner | None = None

    async def serve(self, application: web.Application, identity: Identity, *, authority: str) -> None:
        """From now on that, instead of what was served. ``authority``: PEM. PermanentError where either cannot be used."""
        context = await asyncio.to_thread(_context, identity, authority)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=CLOSE_SECONDS)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, self._port, ssl_context=context, reuse_port=True).start()
        except OSError as error:
            await runner.cleanup()
            raise PermanentError(f"Port {self._port} of {self._address} cannot be opened: {error}") from error
        before, self._runner = self._runner, runner
        if before is not None:
            await before.cleanup()

    async def close(self) -> None:
        """Nothing is served any more."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def common_names(certificate: Mapping[str, Any] | None) -> list[str] | None:
    """Of a client's certificate as the ssl module gives one that it has verified; None where there is none."""
    if not certificate:
        return None
    return [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]


def _context(identity: Identity, authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(cadata=authority)
    except ssl.SSLError as error:
        raise PermanentError(f"The front proxy's authority is no certificate in PEM: {error}") from error
    try:
        context.load_cert_chain(identity.folder / "tls.crt", identity.folder / "tls.key")
    except (ssl.SSLError, OSError) as error:
        raise PermanentError(
            f"{identity.folder}: tls.crt and tls.key are no certificate and its key: {error}"
        ) from error
    return context
