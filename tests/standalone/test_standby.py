"""The database fails over to a standby: what is lost, and what comes twice, by the kind of its replication."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.domain.instants import parse_time
from tests.api.crew import LEASE_SECONDS
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.demo.rows import rows_of
from tests.postgres.server import Postgres
from tests.postgres.standby import promote, standby_of, streams
from tests.queue.workers import ACCEPTED
from tests.standalone.crew import Crew
from tests.standalone.test_claims import FILL, SPEC

pytestmark = pytest.mark.slow
Servers = Callable[..., Postgres]
SOON = 120.0
ROWS = 400
OWN = {"secretName": "own", "key": "uri"}
ENQUEUE = "SELECT soloist.enqueue('default/hooks', jsonb_build_object('n', n), now() + interval '1 hour') FROM generate_series(1, 5) AS n"
DUE_NOW = "UPDATE soloist.work_items SET due_at = now() WHERE queue = 'default/hooks' RETURNING id"
DECIDED = "SELECT status ->> 'watermark' FROM soloist.objects WHERE kind = 'ScheduledJob' AND name = 'sweep'"


@pytest.fixture
def primary(fresh_postgres: Servers) -> Postgres:
    server = fresh_postgres()
    migrate(server.create_database("ours").dsn())
    return server


@pytest.fixture
def crew(tmp_path: Path, primary: Postgres, receiver: Backend) -> Iterator[Crew]:
    made = Crew(tmp_path, primary.dsn("ours"), receiver)
    yield made
    made.stop()
    for member in made.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def begin(crew: Crew, primary: Postgres, standby: Postgres, *, timeout: int = 50, **queue: Any) -> None:
    """Two replicas that are told of both servers, with a job that calls and one that enqueues, each every second."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    crew.url = f"postgresql://postgres@{hosts}/ours?target_session_attrs=read-write"
    rows = crew.job("rows", schedule="@every 1s", concurrencyPolicy="Allow")
    rows["spec"]["enqueue"] = {"databaseRef": OWN, "queue": "q", "payload": {"tick": "{scheduledTime}"}}
    del rows["spec"]["http"]
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s", concurrencyPolicy="Allow"), rows)
    deliver = {"http": {"url": crew.backend.url("/hooks"), "timeoutSeconds": timeout}}
    spec = {"database": OWN, "deliver": deliver, **queue}
    crew.write(
        "queues.yaml",
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "hooks"}, "spec": spec},
    )
    for name in ("a", "b"):
        crew.ready(name)
    go_on(crew)


def go_on(crew: Crew, ticks: int = 3) -> None:
    crew.backend.wait(len(crew.backend.received("/sweep")) + ticks, path="/sweep", timeout=SOON)


def swept(crew: Crew) -> Counter[str]:
    return Counter(str(seen.header("Soloist-Scheduled-Time")) for seen in crew.backend.received("/sweep"))


def assert_rows_are_once(crew: Crew, last: datetime) -> None:
    """Each tick up to ``last`` that is on record has its row, and no other row is there: those that follow are under way."""
    crew.page("rows", last)
    recorded = {tick for (tick,) in crew.ask("SELECT tick FROM soloist.job_runs WHERE tick <= %s", last)}
    found = crew.ask("SELECT (payload ->> 'tick')::timestamptz FROM soloist.work_items WHERE queue = 'q'")
    added = Counter(tick for (tick,) in found if tick <= last)
    assert recorded == set(added)
    assert [tick for tick, count in added.items() if count > 1] == []
    ((status,),) = crew.ask("SELECT status FROM soloist.objects WHERE kind = 'ScheduledJob' AND name = 'rows'")
    first = parse_time(status["observedSchedule"]["since"])
    assert first is not None
    seconds = int((last - first).total_seconds())
    due = {(first + timedelta(seconds=n + 1)).replace(microsecond=0) for n in range(seconds - 1)}
    assert due - recorded == set(), "none is missing"


def watermark(standby: Postgres) -> datetime:
    """Up to where every tick is decided, by what the standby has heard of."""
    with standby.connect("ours") as connection:
        row = connection.execute(DECIDED).fetchone()
    assert row is not None
    found = parse_time(row[0])
    assert found is not None
    return found


def assert_fences_rise(crew: Crew) -> None:
    fences = [int(str(seen.header("Soloist-Fence"))) for seen in crew.backend.received("/sweep")]
    assert fences == sorted(fences)


def fill(primary: Postgres) -> dict[int, int]:
    """Rows that are due; the id of each leads to its number. From now on each outcome that is accepted is noted."""
    with primary.connect("ours", autocommit=False) as connection:
        connection.execute(ACCEPTED)
        connection.execute(FILL, (ROWS - 1,))
        found = connection.execute(
            "SELECT id, (payload ->> 'n')::int FROM soloist.work_items WHERE queue = 'default/hooks'"
        )
        return dict(found.fetchall())


