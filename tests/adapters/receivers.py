"""Servers on loopback, well-behaved and not; a name server that knows what it is told; and Secrets in memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Text:
    """A sealed value."""

    value: str

    def reveal(self) -> str:
        return self.value


@dataclass
class Keys:
    """Secrets and ConfigMaps by reference; one that is absent cannot be read."""

    values: dict[KeyRef, str] = field(default_factory=dict)

    async def __call__(self, namespace: str, ref: KeyRef) -> Text:
        if ref not in self.values:
            raise PermanentError(f"Secret {namespace}/{ref.name} has no key {ref.key}; create it.")
        return Text(self.values[ref])


class Receiver:
    """A TCP server that keeps what it was sent and answers by a script, one call per request."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = script
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, backlog=2048)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/x"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                self.requests.append(head + await reader.readexactly(length[0] if length else 0))
                await self._script(reader, writer)
                await writer.drain()
        writer.close()
        self._tasks.discard(task)

    def header(self, name: str, index: int = -1) -> str | None:
        for line in self.requests[index].decode().split("\r\n\r\n")[0].split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name.lower():
                return value
        return None


def says(reply: bytes) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)

    return script


def then_resets(reply: bytes) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()
        linger = writer.get_extra_info("socket")
        linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()

    return script


def then_hangs(reply: bytes) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await asyncio.Event().wait()

    return script


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def names(**addresses: list[str]) -> Any:
    """A getaddrinfo that knows these names only, and counts."""

    def lookup(host: str, port: int, **_: object) -> list[Any]:
        lookup.calls.append(host)  # type: ignore[attr-defined]
        if host not in addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in addresses[host]
        ]

    lookup.calls = []  # type: ignore[attr-defined]
    return lookup


@contextlib.contextmanager
def full_listener() -> Iterator[int]:
    """A listener whose queue is full, so that the next connection is neither accepted nor refused."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@dataclass(frozen=True)
class Authority:
    """A certificate authority and a server certificate for 127.0.0.1 and backend."""

    pem: str
    server: ssl.SSLContext


def make_authority(folder: Path) -> Authority:
    """Its key pair and its certificates are made by openssl in ``folder``."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(*new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test authority")
    names_ = "subjectAltName=IP:127.0.0.1,DNS:backend"
    openssl(*new, "-CA", "ca.crt", "-CAkey", "ca.key", "-addext", names_, "-keyout", "tls.key", "-out", "tls.crt",
            "-subj", "/CN=backend")  # fmt: skip
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return Authority(pem=(folder / "ca.crt").read_text(), server=server)
