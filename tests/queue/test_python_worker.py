"""Handlers in Python: what becomes of their rows, how they hear that they are over, and how the worker goes away."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from soloist import queue
from soloist.domain.errors import ConfigError
from soloist.queue import Context, GiveUp, TryAgain, aio, work_async
from tests.postgres.server import Database
from tests.queue.books import left_behind
from tests.queue.rows import Connection, claim, enqueue, items, scalar
from tests.queue.workers import Crew

DEADLINE = 90.0


async def reached(what: Callable[[], Any], sentence: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while not await asyncio.to_thread(what):
            await asyncio.sleep(0.01)
    assert what(), sentence


def worked(
    database: Database, handler: Callable[[Context], Any], over: Callable[[], Any], *, of: str = "q", **how: Any
) -> None:
    """Until ``over`` says so; then the worker goes away, and leaves no claim behind."""

    async def inside() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(work_async(database.dsn(), of, handler, stop=stop, **how))
        reaching = asyncio.create_task(reached(over, "in time"))
        await asyncio.wait({task, reaching}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await task
        await reaching

    asyncio.run(inside())
    with database.connect() as looking:
        assert left_behind(looking) == {}


def none_left(connection: Connection) -> Callable[[], bool]:
    return lambda: scalar(connection, "SELECT count(*) FROM soloist.work_items") == 0


def test_every_row_is_handled_in_a_thread_or_awaited(queue_database: Database, connection: Connection) -> None:
    for awaited in (False, True):
        enqueue(connection, 200)
        seen: list[tuple[int, str, int]] = []
        lock = threading.Lock()

        def note(ctx: Context, seen: list[tuple[int, str, int]] = seen, lock: threading.Lock = lock) -> None:
            with lock:
                seen.append((ctx.payload["n"], ctx.key, ctx.fence))

        async def note_awaited(ctx: Context, note: Callable[[Context], None] = note) -> None:
            note(ctx)

        worked(queue_database, note_awaited if awaited else note, none_left(connection))
        assert sorted(n for n, _, _ in seen) == list(range(200))
        assert len({key for _, key, _ in seen}) == len({fence for _, _, fence in seen}) == 200


def test_a_handler_that_fails_gets_its_row_again_under_the_same_key_and_the_next_attempt(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection)
    tries: list[tuple[str, int, int]] = []

    async def third_time_lucky(ctx: Context) -> None:
        tries.append((ctx.key, ctx.attempt, ctx.fence))
        if len(tries) < 3:
            raise TryAgain("not yet", after=timedelta(0))

    worked(queue_database, third_time_lucky, none_left(connection))
    assert [attempt for _, attempt, _ in tries] == [1, 2, 3]
    assert len({key for key, _, _ in tries}) == 1
    assert [fence for *_, fence in tries] == sorted({fence for *_, fence in tries})


def test_a_row_is_given_up_when_the_handler_says_so_or_its_attempts_are_used_up(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection, 2)

    def refuse(ctx: Context) -> None:
        if ctx.payload["n"] == 0:
            raise GiveUp("no such customer")
        raise KeyError("email")

    worked(queue_database, refuse, none_left(connection), max_attempts=1)
    dead = [(row["payload"]["n"], row["reason"], row["last_error"]) for row in items(connection, "dead_items")]
    assert dead == [(0, "Failed", "GiveUp: no such customer"), (1, "Failed", "KeyError: 'email'")]


def test_with_hold_an_attempt_that_breaks_is_parked_and_one_that_says_nothing_happened_is_not(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection, 2)
    tries: list[int] = []

    def pay(ctx: Context) -> None:
        tries.append(ctx.payload["n"])
        if ctx.payload["n"] == 0:
            raise OSError("reset in the middle")
        if tries.count(1) == 1:
            raise TryAgain("refused before anything was sent", after=timedelta(0))

    worked(queue_database, pay, none_left(connection), hold=True)
    assert sorted(tries) == [0, 1, 1]
    assert [(row["payload"]["n"], row["reason"]) for row in items(connection, "dead_items")] == [(0, "Interrupted")]


def test_a_handler_that_ends_its_claim_with_its_effect_leaves_nothing_to_write(
    queue_database: Database, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute("CREATE TABLE effects (n int)")
    enqueue(connection, 20)

    async def effect(ctx: Context) -> None:
        async with await psycopg.AsyncConnection.connect(queue_database.dsn()) as ours:
            await ours.execute("INSERT INTO effects VALUES (%s)", (ctx.payload["n"],))
            await aio.complete(ours, ctx)

    worked(queue_database, effect, none_left(connection))
    assert scalar(connection, "SELECT array_agg(n ORDER BY n) FROM effects") == list(range(20))
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_row_keeps_the_key_that_it_was_sent_under_over_http(crew: Crew) -> None:
    crew.queue("q", retry={"schedule": ["1s"]})
    crew.backend.rule(status=500)
    crew.fill(1)
    sender = crew.ready("w")
    (request, *_) = crew.backend.wait(1)
    sender.terminate()
    assert sender.gone() == 0
    seen: list[Context] = []
    worked(crew.database, seen.append, lambda: crew.left() == 0, of="default/q")
    (ctx,) = seen
    assert ctx.key == request.header("Idempotency-Key")
    assert ctx.attempt == 1 + len(crew.backend.received("/q"))
    assert ctx.fence > int(request.header("Soloist-Fence") or 0)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_handler_whose_row_is_cancelled_hears_of_it_and_can_write_nothing(
    queue_database: Database, connection: Connection, awaited: bool
) -> None:
    (row,) = enqueue(connection)
    begun, heard = threading.Event(), threading.Event()
    refused: list[str] = []

    def notice(ctx: Context) -> None:
        assert ctx.cancelled
        with suppress(queue.ClaimLost):
            ctx.extend()
            refused.append("extend() went on")
        with queue_database.connect(autocommit=False) as ours, suppress(queue.ClaimLost):
            queue.complete(ours, ctx)
            refused.append("complete() went on")
        heard.set()

    def in_thread(ctx: Context) -> None:
        begun.set()
        assert ctx.wait_cancelled(DEADLINE)
        notice(ctx)

    async def in_task(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            notice(ctx)

    def over() -> bool:
        if begun.is_set() and not heard.is_set():
            queue.cancel(connection, row)
        return heard.is_set()

    worked(queue_database, in_task if awaited else in_thread, over, lease_seconds=5)
    assert refused == []
    assert items(connection) == items(connection, "dead_items") == []


TIME, EACH, LOOKS = 4.0, 0.5, 10
"""Seconds that a handler may take, and those in which it asks for more: it may be late by seven times as many."""


@pytest.mark.parametrize("awaited", [False, True])
def test_a_handler_that_is_over_its_time_has_failed_and_one_that_extends_it_has_not(
    queue_database: Database, connection: Connection, awaited: bool
) -> None:
    enqueue(connection, 2)
    ended: list[tuple[int, bool]] = []

    def in_thread(ctx: Context) -> None:
        for _ in range(LOOKS):
            if ctx.payload["n"] == 1:
                ctx.extend()
            if ctx.wait_cancelled(EACH):
                break
        ended.append((ctx.payload["n"], ctx.cancelled))

    async def in_task(ctx: Context) -> None:
        try:
            for _ in range(LOOKS):
                if ctx.payload["n"] == 1:
                    ctx.extend()
                await asyncio.sleep(EACH)
        finally:
            ended.append((ctx.payload["n"], ctx.cancelled))

    handler = in_task if awaited else in_thread
    worked(queue_database, handler, none_left(connection), timeout_seconds=TIME, max_attempts=1)
    assert sorted(ended) == [(0, True), (1, False)]
    (dead,) = items(connection, "dead_items")
    assert (dead["payload"], "took longer than it may" in dead["last_error"]) == ({"n": 0}, True)


def test_a_worker_that_goes_away_lets_what_runs_end_and_puts_the_rest_back_untried(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection, 2)
    begun: set[int] = set()
    going = threading.Event()

    def handler(ctx: Context) -> None:
        begun.add(ctx.payload["n"])
        going.wait(DEADLINE)
        if ctx.payload["n"] == 1:
            ctx.wait_cancelled(DEADLINE)

    def over() -> bool:
        if len(begun) == 2:
            going.set()
        return going.is_set()

    worked(queue_database, handler, over, grace_seconds=8.0)
    (left,) = items(connection)
    assert (left["payload"], left["fence"], left["attempt"], left["reclaims"]) == ({"n": 1}, None, 1, 0)
    (again,) = claim(connection)
    assert again.tries == 1
    assert items(connection, "dead_items") == []


PROGRAM = """
import os, sys, time
from soloist.queue import work
def handler(ctx):
    os.write(1, b"begun\\n")
    time.sleep(0.5 if ctx.payload["n"] == 0 else 600)
