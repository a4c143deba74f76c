"""sql and enqueue actions from end to end: each tick's effect is one row, whoever is killed, frozen or cut off, and when."""

from __future__ import annotations

import base64
import signal
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import psycopg
import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.instants import parse_time
from tests.api.crew import Crew, Raw
from tests.api.desk import Desk
from tests.api.going_on import decided_ticks
from tests.api.tending import (
    CALM,
    EVERY_TICK,
    FINAL,
    KEEP,
    STEADY,
    Crews,
    ended,
    now,
    phase_of,
    start,
    start_each,
    through,
    tick_of,
)
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.postgres.server import Database, Postgres

pytestmark = pytest.mark.cluster

STAGES = ("recorded", "ledger", "effect", "committed", "answered")
"""Recorded; in the ledger, uncommitted; its effect too; committed, and nobody heard; heard, and not written down."""
TABLE = """CREATE TABLE effects (at timestamptz DEFAULT clock_timestamp(), place text, key text, tick text, fence bigint);
CREATE SEQUENCE tries"""
NOTE = "INSERT INTO effects (place, key, tick, fence) VALUES (:place, :key, :tick, :fence)"
VARIABLES = {"key": "{key}", "tick": "{scheduledTime}", "fence": "{fence}"}


@pytest.fixture
def effects(postgres: Postgres) -> Iterator[Database]:
    made = postgres.create_database(f"e_{uuid.uuid4().hex[:12]}")
    prepare(made)
    yield made
    postgres.drop_database(made.name)


def prepare(database: Database) -> None:
    migrate(database.dsn())
    with database.connect() as connection:
        connection.execute(TABLE)


def secret(crew: Crew, uri: str, name: str = "db") -> None:
    data = {"uri": base64.b64encode(uri.encode()).decode()}
    crew.cluster.api().create(crew.namespace.path("secrets"), {"metadata": {"name": name}, "data": data})


def sql(statement: str = NOTE, **parameters: Any) -> Raw:
    given = {**VARIABLES, **parameters}
    used = {name: value for name, value in given.items() if f":{name}" in statement}
    return {"databaseRef": {"secretName": "db", "key": "uri"}, "statement": statement, "parameters": used}


def row(queue: str) -> Raw:
    payload = {"key": "{key}", "tick": "{scheduledTime}"}
    return {"databaseRef": {"secretName": "db", "key": "uri"}, "queue": queue, "payload": payload}


def ticks_noted(database: Database, place: str) -> list[str]:
    with database.connect() as connection:
        found = connection.execute("SELECT tick FROM effects WHERE place = %s ORDER BY tick", (place,))
        return [tick for (tick,) in found]


def ticks_queued(database: Database, queue: str) -> list[str]:
    with database.connect() as connection:
        query = "SELECT payload->>'tick' FROM soloist.work_items WHERE queue = %s ORDER BY 1"
        return [tick for (tick,) in connection.execute(query, (queue,))]


def each_tick_is_there_once(crew: Crew, job: str, read: Callable[[], list[str]]) -> None:
    """One effect for each tick, and every run succeeded: nobody had to guess. What is still going on may lack its own."""
    stamps = {f"{tick:%Y-%m-%dT%H:%M:%SZ}" for tick in decided_ticks(crew, job)}
    runs = crew.runs(job)
    going = {run["spec"]["scheduledTime"] for run in runs if phase_of(run) not in FINAL}
    seen = read()
    assert len(seen) == len(set(seen)), f"twice: {seen}"
    assert stamps - set(seen) <= going
    nobody_guessed(runs)


def nobody_guessed(runs: list[Raw]) -> None:
    """What found the one before still going on, under Forbid, is known well enough."""
    ended = [run for run in runs if phase_of(run) in FINAL - {"Succeeded"}]
    guessed = [run for run in ended if run["status"].get("reason") != "Blocked"]
    assert not guessed, guessed


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("whom", ["child", "both"])
def test_a_crash_at_any_stage_leaves_each_tick_done_once_and_known(
    crews: Crews, effects: Database, whom: str, replicas: int
) -> None:
    """With one attempt a run, and without a word on what is unknown: there is nothing unknown."""
    struck = {stage: crews(stage) for stage in STAGES}
    for stage, crew in struck.items():
        secret(crew, effects.dsn())
        crew.start("a", SOLOIST_CRASH_AT=f"{stage}:{whom}")
    for crew in struck.values():
        crew.leader()
    if replicas == 2:
        start_each(struck.values(), "b")
    for stage, crew in struck.items():
        crew.job("note", schedule="@every 3s", sql=sql(place=stage), **KEEP, **EVERY_TICK)
        crew.job("row", schedule="@every 3s", enqueue=row(stage), **KEEP, **EVERY_TICK)
    for crew in struck.values():
        ended(crew, "a")
        if replicas == 1:
            crew.start("a")
    crashed = now()
    for stage, crew in struck.items():
        through(crew, "note", crashed)
        through(crew, "row", crashed)
        each_tick_is_there_once(crew, "note", partial(ticks_noted, effects, stage))
        each_tick_is_there_once(crew, "row", partial(ticks_queued, effects, stage))


