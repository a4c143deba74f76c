"""A new leader and what the old one has left in the database: it is told for sure, in no time, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.actions import FailedKnown, Outcome, Succeeded
from soloist.domain.errors import TransientError
from tests.cluster.children import Child, until
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database, Postgres
from tests.queue.rows import Connection, scalar
from tests.queue.runs import JOB, leading, play

NOTE = "INSERT INTO notes (epoch) VALUES ('{}')"
LONG = "WITH x AS (SELECT pg_sleep(28)) INSERT INTO notes (epoch) SELECT '{}' FROM x"
BUSY, QUIET = 14.0, 2.0
"""Seconds that a takeover may take: on a machine with much else to do half of what a statement takes that it is not to wait for."""
Start = Callable[..., Child]


@pytest.fixture(params=[BUSY, pytest.param(QUIET, marks=pytest.mark.long)])
def within(request: pytest.FixtureRequest) -> float:
    """Seconds. The promise itself is held by `make test-long`, one test at a time."""
    return float(request.param)


@pytest.fixture
def notes(queue_database: Database, connection: Connection) -> Connection:
    connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, epoch text)")
    return connection


@pytest.fixture
def leaders(tmp_path: Path) -> Iterator[Start]:
    """Starts one in a process of its own, which launches one run and strikes itself at a stage."""
    started: list[Child] = []

    def start(dsn: str, epoch: int, statement: str, tick: int = 0, *, at: str = "", strike: str = "SIGSTOP") -> Child:
        settings = {"dsn": dsn, "epoch": epoch, "tick": tick, "statement": statement, "at": at, "signal": strike}
        name = f"leader-{len(started)}"
        argv = [sys.executable, "-m", "tests.queue.runs", json.dumps(settings)]
        started.append(Child(name, argv, log=tmp_path / f"{name}.log"))
        started[-1].start()
        return started[-1]

    yield start
    for child in started:
        child.stop()


def logged(child: Child, words: str) -> Callable[[], bool]:
    return lambda: words in child.log.read_text()


def standing_still(child: Child) -> bool:
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def noted(connection: Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT epoch FROM notes ORDER BY id")]


def sleeping(connection: Connection) -> bool:
    """Whether a statement is in the middle of its half a minute."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    return bool(scalar(connection, query))


def taken_over(database: Database, epoch: int = 2, tick: int = 0) -> tuple[Outcome | None, Outcome | None, float]:
    """What a new leader found, what it then launched (None where it was done), and how long both took."""

    async def scene() -> tuple[Outcome | None, Outcome | None, float]:
        async with leading(database.dsn(), epoch) as leader:
            began = time.monotonic()
            found = await leader.found(tick)
            launched = await leader.launch(NOTE.format(epoch), tick) if found is None else None
            return found, launched, time.monotonic() - began

    return play(scene())


def test_a_stale_leader_commits_nothing_and_hears_that_it_is_over(queue_database: Database, notes: Connection) -> None:
    async def scene() -> None:
        async with leading(queue_database.dsn(), 1) as old, leading(queue_database.dsn(), 2) as new:
            assert isinstance(await old.launch(NOTE.format(1), 0), Succeeded)
            assert isinstance(await new.found(0), Succeeded)
            assert await new.found(1) is None
            with pytest.raises(TransientError, match="belongs to a later term") as raised:
                await old.launch(NOTE.format(1), 1)
            assert not raised.value.sent
            with pytest.raises(TransientError, match="belongs to a later term"):
                await old.found(1)
            assert isinstance(await new.launch(NOTE.format(2), 1), Succeeded)

    play(scene())
    assert noted(notes) == ["1", "2"]


@pytest.mark.parametrize("at", ["ledger", "effect"])
def test_the_check_refuses_whoever_was_overtaken_in_the_middle(
    queue_database: Database, notes: Connection, at: str
) -> None:
    """Not ended by the new leader, since it goes by another name here: the check alone stops it."""

    async def scene() -> None:
        async with leading(queue_database.dsn(), 1) as old:

            def take(stage: str) -> None:
                if stage == at:
                    assert scalar(notes, "SELECT soloist.take_epoch('cluster/soloist/soloist', 2)") == 2

            old.launcher._stage = take
            with pytest.raises(TransientError, match="belongs to a later term"):
                await old.launch(NOTE.format(1))

    play(scene())
    assert noted(notes) == []
    assert scalar(notes, "SELECT count(*) FROM soloist.job_runs") == 0


@pytest.mark.parametrize("at", ["ledger", "effect"])
def test_a_leader_that_froze_in_the_middle_holds_nobody_up_and_commits_nothing_on_waking(
    queue_database: Database, notes: Connection, leaders: Start, at: str, within: float
) -> None:
    frozen = leaders(queue_database.dsn(), 1, NOTE.format(1), at=at)
    until(lambda: standing_still(frozen), what="it stands still inside of its transaction", timeout=90)
    found, launched, took = taken_over(queue_database)
    assert found is None
    assert isinstance(launched, Succeeded)
    assert took < within
    frozen.resume()
    until(lambda: not frozen.alive(), what="it comes to its end", timeout=90)
    assert "stage committed" not in frozen.log.read_text()
    assert noted(notes) == ["2"]


