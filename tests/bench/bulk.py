"""Many objects at once, over connections that are kept: to arrange a thousand of them in seconds."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.cluster.client import ApiError
from tests.cluster.control_plane import ControlPlane

Request = tuple[str, str, Any]
AT_ONCE = 16


def send_all(cluster: ControlPlane, requests: Sequence[Request]) -> list[Any]:
    """(method, path, body) each, answered in order; an ApiError where one was refused."""
    return asyncio.run(_send_all(cluster, requests))


def create_all(cluster: ControlPlane, path: str, bodies: Sequence[Any]) -> list[Any]:
    return send_all(cluster, [("POST", path, body) for body in bodies])


async def _send_all(cluster: ControlPlane, requests: Sequence[Request]) -> list[Any]:
    secure = ssl.create_default_context(cafile=str(cluster.ca))
    headers = {"Authorization": f"Bearer {cluster.tokens['admin']}", "Content-Type": "application/json"}
    turn = asyncio.Semaphore(AT_ONCE)
    connector = aiohttp.TCPConnector(ssl=secure, limit=AT_ONCE)
    async with aiohttp.ClientSession(cluster.server, connector=connector, headers=headers) as session:

        async def one(method: str, path: str, body: Any) -> Any:
            content = None if body is None else json.dumps(body).encode()
            async with turn, session.request(method, path, data=content) as answer:
                said = await answer.json(content_type=None)
            if answer.status >= 400:
                raise ApiError(method, path, answer.status, said)
            return said

        return await asyncio.gather(*(one(*request) for request in requests))
