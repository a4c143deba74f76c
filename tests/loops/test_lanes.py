"""Bookkeeping waits for launches, and not for ever."""

import asyncio

import pytest

from soloist.loops import lanes
from soloist.loops.lanes import Lanes


def test_what_is_patient_waits_until_nothing_is_urgent() -> None:
    async def scene() -> list[str]:
        roads, done = Lanes(1), []

        async def books() -> None:
            async with roads.patient():
                done.append("books")

        async with roads.urgent():
            task = asyncio.create_task(books())
            await asyncio.sleep(0.02)
            done.append("launch")
        await task
        return done

    assert asyncio.run(scene()) == ["launch", "books"]


def test_a_stream_of_launches_does_not_starve_the_books(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 0.01)

    async def scene() -> bool:
        roads = Lanes(1)
        async with roads.urgent(), asyncio.timeout(5), roads.patient():
            return True

    assert asyncio.run(scene())