def test_what_a_new_leader_was_told_is_not_done_is_never_done_by_the_old_one(
    queue_database: Database, notes: Connection, leaders: Start
) -> None:
    frozen = leaders(queue_database.dsn(), 1, NOTE.format(1), at="effect")
    until(lambda: standing_still(frozen), what="it stands still inside of its transaction", timeout=90)

    async def scene() -> None:
        async with leading(queue_database.dsn(), 2) as leader:
            assert await leader.found() is None

    play(scene())
    frozen.resume()
    until(lambda: not frozen.alive(), what="it comes to its end", timeout=90)
    assert noted(notes) == []


def test_a_leader_that_froze_after_its_commit_is_not_repeated(
    queue_database: Database, notes: Connection, leaders: Start, within: float
) -> None:
    frozen = leaders(queue_database.dsn(), 1, NOTE.format(1), at="committed")
    until(lambda: standing_still(frozen), what="it stands still", timeout=90)
    found, launched, took = taken_over(queue_database)
    assert isinstance(found, Succeeded)
    assert launched is None
    assert took < within
    assert noted(notes) == ["1"]


@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_half_a_minute_of_a_statement_holds_nobody_up(
    queue_database: Database, notes: Connection, leaders: Start, strike: signal.Signals, within: float
) -> None:
    old = leaders(queue_database.dsn(), 1, LONG.format(1))
    until(lambda: sleeping(notes), what="its statement runs", timeout=90)
    old.signal(strike)
    found, launched, took = taken_over(queue_database)
    assert found is None
    assert isinstance(launched, Succeeded)
    assert took < within
    assert not sleeping(notes)
    assert noted(notes) == ["2"]


def test_the_statement_of_a_killed_leader_ends_by_itself_where_nobody_takes_over(
    queue_database: Database, notes: Connection, leaders: Start, within: float
) -> None:
    old = leaders(queue_database.dsn(), 1, LONG.format(1))
    until(lambda: sleeping(notes), what="its statement runs", timeout=90)
    old.signal(signal.SIGKILL)
    until(lambda: not sleeping(notes), what="the server has noticed", timeout=within)
    assert noted(notes) == []


def test_where_the_new_leader_may_end_nobody_time_outs_do(
    own_queue_database: Database, postgres: Postgres, leaders: Start, within: float
) -> None:
    """Roles of their own for both: the old one's transaction lasts until it has been idle for too long."""
    with own_queue_database.connect() as connection:
        connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, epoch text)")
        for role in ("old_leader", "new_leader"):
            connection.execute("SELECT soloist.allow_work(%s)", (postgres.role(role),))
            connection.execute(f"GRANT SELECT, INSERT ON notes TO {role}")
        frozen = leaders(own_queue_database.dsn("old_leader"), 1, NOTE.format(1), at="effect")
        until(lambda: standing_still(frozen), what="it stands still inside of its transaction", timeout=90)

        async def scene() -> float:
            async with leading(own_queue_database.dsn("new_leader"), 2) as leader:
                began = time.monotonic()
                assert await leader.found() is None
                assert isinstance(await leader.launch(NOTE.format(2)), Succeeded)
                return time.monotonic() - began

        assert play(scene()) < within + 0.5, "two seconds of idleness, begun before"
        assert noted(connection) == ["2"]