def slow_once(seconds: int = 60) -> str:
    """The effect of a statement that takes so long at its first try."""
    return f"""INSERT INTO effects (place, key, tick, fence) SELECT 'slow', :key, :tick, :fence
    FROM (SELECT pg_sleep(CASE WHEN nextval('tries') = 1 THEN {seconds} ELSE 0 END)) AS x"""


def sleeping(database: Database) -> bool:
    with database.connect() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        return bool((connection.execute(query).fetchone() or (0,))[0])


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_a_leader_in_the_middle_of_a_minute_does_not_hold_up_its_successor(
    crew: Crew, effects: Database, number: signal.Signals
) -> None:
    secret(crew, effects.dsn())
    start(crew, "a", "b", **STEADY)
    crew.job("slow", schedule="@every 5s", sql=sql(slow_once()), **KEEP, concurrencyPolicy="Forbid")
    until(lambda: sleeping(effects), what="its statement runs", timeout=90)
    crew.members["a"].signal_child(number)
    if number == signal.SIGKILL:
        crew.members["a"].kill_both()
    assert crew.leader(other_than="a").name == "b"
    lease = crew.lease() or {}
    acquired = parse_time(lease["spec"]["acquireTime"])
    assert acquired is not None

    def first() -> datetime | None:
        with effects.connect() as connection:
            found = connection.execute("SELECT at FROM effects ORDER BY at").fetchone()
            return found[0] if found else None

    done: datetime = until(first, what="the interrupted run is done", timeout=120)
    assert (done - acquired).total_seconds() < 20, "it waited for the statement of the one before"
    crew.wait(lambda: crew.status("slow")["counters"]["succeeded"] >= 2, what="the next ticks have their turn")
    seen = ticks_noted(effects, "slow")
    assert len(seen) == len(set(seen))
    nobody_guessed(crew.runs("slow"))


def test_a_run_that_was_cut_off_while_the_database_is_away_is_known_once_it_is_back(
    crew: Crew, fresh_postgres: Callable[..., Postgres]
) -> None:
    # Fifteen seconds: of a number that was drawn just before the crash the server may know nothing, and give it again.
    server = fresh_postgres()
    database = server.create_database("away")
    prepare(database)
    secret(crew, database.dsn())
    start(crew, "a", "b", **STEADY)
    crew.job("slow", schedule="@every 5s", sql=sql(slow_once(15)), **KEEP, concurrencyPolicy="Forbid")
    until(lambda: sleeping(database), what="its statement runs", timeout=90)
    crew.members["a"].kill_both()
    server.stop("immediate")
    assert crew.leader(other_than="a").name == "b"
    cut_off = min(crew.runs("slow"), key=tick_of)

    def told() -> list[Raw]:
        events = crew.cluster.api().items(crew.namespace.path("events", group="events.k8s.io"))
        return [event for event in events if event["reason"] == "LedgerUnreadable"]

    events: list[Raw] = until(told, what="somebody is told", timeout=90)
    assert cut_off["metadata"]["name"] in events[0]["note"]
    assert phase_of(cut_off) == "Pending"
    server.start()
    crew.wait(lambda: crew.phase(cut_off["metadata"]["name"]) == "Succeeded", what="the run is known")
    with database.connect() as connection:
        count = connection.execute(
            "SELECT count(*) FROM effects WHERE tick = %s", (cut_off["spec"]["scheduledTime"],)
        ).fetchone()
        assert count == (1,)


