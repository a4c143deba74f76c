"""Rows of the user's whose attempts are used up and which wait all the same: each is given up once, and those behind them come."""

from __future__ import annotations

import pytest

from soloist.domain.claims import Claim
from tests.postgres.server import Database as Place
from tests.queue.mapped_world import MappedWorld, in_world
from tests.queue.rows import Connection, scalar
from tests.queue.user_tables import TABLES

EXHAUSTED = 3000


@pytest.mark.parametrize("label", ["prisma", "prisma inline"])
def test_thousands_that_are_used_up_are_given_up_and_hide_none_behind_them(
    queue_database: Place, connection: Connection, label: str
) -> None:
    async def body(world: MappedWorld) -> None:
        spent = await world.add(EXHAUSTED)
        connection.execute('UPDATE app."WebhookDelivery" SET "attempts" = "maxAttempts"')
        good = await world.add(10)
        found: list[Claim] = []
        while len(found) < len(good):
            found += await world.rows().claim(10)
        assert sorted(claim.row for claim in found) == sorted(good)
        letters = "SELECT count(DISTINCT pk) FROM soloist.dead_rows WHERE reason = 'Failed'"
        assert scalar(connection, letters) == len(spent)
        failed = (
            """SELECT count(*) FROM app."WebhookDelivery" WHERE "status" = 'FAILED' AND "attempts" = "maxAttempts\""""
        )
        assert scalar(connection, failed) == len(spent)
        assert world.sidecar() == (len(good) if world.shape.inline is None else 0)

    in_world(queue_database, connection, TABLES[label], body)
