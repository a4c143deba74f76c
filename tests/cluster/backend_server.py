"""The process behind `backend.Backend`: records each request in a file before it answers, then does what a rule says.

Run as `python backend_server.py FILE ADDRESS`. It writes its two ports beside the file: one is for the application under test, one for
the test.
Every record is one write to a file opened for appending, so whoever is killed next, what was received stays known.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

ESTABLISHED = "01"


class Receiver:
    """Rules are dicts: path (regular expression), holding (text in the request's body), status, body, headers, delay, hang,
    reset, writes, kill_caller, kill_after_reply, times. The newest that matches decides."""

    def __init__(self, file: Path) -> None:
        self.records = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.rules: list[dict[str, Any]] = []
        self.numbers = itertools.count(1)

    async def receive(self, request: web.BaseRequest) -> web.StreamResponse:
        wall, boot = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
        number = next(self.numbers)
        body = await request.read()
        self.record(
            event="received",
            number=number,
            wall=wall,
            boot=boot,
            method=request.method,
            path=request.path_qs,
            headers=dict(request.headers),
            body=body.decode(errors="replace"),
        )
        rule = self.rule_for(request.path_qs, body)
        victim = caller(request) if rule.get("kill_caller") or rule.get("kill_after_reply") else 0
        if rule.get("kill_caller"):
            kill(victim)
        answer = await (self.write(request, rule) if rule.get("writes") else self.act(request, rule))
        self.record(event="ended", number=number, wall=time.time(), boot=time.clock_gettime(time.CLOCK_BOOTTIME))
        if rule.get("kill_after_reply"):
            await answer.prepare(request)
            await answer.write_eof()
            kill(victim)
        return answer

    async def write(self, request: web.BaseRequest, rule: dict[str, Any]) -> web.StreamResponse:
        """As an application should: its first row when it begins and its last when it is done, in one transaction with the key."""
        import psycopg  # of which other backends have no need

        from soloist.queue import aio

        given = (request.headers["Idempotency-Key"], int(request.headers["Soloist-Fence"]))
        async with await psycopg.AsyncConnection.connect(rule["writes"]) as connection:
            if not await aio.once(connection, *given):
                return web.Response(text="done before")
            await connection.execute("INSERT INTO history (key, fence) VALUES (%s, %s)", given)
            answer = await self.act(request, rule)
            await connection.execute("INSERT INTO notifications (key, fence) VALUES (%s, %s)", given)
        return answer

    async def act(self, request: web.BaseRequest, rule: dict[str, Any]) -> web.StreamResponse:
        if rule.get("delay"):
            await asyncio.sleep(rule["delay"])
        if rule.get("hang"):
            await asyncio.Event().wait()
        if rule.get("reset") and request.transport is not None:
            raw = request.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.transport.abort()
        return web.Response(
            status=rule.get("status", 200), body=rule.get("body", "ok").encode(), headers=rule.get("headers", {})
        )

    def rule_for(self, path: str, body: bytes) -> dict[str, Any]:
        for rule in self.rules:
            meant = re.search(rule.get("path", ""), path) and rule.get("holding", "").encode() in body
            if rule.get("times") != 0 and meant:
                if rule.get("times"):
                    rule["times"] -= 1
                return rule
        return {}

    def record(self, **fields: Any) -> None:
        os.write(self.records, (json.dumps(fields) + "\n").encode())

    async def control(self, request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            self.rules.insert(0, await request.json())
        if request.method == "DELETE":
            self.rules.clear()
        return web.json_response({"rules": self.rules})


def caller(request: web.BaseRequest) -> int:
    """The process that sent the request, whichever it is; 0 where it has gone already."""
    if request.transport is None:
        return 0
    own, peer = (request.transport.get_extra_info(name)[1] for name in ("sockname", "peername"))
    return caller_of(peer, own)


def kill(pid: int) -> None:
    """SIGKILL; one that has gone already is what was wanted."""
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def caller_of(peer_port: int, own_port: int) -> int:
    """The process at the other end of a connection of 127.0.0.1, as the kernel has it in /proc; 0 where none has it open any more."""
    inode = _inode_of(peer_port, own_port)
    if not inode:
        return 0
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and wanted in _open_files(process):
            return int(process.name)
    return 0


def _inode_of(local_port: int, remote_port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = tuple(int(address.rpartition(":")[2], 16) for address in fields[1:3])
        if ports == (local_port, remote_port) and fields[3] == ESTABLISHED:
            return fields[9]
    return ""


def _open_files(process: Path) -> set[str]:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return set()  # it has ended meanwhile
    found = set()
    for descriptor in descriptors:
        with suppress(OSError):  # it has been closed meanwhile
            found.add(os.readlink(descriptor))
    return found


async def listen(handle: Any, address: str) -> int:
    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, address, 0, backlog=4096)
    await site.start()
    return int(runner.addresses[0][1])


async def main(file: Path, address: str) -> None:
    receiver = Receiver(file)
    ports = {"port": await listen(receiver.receive, address), "control": await listen(receiver.control, "127.0.0.1")}
    made = file.with_suffix(".ports.new")
    made.write_text(json.dumps(ports))
    made.rename(file.with_suffix(".ports"))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
