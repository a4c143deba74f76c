"""The API server over one aiohttp session: raw dictionaries in, raw dictionaries out.

Why it is right: every request has a bound on the whole of it (the libraries' default is none, and a read time-out alone is
per read); that bound begins when a request has its turn, so a thousand at once wait for each other and not for a time-out;
what went wrong is translated here, once; ``sent`` is False only for a connection that never came to be; and the token is
read again each minute and after a 401, since bound service-account tokens are replaced under a running process.

kopf gets a session of its own, whose requests carry the same token, verify the same server and can be counted.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import aiohttp

from soloist.adapters.kube.answers import refusal_or_transient
from soloist.adapters.kube.config import Access
from soloist.domain.errors import ConfigError, PermanentError, TransientError
from soloist.ports import Raw

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
CONNECT_SECONDS = 5.0
_BOUNDS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
OnAnswer = Callable[[aiohttp.ClientRequest, aiohttp.ClientResponse], None]


def open_session(access: Access, *, limit: int, on_answer: OnAnswer | None = None) -> aiohttp.ClientSession:
    """A session of the running loop whose every request is authorised afresh, and once more after a 401."""

    async def authorise(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if access.tls_server_name:
            request.server_hostname = access.tls_server_name
        _put_token(request, await access.authorization())
        response = await send(request)
        if response.status == 401:
            fresh = await access.authorization(again=True)
            if fresh is not None:
                response.release()
                _put_token(request, fresh)
                response = await send(request)
        if on_answer is not None:
            on_answer(request, response)
        return response

    return _session(access, limit=limit, middlewares=(authorise,))


def _session(
    access: Access, *, limit: int, middlewares: Sequence[aiohttp.ClientMiddlewareType] = ()
) -> aiohttp.ClientSession:
    # Answers are not compressed: the network is near, and the processor is what is short at a burst.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, ssl=access.ssl_context(), keepalive_timeout=30.0),
        headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "soloist"},
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=middlewares,
        proxy=access.proxy,
        json_serialize=_dump,
    )


class KubeApi:
    """One API server, for one event loop. ``connections`` bounds the requests under way at once; watches come on top."""

    def __init__(self, access: Access, *, connections: int = 64, timeout: float = 10.0) -> None:
        self._access = access
        self._turns = asyncio.Semaphore(connections)
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        content_type: str = JSON,
        timeout: float | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Raw:
        """One request, answered within ``timeout`` seconds or given up. The answer must be a JSON object."""
        seconds = self._timeout if timeout is None else timeout
        doing = f"{method} {path}"
        data = None if body is None else _dump(body).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        async with self._turns:
            try:
                async with (
                    asyncio.timeout(seconds),
                    await self._send(
                        method, path, data=data, headers=headers, params=query, timeout=_BOUNDS
                    ) as response,
                ):
                    said = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError, ConfigError) as error:
                raise _unanswered(doing, error, seconds) from error
        if not 200 <= response.status < 300:
            raise refusal_or_transient(doing, response.status, said, response.headers)
        return parse_object(doing, said)

    async def lines(
        self, path: str, query: Mapping[str, str], *, quiet: float, total: float
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch. An empty line says that the stream stands; ``quiet`` seconds without a byte end it.

        Split here and not by the library, whose lines have a greatest length and whose objects may be longer.
        """
        doing = f"WATCH {path}"
        bounds = aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_SECONDS, sock_read=quiet)
        try:
            async with await self._send("GET", path, headers={}, params=query, timeout=bounds) as response:
                if response.status != 200:
                    raise refusal_or_transient(doing, response.status, await response.read(), response.headers)
                yield b""
                rest: list[bytes] = []
                async for chunk in response.content.iter_any():
                    first, *more = chunk.split(b"\n")
                    rest.append(first)
                    for line in more:
                        yield b"".join(rest)
                        rest = [line]
        except (aiohttp.ClientError, TimeoutError, OSError, ConfigError) as error:
            raise _unanswered(doing, error, quiet) from error

    async def _send(self, method: str, path: str, *, headers: dict[str, str], **more: Any) -> aiohttp.ClientResponse:
        """Authorised, and once more after a 401. A middleware would do the same, at a tenth of a request's whole cost."""
        if self._session is None:
            self._session = _session(self._access, limit=0)
        more |= {"allow_redirects": False, "server_hostname": self._access.tls_server_name}
        url = self._access.host + path
        token = await self._access.authorization()
        if token is not None:
            headers["Authorization"] = token
        response = await self._session.request(method, url, headers=headers, **more)
        if response.status != 401:
            return response
        token = await self._access.authorization(again=True)
        if token is None:
            return response
        response.release()
        headers["Authorization"] = token
        return await self._session.request(method, url, headers=headers, **more)

    async def close(self) -> None:
        """Let the connections go. The next request would open new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def parse_object(doing: str, said: bytes) -> Raw:
    """A JSON object, or a ``TransientError``: something between us and the API server answered in its place."""
    try:
        found = json.loads(said)
    except ValueError as error:
        raise TransientError(f"{doing}: the answer is not JSON: {said[:80]!r}") from error
    if not isinstance(found, dict):
        raise TransientError(f"{doing}: the answer is not a JSON object: {said[:80]!r}")
    return found


def _unanswered(doing: str, error: BaseException, seconds: float) -> TransientError | PermanentError:
    if isinstance(error, aiohttp.InvalidURL):
        return PermanentError(f"{doing}: the API server's address cannot be used: {error}")
    if isinstance(error, ConfigError):
        return TransientError(f"{doing}: {error}", sent=False)  # credentials that are there again later
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return TransientError(f"{doing}: the API server cannot be reached: {error}", sent=False)
    if isinstance(error, TimeoutError):
        return TransientError(f"{doing}: no answer within {seconds:g} s")
    return TransientError(f"{doing}: the connection broke: {str(error) or type(error).__name__}")


def _put_token(request: aiohttp.ClientRequest, token: str | None) -> None:
    if token is not None:
        request.headers["Authorization"] = token


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
