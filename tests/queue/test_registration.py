"""Whether the functions of a queue are those that its manifest means, as a check and the condition of the WorkQueue say it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.adapters.postgres.queue_databases import SurveyedDatabase
from soloist.adapters.postgres.registration import register
from soloist.domain.findings import Severity
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_validity import Schema, Unfit
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import QUEUE, MappedWorld, in_world, spec_of
from tests.queue.rows import Connection
from tests.queue.user_tables import TABLES, UserTable

EXTERNAL: dict[str, Any] = {"deliver": {"external": {}}}
NAME = QueueName("default", "q")


async def said(database: Database, user: UserTable, **more: Any) -> list[str]:
    """Neither errors nor notes: those are of something else."""
    found = await check_mapping(database, QUEUE, spec_of(user, **more))
    return [each.reason for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize("label", [label for label, user in TABLES.items() if not user.inline])
def test_functions_are_stale_once_they_would_be_composed_otherwise_and_not_before(
    queue_database: Place, connection: Connection, label: str
) -> None:
    user = TABLES[label]

    async def body(world: MappedWorld) -> None:
        database = world.database
        assert await said(database, user) == []
        assert await said(database, user, **EXTERNAL) == ["NotRegistered"]
        await register(database, QUEUE, spec_of(user, **EXTERNAL))
        assert await said(database, user, **EXTERNAL) == []
        edited = {"retry": {"schedule": ["7s"]}, "maxReclaims": 3}
        assert await said(database, user, **EXTERNAL, **edited) == ["RegistrationStale"]
        assert await said(database, user, **edited) == ["RegistrationStale"], "there they are, whoever works the queue"
        await register(database, QUEUE, spec_of(user, **EXTERNAL, **edited))
        assert await said(database, user, **EXTERNAL, **edited) == []
        (column, *_) = user.table["id"] if isinstance(user.table["id"], list) else [user.table["id"]]
        connection.execute(f"ALTER TABLE {user.name} ALTER COLUMN {column} TYPE varchar(80)")
        assert await said(database, user, **EXTERNAL, **edited) == ["RegistrationStale"]

    in_world(queue_database, connection, user, body)


def test_the_condition_of_an_external_queue_says_so_and_its_depth_is_still_measured(
    queue_database: Place, connection: Connection
) -> None:
    user = TABLES["prisma"]

    async def body(world: MappedWorld) -> None:
        await world.add(3)
        surveyed = SurveyedDatabase(world.database, boottime=time.monotonic)
        spec = spec_of(user, **EXTERNAL)
        learned = (await surveyed.learn({NAME: spec}))[NAME]
        assert isinstance(learned.answer, Unfit)
        assert "run soloist queue register" in learned.answer.sentence
        assert learned.depth is not None
        assert learned.depth.ready == 3
        await register(world.database, QUEUE, spec)
        assert isinstance((await surveyed.learn({NAME: spec}))[NAME].answer, Schema), "it is seen at once"
        own = await surveyed.learn({NAME: spec_of(user, leaseSeconds=30)})
        assert isinstance(own[NAME].answer, Schema), "and is no matter of Soloist's own workers"

    in_world(queue_database, connection, user, body)


def test_a_queue_of_other_workers_with_claims_in_columns_is_told_that_no_function_works_it(
    queue_database: Place, connection: Connection
) -> None:
    user = TABLES["prisma inline"]

    async def body(world: MappedWorld) -> None:
        found = await check_mapping(world.database, QUEUE, spec_of(user, **EXTERNAL))
        assert "write Sidecar" in next(each.message for each in found if each.reason == "NotRegistered")

    in_world(queue_database, connection, user, body)