def test_a_database_that_is_away_costs_its_own_jobs_some_time_and_the_others_nothing(
    crew: Crew, backend: Backend, fresh_postgres: Callable[..., Postgres]
) -> None:
    server = fresh_postgres()
    database = server.create_database("away")
    prepare(database)
    secret(crew, database.dsn())
    start(crew, "a", **CALM)
    retry = {"maxAttempts": 50, "initialDelaySeconds": 1, "factor": 1}
    crew.job("note", schedule="@every 2s", retry=retry, sql=sql(place="note"), **KEEP, **EVERY_TICK)
    crew.job("call", schedule="@every 2s", http={"url": backend.url("/call")}, **KEEP, **EVERY_TICK)
    until(lambda: ticks_noted(database, "note"), what="it is at it", timeout=90)
    server.stop("immediate")

    def retrying() -> list[Raw]:
        return [run for run in crew.runs("note") if phase_of(run) == "Retrying"]

    crew.wait(lambda: len(retrying()) >= 2, what="two ticks wait for another attempt")
    assert {run["status"]["reason"] for run in retrying()} <= {"DatabaseUnavailable", "ConnectionLost"}
    backend.wait(len(backend.received("/call")) + 2, path="/call")
    server.start()
    back = now()
    through(crew, "note", back)
    each_tick_is_there_once(crew, "note", partial(ticks_noted, database, "note"))
    each_tick_is_there_once(
        crew, "call", lambda: [str(s.header("Soloist-Scheduled-Time")) for s in backend.received("/call")]
    )


# What a person sees


def last_run(desk: Desk, job: str, *phases: str) -> Raw:
    """Wait for a run of it that ended so."""

    def probe() -> Raw | None:
        return next((run for run in desk.crew.runs(job) if phase_of(run) in phases), None)

    found: Raw = until(probe, what=f"a run of {job} is {phases}", timeout=90)
    return found


@pytest.fixture(scope="module")
def known(desk: Desk, postgres: Postgres) -> Iterator[Database]:
    """A database that the desk's Secret names."""
    made = postgres.create_database(f"e_{uuid.uuid4().hex[:12]}")
    prepare(made)
    secret(desk.crew, made.dsn())
    yield made
    postgres.drop_database(made.name)


def test_a_statement_runs_at_its_time_and_the_run_shows_what_the_server_said(desk: Desk, known: Database) -> None:
    desk.crew.job("plain", schedule="@every 2s", sql=sql(place="plain"))
    run = last_run(desk, "plain", "Succeeded")
    assert run["status"]["response"] == {"excerpt": "INSERT 0 1"}
    with known.connect() as connection:
        key, tick, fence = (
            connection.execute(
                "SELECT key, tick, fence FROM effects WHERE place = 'plain' AND tick = %s",
                (run["spec"]["scheduledTime"],),
            ).fetchone()
            or ()
        )
    assert (key, tick) == (f"{run['spec']['scheduledJobUID']}/{tick}", run["spec"]["scheduledTime"])
    assert fence == run["spec"]["lease"]["epoch"]


def test_a_run_by_hand_has_a_key_of_its_own(desk: Desk, known: Database) -> None:
    desk.crew.job("by-hand", schedule="@yearly", sql=sql(place="by-hand"))
    uid = desk.crew.trigger("by-hand", "by-hand-1")["metadata"]["uid"]
    last_run(desk, "by-hand", "Succeeded")
    with known.connect() as connection:
        assert connection.execute("SELECT key, tick FROM effects WHERE place = 'by-hand'").fetchall() == [(uid, None)]


def test_a_row_for_a_work_queue_is_in_the_database_that_the_queue_names(desk: Desk, known: Database) -> None:
    queue = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}}
    body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "emails"}, "spec": queue}
    desk.api.create(desk.namespace.ours("workqueues"), body)
    desk.crew.job(
        "queued", schedule="@every 2s", enqueue={"workQueue": "emails", "payload": {"tick": "{scheduledTime}"}}
    )
    run = last_run(desk, "queued", "Succeeded")
    name = f"{desk.namespace.name}/emails"
    assert run["status"]["response"]["excerpt"].endswith(f" of queue {name}")
    assert run["spec"]["scheduledTime"] in ticks_queued(known, name)


@pytest.mark.parametrize(
    ("name", "action", "reason", "words"),
    [
        ("no-secret", {"sql": {**sql(place="x"), "databaseRef": {"secretName": "none", "key": "uri"}}},
         "DatabaseNotFound", "/none does not exist: create it"),
        ("no-table", {"sql": sql("DELETE FROM nowhere")}, "StatementFailed", 'SQLSTATE 42P01): relation "nowhere"'),
        ("no-queue", {"enqueue": {"workQueue": "none"}}, "DatabaseNotFound", "/none does not exist: create it"),
    ],
)  # fmt: skip
def test_a_failure_says_what_to_do(
    desk: Desk, known: Database, name: str, action: Raw, reason: str, words: str
) -> None:
    desk.crew.job(name, schedule="@every 2s", **action)
    status = last_run(desk, name, "Failed")["status"]
    assert status["reason"] == reason
    assert words in status["message"]


