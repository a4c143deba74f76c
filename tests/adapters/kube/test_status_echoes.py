"""What is taken out of a list and of a watch before kopf reads it, and what is not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from soloist.adapters.kube.status_echoes import WithoutEchoes, WithoutItems


class Content:
    """A response's content that comes in the pieces given."""

    total_bytes = 7

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def iter_chunked(self, _size: int) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def read(self, _size: int) -> bytes:
        return b"".join(self._pieces)


def event(kind: str, version: int, *, name: str = "a", status: Any = None, **metadata: Any) -> bytes:
    named = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "generation": 1, **metadata}
    obj = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": named, "status": status}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def read(*pieces: bytes, known: dict[str, int] | None = None) -> list[tuple[str, str]]:
    async def inside() -> bytes:
        content = WithoutEchoes(Content(*pieces), {} if known is None else known)  # type: ignore[arg-type]
        return b"".join([piece async for piece in content.iter_chunked(1 << 20)])

    found = [json.loads(line) for line in asyncio.run(inside()).splitlines()]
    return [(each["type"], each["object"]["metadata"]["resourceVersion"]) for each in found]


def test_a_change_of_the_status_alone_leaves_only_a_bookmark() -> None:
    assert read(event("ADDED", 1), event("MODIFIED", 2, status={"x": 1})) == [("ADDED", "1"), ("BOOKMARK", "2")]


def test_a_row_of_echoes_leaves_one_bookmark_the_newest() -> None:
    row = b"".join([event("ADDED", 1), *(event("MODIFIED", version) for version in range(2, 9))])
    assert read(row) == [("ADDED", "1"), ("BOOKMARK", "8")]


def test_a_bookmark_never_goes_in_front_of_what_passes() -> None:
    mixed = event("MODIFIED", 2) + event("ADDED", 3, name="b") + event("MODIFIED", 4)
    assert read(event("ADDED", 1), mixed) == [("ADDED", "1"), ("ADDED", "3"), ("BOOKMARK", "4")]


def test_what_people_change_passes() -> None:
    steps = [
        event("ADDED", 1),
        event("MODIFIED", 2, generation=2),
        event("MODIFIED", 3, generation=2, annotations={"soloist.dev/paused": "true"}),
        event("MODIFIED", 4, generation=2, deletionTimestamp="2026-01-01T00:00:00Z"),
        event("DELETED", 5, generation=2, deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert [version for _, version in read(*steps)] == ["1", "2", "3", "4", "5"]


def test_the_first_change_of_an_object_that_only_a_list_has_shown_passes() -> None:
    known: dict[str, int] = {}
    assert read(event("MODIFIED", 2), known=known) == [("MODIFIED", "2")]
    assert read(event("MODIFIED", 3), known=known) == [("BOOKMARK", "3")]


def test_lines_are_whole_however_they_arrive() -> None:
    whole = event("ADDED", 1) + event("MODIFIED", 2) + event("DELETED", 3)
    expected = [("ADDED", "1"), ("BOOKMARK", "2"), ("DELETED", "3")]
    assert read(*(whole[at : at + 1] for at in range(len(whole)))) == expected


def test_what_is_no_event_passes_as_it_came() -> None:
    async def inside(*pieces: bytes) -> bytes:
        content = WithoutEchoes(Content(*pieces), {})  # type: ignore[arg-type]
        return b"".join([piece async for piece in content.iter_chunked(1 << 20)])

    error = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
    assert asyncio.run(inside(error, b"<html>", b"bad gateway")) == error + b"<html>bad gateway"


def test_whatever_else_is_asked_of_the_content_is_answered_by_it() -> None:
    assert WithoutEchoes(Content(), {}).total_bytes == 7  # type: ignore[arg-type]


def read_list(said: bytes, known: dict[str, int]) -> bytes:
    return asyncio.run(WithoutItems(Content(said), known).read())  # type: ignore[arg-type]


def test_of_a_list_its_position_is_left_and_what_it_had_is_known() -> None:
    known: dict[str, int] = {}
    item = json.loads(event("ADDED", 3))["object"]
    whole = {"kind": "ScheduledJobList", "metadata": {"resourceVersion": "7"}, "items": [item]}
    assert json.loads(read_list(json.dumps(whole).encode(), known)) == {**whole, "items": []}
    echo, edit = event("MODIFIED", 8, status={"x": 1}), event("MODIFIED", 9, generation=2)
    assert read(echo, edit, known=known) == [("BOOKMARK", "8"), ("MODIFIED", "9")]


@pytest.mark.parametrize("said", [b"", b"<html>", b"[]", b'{"items": 1}', b'{"items": [{}]}', b'{"kind": "Status"}'])
def test_what_is_not_a_list_comes_as_it_is(said: bytes) -> None:
    known: dict[str, int] = {}
    assert read_list(said, known) == said
    assert not known
