"""What people wait for while rows are worked: p95 of a request beside the same when nothing is due, inside the API and outside of it.

The deployment is that of compose.yaml, in processes: a backend for people, one for what is due, two replicas of Soloist; beside it
what the example had before, where the request that finds rows due drains them in its own process. Requests come at a fixed rate, and
each is timed from when it was to be sent, so that one which waits makes those behind it no faster. How far the rows are is asked
all the time, while there are none too: whoever asks takes part in what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psycopg

from soloist.adapters.postgres.migrate import migrate
from tests.adoption.queues_shop import DONE, HERE, QUEUES, TOKEN, Shop
from tests.bench.figures import Figure, Measured, percentile
from tests.bench.processes import load, yield_to_others
from tests.bench.running import Say
from tests.cluster.backend import Backend
from tests.postgres.server import Postgres
from tests.standalone.crew import Crew

FIGURES = (
    Figure(key="request_p95_ratio", says="p95 of a request while 2,000 rows drain / idle", most=1.2),
    Figure(key="request_p95_ratio_inside_api", says="the same, where the API drains them itself"),
)
ROWS = 2_000 // len(QUEUES)
RATE = 50
"""Requests a second."""

PROVIDER_SECONDS = 0.05
"""What a provider of mail or payments takes to answer."""

IDLE_SECONDS, AT_MOST = 6.0, 30.0
AWAY, BEHIND = 19, 12
"""Niceness. The provider is no part of the deployment: of this machine it gets what is left. What works rows comes behind what answers
people, as 64 shares of a processor do beside 1024 in compose.yaml."""


async def ask(url: str, over: Callable[[], bool]) -> list[float]:
    """Seconds that each answer took, until ``over`` says so, in a thread of its own."""
    taken: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(due: float) -> None:
            async with session.get(url) as answer:
                await answer.read()
                assert answer.status == 200, answer.status
            taken.append(time.monotonic() - due)

        async with asyncio.TaskGroup() as requests:
            began = time.monotonic()
            looking = asyncio.create_task(ended(over))
            number = 0
            while not looking.done():
                due = began + number / RATE
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                requests.create_task(one(due))
                number += 1
            looking.result()
    return taken


async def ended(over: Callable[[], bool]) -> None:
    """At the latest after AT_MOST: a row that fails inside the API waits for another order."""
    deadline = time.monotonic() + AT_MOST
    while time.monotonic() < deadline and not await asyncio.to_thread(over):
        await asyncio.sleep(0.25)


class Rounds:
    """Idle and draining by turns, on one deployment: what is slow for a while is slow for both."""

    def __init__(self, shop: Shop, url: str) -> None:
        self.shop, self.url = shop, url
        self.idle: list[float] = []
        self.draining: list[float] = []
        self.filled = shop.done()

    def go(self, rounds: int, begin: Callable[[], object] = lambda: None) -> None:
        """``begin`` is called once the rows of a round are there."""
        with psycopg.connect(self.shop.dsn, autocommit=True) as looking:

            def done() -> int:
                return int(looking.execute(DONE).fetchall()[0][0])

            def after(seconds: float) -> Callable[[], bool]:
                end = time.monotonic() + seconds
                return lambda: done() >= 0 and time.monotonic() > end

            asyncio.run(ask(self.url, after(3)))  # until the code of the backend is warm
            for _ in range(rounds):
                self.idle += asyncio.run(ask(self.url, after(IDLE_SECONDS)))
                left = self.filled - done()
                self.shop.fill(ROWS, first=self.filled // len(QUEUES))
                self.filled += ROWS * len(QUEUES)
                begin()
                self.draining += asyncio.run(ask(self.url, lambda left=left: done() >= self.filled - left))

    def ratio(self, say: Say, name: str) -> Measured:
        idle, draining = (percentile(each, 0.95) * 1000 for each in (self.idle, self.draining))
        say(
            f"{name}: p95 {draining:.1f} ms while rows drain ({len(self.draining) / RATE:.0f} s), {idle:.1f} ms idle; load {load()}"
        )
        return Measured(value=draining / idle, n=len(self.draining), note=f"{draining:.1f} ms / {idle:.1f} ms")


def drains(server: Postgres, folder: Path, *, rounds: int, say: Say) -> dict[str, Measured]:
    folder.mkdir()
    place = server.create_database("bench_requests")
    migrate(place.dsn())
    with Backend() as provider:
        yield_to_others(provider.child.pid, AWAY)
        provider.rule(delay=PROVIDER_SECONDS)
        shop = Shop(folder, place.dsn(), provider)
        env = {"SOLOIST_SECRET_BACKEND_AUTHORIZATION": f"Bearer {TOKEN}", "SOLOIST_DATA_ALLOW": "127.0.0.0/8"}
        crew = Crew(folder, place.dsn(), provider, env=env)
        try:
            shop.make_tables()
            return {
                "request_p95_ratio": outside(shop, crew, rounds, say),
                "request_p95_ratio_inside_api": inside(shop, rounds, say),
            }
        finally:
            crew.stop()
            shop.stop()


def outside(shop: Shop, crew: Crew, rounds: int, say: Say) -> Measured:
    crew.files.mkdir()
    for file in (HERE / "jobs").iterdir():
        text = file.read_text(encoding="utf-8").replace("http://backend-jobs:8000", shop.jobs.url())
        (crew.files / file.name).write_text(text, encoding="utf-8")
    shop.backend.start()
    shop.jobs.start()
    for name in ("a", "b"):
        crew.start(name)
    for name, member in crew.members.items():
        crew.hear(name, "queue is worked", count=len(QUEUES))
        yield_to_others(member.child(), BEHIND)
    yield_to_others(shop.jobs.child.pid, BEHIND)
    made = Rounds(shop, shop.backend.url(f"/orders/{shop.order()}"))
    made.go(rounds)
    crew.stop()
    shop.jobs.terminate()
    return made.ratio(say, "by queues, on a backend of their own")


def inside(shop: Shop, rounds: int, say: Say) -> Measured:
    api = shop.container("before", OWN_DRAINS="on")
    api.start()
    made = Rounds(shop, api.url(f"/orders/{shop.order()}"))
    made.go(rounds, begin=lambda: api.ask("/orders", "POST", {"customer": "c-17"}))
    return made.ratio(say, "inside the API")
