"""A proxy that ends TLS, so that a fault can choose its request by method, path and body. Watches stream through it.

It shows the API server's own certificate, so a kubeconfig differs in its server's port only. The client's Authorization
header goes along, so RBAC sees the client. A client certificate cannot.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.cluster.certificates import Authority
from tests.cluster.faults import Answer, DelayReply, DropReply, Effect, Freeze, Hold, HoldReply, Rule, Seen, Truncate
from tests.cluster.free_ports import free_ports
from tests.cluster.loop_thread import LoopThread
from tests.cluster.wire import reset_transport

HOP = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "content-length",
    "content-encoding",
    "host",
}


class HttpsProxy:
    """`with HttpsProxy(target=…, authority=…) as proxy: rule = proxy.on("POST", r"/jobruns$", Hold(), times=1)`."""

    def __init__(self, *, target: int, authority: Authority, port: int = 0) -> None:
        self.target, self.port = target, port or free_ports(1)[0]
        self.seen: list[Seen] = []
        self._authority = authority
        self._rules: list[Rule] = []
        self._loop = LoopThread("https-proxy")

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def on(
        self,
        method: str,
        path: str,
        effect: Effect,
        *,
        when: Callable[[Seen], bool] | None = None,
        times: int | None = None,
    ) -> Rule:
        """The newest matching rule decides. `path` is a regular expression, searched in the path with its query."""
        rule = Rule(method, path, effect, when, times)
        self._rules = [rule, *self._rules]
        return rule

    def clear(self) -> None:
        """No rules; everything held goes on."""
        for rule in self._rules:
            rule.remove()
        self._rules = []

    def __enter__(self) -> Self:
        self._loop.start()
        self._loop.do(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        self._loop.do(self._end())
        self._loop.stop()

    async def _start(self) -> None:
        inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        inward.load_cert_chain(self._authority.server.certificate, self._authority.server.key)
        outward = ssl.create_default_context(cafile=str(self._authority.ca.certificate))
        connector = aiohttp.TCPConnector(ssl=outward, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=inward, backlog=1024).start()

    async def _end(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(method=request.method, path=request.path_qs, body=await request.read())
        self.seen.append(seen)
        rule = next((rule for rule in self._rules if rule.takes(seen)), None)
        effect = rule.effect if rule else None
        if isinstance(effect, Answer):
            return web.Response(status=effect.status, body=effect.body, headers=dict(effect.headers))
        if rule and isinstance(effect, Hold):
            await released(rule)
        try:
            return await self._forward(request, seen, rule)
        except aiohttp.ClientError:
            reset_transport(request.transport)
            raise

    async def _forward(self, request: web.BaseRequest, seen: Seen, rule: Rule | None) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        url = f"https://127.0.0.1:{self.target}{seen.path}"
        async with self._session.request(
            seen.method, url, data=seen.body or None, headers=headers, allow_redirects=False
        ) as reply:
            if "watch=" in seen.path and reply.status == 200:
                return await self._stream(request, seen, reply)
            body = await reply.read()
            if rule:
                rule.answered(reply.status)
            return await self._answer(request, reply, body, rule)

    async def _answer(
        self, request: web.BaseRequest, reply: aiohttp.ClientResponse, body: bytes, rule: Rule | None
    ) -> web.StreamResponse:
        effect = rule.effect if rule else None
        if rule and isinstance(effect, HoldReply):
            await released(rule)
        if isinstance(effect, DelayReply):
            await asyncio.sleep(effect.seconds)
        if isinstance(effect, DropReply):
            reset_transport(request.transport)
        headers = kept(reply)
        if isinstance(effect, Truncate):
            half = web.StreamResponse(status=reply.status, headers=headers)
            half.content_length = len(body)
            await half.prepare(request)
            await half.write(body[: len(body) // 2])
            if request.transport is not None:
                request.transport.close()
            return half
        return web.Response(status=reply.status, body=body, headers=headers)

    async def _stream(self, request: web.BaseRequest, seen: Seen, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        stream = web.StreamResponse(status=reply.status, headers=kept(reply))
        stream.enable_chunked_encoding()
        await stream.prepare(request)
        async for piece in reply.content.iter_any():
            while (frozen := self._freezing(seen)) is not None:
                await released(frozen)
            await stream.write(piece)
        return stream

    def _freezing(self, seen: Seen) -> Rule | None:
        frozen = (rule for rule in self._rules if isinstance(rule.effect, Freeze) and not rule.released)
        return next((rule for rule in frozen if rule.concerns(seen)), None)


async def released(rule: Rule) -> None:
    loop, gate = asyncio.get_running_loop(), asyncio.Event()
    rule.when_released(lambda: loop.call_soon_threadsafe(gate.set))
    await gate.wait()


def kept(reply: aiohttp.ClientResponse) -> dict[str, str]:
    named = {key: value for key, value in reply.headers.items() if key.lower() not in HOP}
    encoding = reply.headers.get("Content-Encoding")
    return {**named, "Content-Encoding": encoding} if encoding else named
