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
from pathlib import Path
from typing import Any

from aiohttp import web


class Receiver:
    """Rules are dicts: path (regular expression), holding (text in the request's body), status, body, headers, delay, hang,
    reset, kill_pid, kill_pid_file, kill_after_reply, times. The newest that matches decides."""

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
        if not rule.get("kill_after_reply"):
            kill(rule)
        answer = await self.act(request, rule)
        self.record(event="ended", number=number, wall=time.time(), boot=time.clock_gettime(time.CLOCK_BOOTTIME))
        if rule.get("kill_after_reply"):
            await answer.prepare(request)
            await answer.write_eof()
            kill(rule)
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


def kill(rule: dict[str, Any]) -> None:
    """SIGKILL to a process; one that is dead already is what was wanted."""
    pid = rule.get("kill_pid")
    if rule.get("kill_pid_file") and Path(rule["kill_pid_file"]).exists():
        pid = int(Path(rule["kill_pid_file"]).read_text())
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


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
