"""pytest fixtures around a real PostgreSQL. Without one they fail, and say what to install.

A skip must be asked for by SOLOIST_WITHOUT_POSTGRES=1: a server that is missing by accident is no green run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.versions import Unavailable
from tests.postgres.pooler import PgBouncer
from tests.postgres.programs import from_wheel, postgres_programs
from tests.postgres.server import Database, Postgres


@pytest.fixture(scope="session")
def postgres_wanted() -> None:
    if os.environ.get("SOLOIST_WITHOUT_POSTGRES") == "1":
        pytest.skip("SOLOIST_WITHOUT_POSTGRES=1: no PostgreSQL wanted")
    try:
        postgres_programs()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)


@pytest.fixture(scope="session")
def postgres(postgres_wanted: None) -> Iterator[Postgres]:
    """One server for all tests. What stops, pauses or configures one takes a `fresh_postgres`."""
    with Postgres() as server:
        yield server


@pytest.fixture
def fresh_postgres(postgres_wanted: None) -> Iterator[Callable[..., Postgres]]:
    """Makes servers of the test's own: `fresh_postgres(settings={"work_mem": "1MB"})`; 2 s each."""
    made: list[Postgres] = []

    def make(**options: Any) -> Postgres:
        made.append(Postgres(**options))
        return made[-1].up()

    yield make
    for server in made:
        server.down()


@pytest.fixture(scope="session")
def newer_postgres(postgres_wanted: None) -> Iterator[Postgres]:
    """A server of a newer major version than Debian 12 has."""
    try:
        programs = from_wheel()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    with Postgres(programs=programs) as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    made = postgres.create_database(f"t_{uuid.uuid4().hex[:12]}")
    yield made
    postgres.drop_database(made.name)


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    try:
        pooler = PgBouncer(postgres).up()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    yield pooler
    pooler.down()
