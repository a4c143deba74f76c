"""Bookkeeping waits for launches, and not for ever."""

import asyncio

import pytest

from soloist.loops import lanes
from soloist.loops.lanes import Lanes
from tests.loops.virtual_time import run


def test_what_is_patient_waits_until_nothing_is_urgent() -> None:
    async def scene() -> list[str]:
        roads, done = Lanes(1), []

        async def books() -> None:
            async with roads.patient():
                done.append("books")

        with roads.urgent():
            task = asyncio.create_task(books())
            await asyncio.sleep(0.02)
            done.append("launch")
        await task
        return done

    assert run(scene()) == ["launch", "books"]


def test_a_stream_of_launches_does_not_starve_the_books(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 0.01)

    async def scene() -> bool:
        roads = Lanes(1)
        with roads.urgent():
            async with asyncio.timeout(5), roads.patient():
                return True

    assert run(scene())


def test_the_books_wait_side_by_side_and_not_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 0.2)

    async def scene() -> float:
        roads, loop = Lanes(1), asyncio.get_running_loop()
        began = loop.time()

        async def books() -> None:
            async with roads.patient():
                await asyncio.sleep(0)

        with roads.urgent():
            await asyncio.gather(*(books() for _ in range(50)))
        return loop.time() - began

    assert run(scene()) < 0.25


def test_an_action_is_urgent_until_it_is_done_or_long_enough_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "SETTING_OUT", 0.05)

    async def scene() -> list[str]:
        roads, said = Lanes(1), []
        short, long = asyncio.Future[object](), asyncio.Future[object]()

        async def books(name: str) -> None:
            async with roads.patient():
                said.append(name)

        roads.launching(short)
        task = asyncio.create_task(books("after the short one"))
        await asyncio.sleep(0.01)
        said.append("short one done")
        short.set_result(None)
        await task
        roads.launching(long)
        async with asyncio.timeout(1):
            await books("beside the long one")
        return said

    assert run(scene()) == ["short one done", "after the short one", "beside the long one"]


def test_who_is_about_to_launch_does_not_stand_behind_the_launches_of_others() -> None:
    async def scene() -> bool:
        roads = Lanes(1)
        with roads.urgent():
            async with roads.patient(hurry=True):
                return True

    assert run(asyncio.wait_for(scene(), lanes.PATIENCE / 2))
