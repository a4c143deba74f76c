"""A crew over a database of its own, with the schema in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.backend import Backend
from tests.postgres.server import Database
from tests.standalone.crew import Crew


@pytest.fixture
def receiver() -> Iterator[Backend]:
    with Backend() as backend:
        yield backend


@pytest.fixture
def crew(tmp_path: Path, own_queue_database: Database, receiver: Backend) -> Iterator[Crew]:
    """Nobody is started yet; everybody is gone after the test, and what they logged is shown when it failed."""
    made = Crew(tmp_path, own_queue_database.dsn(), receiver)
    made.write("none.yaml")
    yield made
    made.stop()
    for member in made.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")