def test_a_database_without_the_schema_is_a_failure_until_it_is_migrated(desk: Desk, database: Database) -> None:
    secret(desk.crew, database.dsn(), "bare")
    bare = {"secretName": "bare", "key": "uri"}
    with database.connect() as connection:
        connection.execute(TABLE)
    desk.crew.job("bare", schedule="@every 2s", sql={**sql(place="bare"), "databaseRef": bare}, **KEEP)
    assert "Run soloist migrate" in last_run(desk, "bare", "Failed")["status"]["message"]
    migrate(database.dsn())
    last_run(desk, "bare", "Succeeded")
    desk.delete("scheduledjobs", "bare")


def test_deleting_a_run_ends_its_statement_and_lets_the_next_tick_have_its_turn(desk: Desk, known: Database) -> None:
    desk.crew.job("stopped", schedule="@every 2s", timeoutSeconds=60, sql=sql(slow_once()))
    until(lambda: sleeping(known), what="its statement runs", timeout=90)
    run = min((run for run in desk.crew.runs("stopped") if phase_of(run) == "Pending"), key=tick_of)
    desk.delete("jobruns", run["metadata"]["name"])
    until(lambda: not sleeping(known), what="its statement is ended", timeout=50)
    until(lambda: ticks_noted(known, "slow"), what="the next tick is done", timeout=90)
    assert run["spec"]["scheduledTime"] not in ticks_noted(known, "slow")
    desk.recent("stopped", "Cancelled")


def test_an_edit_that_moves_a_job_to_another_database_moves_the_next_tick(
    desk: Desk, known: Database, postgres: Postgres
) -> None:
    other = postgres.create_database(f"e_{uuid.uuid4().hex[:12]}")
    prepare(other)
    secret(desk.crew, other.dsn(), "other")
    desk.crew.job("moved", schedule="@every 2s", sql=sql(place="moved"), **KEEP)
    until(lambda: ticks_noted(known, "moved"), what="a tick is done here", timeout=90)
    desk.crew.edit("moved", {"sql": {"databaseRef": {"secretName": "other", "key": "uri"}}})
    until(lambda: len(ticks_noted(other, "moved")) >= 2, what="ticks are done there", timeout=90)
    desk.crew.edit("moved", {"suspend": True})
    assert not set(ticks_noted(known, "moved")) & set(ticks_noted(other, "moved"))


# Effects that the application writes, in a transaction of its own, on behalf of http actions


def test_an_application_can_do_what_a_request_asks_for_once_by_its_key_and_fence(
    crew: Crew, backend: Backend, effects: Database
) -> None:
    """The same run is asked for twice, by one leader and, after its crash, by another one; the older one is too late."""
    backend.rule("/pay", hang=True, times=1)
    start(crew, "a", "b", **CALM)
    retry = {"maxAttempts": 3, "onUnknown": "Retry"}
    crew.job("pay", schedule="@every 10s", timeoutSeconds=8, retry=retry, http={"url": backend.url("/pay")}, **KEEP)
    backend.wait(1, path="/pay", timeout=90)
    crew.members["a"].kill_both()
    key = backend.received("/pay")[0].header("Idempotency-Key")
    first, second = backend.wait(2, timeout=120, when=lambda seen: seen.header("Idempotency-Key") == key)[:2]
    old, new = (int(seen.header("Soloist-Fence") or 0) for seen in (first, second))
    assert old < new
    with effects.connect() as connection:
        once = "SELECT soloist.once(%s, %s)"
        assert connection.execute(once, (key, new)).fetchone() == (True,)
        assert connection.execute(once, (key, new)).fetchone() == (False,)
        connection.execute("SELECT soloist.checkpoint('cursor', '7', %s)", (new,))
        for late in (once, "SELECT soloist.checkpoint(%s, '1', %s)"):
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(late, (key if late is once else "cursor", old))
            assert raised.value.sqlstate == "SO002"
        assert connection.execute("SELECT soloist.checkpoint('cursor')").fetchone() == (7,)
