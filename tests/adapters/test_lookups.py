"""Names for which nobody answers: whatever else is looked up does not wait for them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from soloist.adapters.http import lookups
from soloist.adapters.http.lookups import AT_ONCE, AddrInfo, Lookups

FAMILY = socket.AF_UNSPEC
DEAD = [f"dead-{number}.example" for number in range(3 * AT_ONCE)]


class NameServer:
    """Answers at once, but for names that begin with "dead", until it is ``woken``."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.asked: Counter[str] = Counter()
        self.now, self.most = 0, 0
        self._lock = threading.Lock()

    def __call__(self, host: str, port: int, **_: object) -> Sequence[AddrInfo]:
        with self._lock:
            self.asked[host] += 1
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            if host.startswith("dead") and not self.woken.wait(300):
                raise socket.gaierror(socket.EAI_AGAIN, "nobody answers")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))]
        finally:
            with self._lock:
                self.now -= 1


def test_names_that_nobody_answers_for_give_their_places_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "PATIENCE", 0.7)

    async def scene() -> None:
        server = NameServer()
        found = Lookups(server)
        stuck = [asyncio.create_task(found.of(name, 80, FAMILY)) for name in DEAD]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert await found.of("well.example", 80, FAMILY), "behind three times as many as there are places"
        assert not any(task.done() for task in stuck)
        async with asyncio.timeout(60):
            while len(found.slow) < len(DEAD):
                await asyncio.sleep(0.01)
        monkeypatch.setattr(lookups, "PATIENCE", 600.0)  # who takes a place now keeps it
        again = [asyncio.create_task(found.of(name, 81, FAMILY)) for name in DEAD]
        await asyncio.sleep(0)
        async with asyncio.timeout(40):
            for _ in range(50):
                await found.of("well.example", 80, FAMILY)
        assert not any(task.done() for task in again), "names that are known to be slow take no place of the others"
        assert server.most <= len(DEAD) + AT_ONCE + 1
        server.woken.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*stuck, *again)
        before = server.asked["dead-0.example"]
        await found.of("dead-0.example", 80, FAMILY)
        assert server.asked["dead-0.example"] == before + 1

    asyncio.run(scene())


def test_the_threads_are_bounded_and_every_place_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "PATIENCE", 0.02)
    monkeypatch.setattr(lookups, "MOST_STUCK", 5)

    async def scene() -> None:
        server = NameServer()
        found = Lookups(server)
        stuck = [asyncio.create_task(found.of(name, 80, FAMILY)) for name in DEAD]
        async with asyncio.timeout(60):
            while server.most < AT_ONCE + 5:
                await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await found.of("well.example", 80, FAMILY)
        assert server.most == AT_ONCE + 5
        for task in stuck[::2]:
            task.cancel()
        server.woken.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*stuck, return_exceptions=True)
            for _ in range(3 * AT_ONCE):
                await found.of("well.example", 80, FAMILY)

    asyncio.run(scene())


@pytest.mark.parametrize("host", ["a..example", "x" * 70 + ".example", "\udcff"])
def test_what_is_no_name_is_an_error_of_the_world_and_not_of_ours(host: str) -> None:
    async def scene() -> Any:
        return await Lookups().of(host, 80, FAMILY)

    with pytest.raises(OSError, match=r"name|host|not known|failure"):
        asyncio.run(scene())


ENDS = """
import asyncio, time
from soloist.adapters.http.lookups import Lookups

async def main():
    task = asyncio.create_task(Lookups(lambda *a, **b: time.sleep(60)).of("dead", 80, 0))
    await asyncio.sleep(0.1)
    task.cancel()

asyncio.run(main())
"""


def test_a_process_that_goes_away_does_not_wait_for_the_name_server() -> None:
    subprocess.run([sys.executable, "-c", ENDS], check=True, timeout=50)
