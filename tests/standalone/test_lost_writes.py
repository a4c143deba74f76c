"""A database that has lost its last writes: failed over to a standby that was behind, or put back to an earlier state."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.standalone.crew import STEADY, Crew

pytestmark = pytest.mark.slow
TAKE = "SELECT version, status FROM soloist.objects WHERE kind = 'ScheduledJob' AND name = 'sweep'"
PUT_BACK = "UPDATE soloist.objects SET version = %s, status = %s WHERE kind = 'ScheduledJob' AND name = 'sweep'"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def put_back(crew: Crew, version: int, status: Any, after: int) -> None:
    """Its job as it was, its later runs gone, and everybody's connections cut."""
    with crew.connect() as connection, connection.transaction():
        connection.execute("SELECT FROM soloist.shards FOR UPDATE")
        connection.execute("DELETE FROM soloist.objects WHERE kind = 'JobRun' AND version > %s", [after])
        connection.execute(PUT_BACK, [version, Jsonb(status)])
    crew.ask(CUT)


def test_whoever_leads_goes_on_by_what_it_knows_and_launches_nothing_twice(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.ready("a")
    crew.backend.wait(3, path="/sweep", timeout=120)
    ((version, status),) = crew.ask(TAKE)
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    put_back(crew, version, status, version)
    crew.backend.wait(len(crew.backend.received("/sweep")) + 4, path="/sweep", timeout=120)
    assert crew.said("a", "the store has lost writes; what is known of the object goes on")
    ticks = [seen.header("Soloist-Scheduled-Time") for seen in crew.backend.received("/sweep")]
    assert len(ticks) == len(set(ticks))