def answered(primary: Postgres) -> set[int] | None:
    """Rows whose outcome can be seen, which it cannot before the standby has it; once there are some."""
    with primary.connect("ours") as connection:
        found = {row for (row,) in connection.execute("SELECT id FROM public.accepted")}
    return found if len(found) >= ROWS // 10 else None


def test_where_a_synchronous_standby_is_promoted_nothing_is_lost_or_twice(crew: Crew, primary: Postgres) -> None:
    """Rows are being delivered as the primary ends: what had an outcome is not sent again, and what had none is worked once more."""
    crew.backend.rule("/hooks", delay=0.3)
    with standby_of(primary, synchronous=True) as standby:
        begin(crew, primary, standby, timeout=7, **SPEC)
        numbers = fill(primary)
        known = until(lambda: answered(primary), what="some have an outcome", timeout=SOON)
        primary.stop("immediate")
        ended = datetime.now(UTC)
        promote(standby)
        go_on(crew, 5)
        until(lambda: not crew.ask("SELECT 1 FROM soloist.work_items WHERE queue = 'default/hooks' LIMIT 1"), what="no row is left", timeout=SOON)  # fmt: skip
        hooks = crew.backend.received("/hooks")
        accepted = [row for (row,) in crew.ask("SELECT id FROM public.accepted")]
        assert rows_of("hooks", ROWS, hooks, accepted=accepted, left=0).breaches() == []
        again = {json.loads(seen.body)["n"] for seen in hooks if seen.at > ended}
        assert again, "some were still to be delivered"
        assert again & {numbers[row] for row in known} == set()
        crew.audit("sweep")
        assert_rows_are_once(crew, datetime.now(UTC) - timedelta(seconds=2))
        assert_fences_rise(crew)


def test_where_an_asynchronous_standby_was_behind_its_last_records_are_lost_and_what_they_were_of_comes_again_under_the_same_key(
    crew: Crew, primary: Postgres
) -> None:
    """Everybody is killed with the primary: nobody is left who knows better than the standby."""
    with standby_of(primary, synchronous=False) as standby:
        begin(crew, primary, standby)
        crew.ask(ENQUEUE)
        until(lambda: streams(primary), what="the standby has the rows", timeout=SOON)
        behind = datetime.now(UTC)
        decided = watermark(standby)
        standby.stop("fast")
        assert len(crew.ask(DUE_NOW)) == 5
        crew.backend.wait(5, path="/hooks", timeout=SOON)
        go_on(crew, 3)
        for member in crew.members.values():
            member.kill_both()
        primary.stop("immediate")
        lost = {tick for tick in swept(crew) if (parse_time(tick) or behind) > behind}
        standby.start()
        promote(standby)
        for name in ("c", "d"):
            crew.ready(name)
        assert len(crew.ask(DUE_NOW)) == 5
        crew.backend.wait(10, path="/hooks", timeout=SOON)
        go_on(crew, len(lost) + 3)
        page = crew.page("sweep", datetime.now(UTC) - timedelta(seconds=2))
        assert (page.early, page.lost) == ([], [])
        twice = {tick for tick, count in swept(crew).items() if count > 1}
        assert twice
        for tick in twice:
            assert parse_time(tick) > decided, "only what had no time to get there"  # type: ignore[operator]
        keys = {(seen.header("Soloist-Scheduled-Time"), seen.header("Idempotency-Key")) for seen in crew.backend.received("/sweep")}  # fmt: skip
        assert len(keys) == len(swept(crew)), "one key for each tick, however often it came"
        hooks = Counter(seen.header("Idempotency-Key") for seen in crew.backend.received("/hooks"))
        assert len(hooks) == 5
        assert set(hooks.values()) == {2}
        assert_rows_are_once(crew, datetime.now(UTC) - timedelta(seconds=2))
        assert_fences_rise(crew)


@pytest.mark.long
def test_while_a_synchronous_standby_is_away_nothing_starts_and_it_goes_on_once_it_is_back(
    crew: Crew, primary: Postgres
) -> None:
    with standby_of(primary, synchronous=True) as standby:
        begin(crew, primary, standby)
        standby.stop("fast")
        stopped = time.monotonic()
        until(lambda: time.monotonic() - stopped > 2 * LEASE_SECONDS, what="nobody may lead any more", timeout=60)
        idle = len(crew.backend.received("/sweep"))
        until(lambda: time.monotonic() - stopped > 4 * LEASE_SECONDS, what="a while longer", timeout=60)
        assert len(crew.backend.received("/sweep")) == idle, "nothing is launched whose record is not safe"
        standby.start()
        go_on(crew, 5)
        crew.audit("sweep")
        assert_rows_are_once(crew, datetime.now(UTC) - timedelta(seconds=2))