def test_nobody_holds_the_epoch_while_he_works(queue_database: Database, notes: Connection, leaders: Start) -> None:
    """The check comes last: had it come first, the lock of it would keep the new leader waiting for the statement's end."""
    old = leaders(queue_database.dsn(), 1, LONG.format(1))
    until(lambda: sleeping(notes), what="its statement runs", timeout=90)
    notes.execute("SET lock_timeout = '500ms'")
    assert scalar(notes, "SELECT soloist.take_epoch('cluster/soloist/soloist', 2)") == 2
    old.signal(signal.SIGKILL)
    with queue_database.connect(autocommit=False) as first:
        first.execute("SELECT soloist.check_epoch('cluster/soloist/soloist', 2)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            notes.execute("SELECT soloist.take_epoch('cluster/soloist/soloist', 3)")


def test_nobody_holds_the_epoch_while_what_was_put_off_to_the_commit_is_done(
    queue_database: Database, notes: Connection, leaders: Start, within: float
) -> None:
    notes.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(28); RETURN NULL; END'"
    )
    notes.execute(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    old = leaders(queue_database.dsn(), 1, NOTE.format(1))
    until(lambda: sleeping(notes), what="its trigger is at it", timeout=90)
    notes.execute("SET lock_timeout = '500ms'")
    assert scalar(notes, "SELECT soloist.take_epoch('cluster/soloist/soloist', 2)") == 2
    old.signal(signal.SIGKILL)
    until(lambda: not sleeping(notes), what="the server has noticed", timeout=within)
    notes.execute("DROP FUNCTION slow() CASCADE")
    assert noted(notes) == []


def test_leaders_killed_at_every_point_one_after_the_other_leave_each_run_done_once(
    queue_database: Database, notes: Connection, leaders: Start
) -> None:
    """Each tick has three leaders that die at it, wherever that is; the fourth finds out, and does what is left."""
    stages = ["ledger", "effect", "committed"]
    ticks = range(9)
    for number in range(3):
        dying = []
        for tick in ticks:
            at = stages[(tick // 3**number) % 3]
            epoch = 1 + number
            dying.append(leaders(queue_database.dsn(), epoch, NOTE.format(epoch), tick, at=at, strike="SIGKILL"))
        for child in dying:
            until(lambda child=child: not child.alive(), what=f"{child.name} is dead", timeout=60)
    outcomes = [taken_over(queue_database, 4, tick)[:2] for tick in ticks]
    assert all(isinstance(found or launched, Succeeded) for found, launched in outcomes)
    assert scalar(notes, "SELECT count(*) FROM notes") == len(ticks)
    per_run = "SELECT array_agg(DISTINCT n) FROM (SELECT count(*) AS n FROM soloist.job_runs GROUP BY run_key) AS x"
    assert scalar(notes, per_run) == [1]
    assert scalar(notes, "SELECT count(*) FROM soloist.job_runs WHERE job_uid = %s", (JOB,)) == len(ticks)


# A commit of which nobody hears


def test_a_commit_whose_reply_is_lost_is_looked_up_and_known(queue_database: Database, notes: Connection) -> None:
    async def scene(proxy: TcpProxy) -> Outcome:
        async with leading(queue_database.dsn(port=proxy.port)) as leader:

            def deafen(stage: str) -> None:
                if stage == "effect":
                    proxy.hold_replies()

            leader.launcher._stage = deafen
            launch = asyncio.create_task(leader.launch(NOTE.format(1)))
            async with asyncio.timeout(90):
                while not noted(notes):
                    await asyncio.sleep(0.02)
            proxy.cut()
            proxy.forward()
            return await launch

    with TcpProxy(queue_database.server.port) as proxy:
        outcome = play(scene(proxy))
    assert isinstance(outcome, Succeeded)
    assert outcome.message == "It was committed under fence 1."
    assert noted(notes) == ["1"]


def test_a_commit_that_never_arrived_is_looked_up_and_known_too(queue_database: Database, notes: Connection) -> None:
    async def scene(proxy: TcpProxy) -> tuple[Outcome, Outcome]:
        held = asyncio.Event()
        async with leading(queue_database.dsn(port=proxy.port)) as leader:

            def hold(stage: str) -> None:
                if stage == "effect":
                    proxy.hold_requests()
                    held.set()

            leader.launcher._stage = hold
            launch = asyncio.create_task(leader.launch(NOTE.format(1)))
            async with asyncio.timeout(90):
                await held.wait()
                while not scalar(notes, ENDED_BY_THE_SERVER):
                    await asyncio.sleep(0.02)
            proxy.cut()
            proxy.forward()
            first = await launch
            leader.launcher._stage = lambda _: None
            return first, await leader.launch(NOTE.format(1), attempt=2)

    with TcpProxy(queue_database.server.port) as proxy:
        first, second = play(scene(proxy))
    assert isinstance(first, FailedKnown)
    assert (first.reason, first.retryable) == ("NotCommitted", True)
    assert isinstance(second, Succeeded)
    assert noted(notes) == ["1"]


ENDED_BY_THE_SERVER = """SELECT count(*) = 0 FROM pg_stat_activity
    WHERE state = 'idle in transaction' AND application_name LIKE 'soloist ____________ 1'"""
"""No transaction waits for its client any more: it was idle for too long."""


def test_a_server_that_crashes_in_the_middle_of_commits_loses_and_doubles_nothing(
    fresh_postgres: Callable[..., Postgres],
) -> None:
    server = fresh_postgres()
    database = server.create_database("rough")
    migrate(database.dsn())
    with database.connect() as connection:
        connection.execute("CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, epoch text)")

    async def run(leader: Any, tick: int) -> Outcome:
        """As the controller does it: a known failure is tried again."""
        while True:
            outcome: Outcome = await leader.launch(NOTE.format(tick), tick)
            if not isinstance(outcome, FailedKnown):
                return outcome
            assert outcome.retryable, outcome
            await asyncio.sleep(0.05)

    async def scene() -> None:
        async with leading(database.dsn()) as leader:
            runs = asyncio.gather(*(run(leader, tick) for tick in range(400)))
            while leader.stages.count("committed") < 100:
                await asyncio.sleep(0)
            await asyncio.to_thread(server.restart, "immediate")
            assert all(isinstance(outcome, Succeeded) for outcome in await runs)

    play(scene())
    with database.connect() as connection:
        assert sorted(map(int, noted(connection))) == list(range(400))
