"""A server by TLS whose certificate and whose authority change under it, with real certificates and connections."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from soloist.adapters.http.tls_server import Identity, TlsServer, common_names
from soloist.domain.errors import PermanentError
from tests.cluster.certificates import Authority, Pair, make_authority, signed
from tests.cluster.free_ports import free_ports


def shown(folder: Path, made: Pair) -> Identity:
    folder.mkdir(exist_ok=True)
    shutil.copy(made.certificate, folder / "tls.crt")
    shutil.copy(made.key, folder / "tls.key")
    return Identity.read(folder)


def application(word: str) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        names = common_names(request.transport.get_extra_info("peercert"))
        return web.json_response({"word": word, "names": names})

    made = web.Application()
    made.router.add_get("/", answer)
    return made


async def ask(port: int, server: Authority, client: Pair | None, session: aiohttp.ClientSession) -> dict[str, object]:
    context = ssl.create_default_context(cafile=str(server.ca.certificate))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    async with session.get(f"https://localhost:{port}/", ssl=context) as answer:
        found: dict[str, object] = await answer.json()
        return found


def test_a_change_of_the_authority_is_one_of_who_gets_in(tmp_path: Path) -> None:
    first, second = make_authority(tmp_path / "first"), make_authority(tmp_path / "second")
    clients = [signed(tmp_path, name, f"/CN={name}", of.ca, "") for name, of in (("anna", first), ("boris", second))]
    (port,) = free_ports(1)

    async def body() -> None:
        server = TlsServer(address="127.0.0.1", port=port)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            identity = shown(tmp_path / "shown", first.server)
            await server.serve(application("one"), identity, authority=first.ca.certificate.read_text())
            assert await ask(port, first, clients[0], session) == {"word": "one", "names": ["anna"]}
            assert await ask(port, first, None, session) == {"word": "one", "names": None}
            with pytest.raises(aiohttp.ClientError):
                await ask(port, first, clients[1], session)

            identity = shown(tmp_path / "shown", second.server)
            await server.serve(application("two"), identity, authority=second.ca.certificate.read_text())
            assert await ask(port, second, clients[1], session) == {"word": "two", "names": ["boris"]}
            with pytest.raises(aiohttp.ClientError):
                await ask(port, second, clients[0], session)
            with pytest.raises(aiohttp.ClientError):
                await ask(port, first, None, session)
            await server.close()
            with pytest.raises(aiohttp.ClientConnectorError):
                await ask(port, second, None, session)

    asyncio.run(body())


def test_what_cannot_be_used_is_said_and_leaves_what_is_served(tmp_path: Path) -> None:
    made = make_authority(tmp_path / "made")
    (port,) = free_ports(1)

    async def body() -> None:
        server = TlsServer(address="127.0.0.1", port=port)
        identity = shown(tmp_path / "shown", made.server)
        authority = made.ca.certificate.read_text()
        await server.serve(application("one"), identity, authority=authority)
        with pytest.raises(PermanentError, match=r"must hold tls\.crt and tls\.key"):
            Identity.read(tmp_path / "nowhere")
        with pytest.raises(PermanentError, match="no certificate in PEM"):
            await server.serve(application("two"), identity, authority="nonsense")
        mixed = shown(tmp_path / "shown", Pair(certificate=made.server.certificate, key=made.ca.key))
        with pytest.raises(PermanentError, match="no certificate and its key"):
            await server.serve(application("two"), mixed, authority=authority)
        assert b"PRIVATE" not in repr(mixed).encode()
        async with aiohttp.ClientSession() as session:
            assert (await ask(port, made, None, session))["word"] == "one"
        await server.close()

    asyncio.run(body())