work(sys.argv[1], "q", handler, grace_seconds=8)
"""


def test_sigterm_ends_the_process_although_a_thread_never_heeds_it(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection, 2)
    argv = [sys.executable, "-c", PROGRAM, queue_database.dsn()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline() for _ in range(2)] == ["begun\n", "begun\n"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE) == 0
        finally:
            process.kill()
    (left,) = items(connection)
    assert (left["payload"], left["fence"], left["attempt"]) == ({"n": 1}, None, 1)


def test_a_worker_waits_for_a_database_that_is_not_migrated(
    queue_database: Database, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = queue_database.server.dsn("postgres")

    async def inside() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(work_async(dsn, "q", print, stop=stop))
        await reached(lambda: "run soloist migrate" in caplog.text, "it says what to do")
        stop.set()
        await task

    asyncio.run(inside())


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"retry_schedule": ["soon"]}, "must be whole seconds, minutes, hours or days"),
        ({"concurrency": 0}, "perWorker"),
        ({"lease_seconds": 1}, "leaseSeconds"),
        ({"max_attempts": 0}, "maxAttempts"),
    ],
)
def test_what_a_worker_cannot_be_told_is_said_at_its_start(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        asyncio.run(work_async("postgresql://nowhere/none", "q", print, stop=asyncio.Event(), **how))


def test_a_function_that_gives_something_to_await_is_told_what_to_be(
    queue_database: Database, connection: Connection
) -> None:
    enqueue(connection)

    class Later:
        def __await__(self) -> Iterator[None]:
            yield

    def handler(ctx: Context) -> Later:
        return Later()

    worked(queue_database, handler, none_left(connection), max_attempts=1)
    (dead,) = items(connection, "dead_items")
    assert "make it an async function itself" in dead["last_error"]
