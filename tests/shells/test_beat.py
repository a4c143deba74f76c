"""The page between child and parent holds whatever moment the child dies at."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from soloist.domain.term import Term
from soloist.shells import beat
from soloist.shells.child import Beat


@pytest.fixture
def page() -> Iterator[int]:
    fd = beat.create()
    yield fd
    os.close(fd)


def test_an_empty_page_says_that_nothing_is_held(page: int) -> None:
    assert beat.read(page) == {}


def test_the_newest_document_counts(page: int) -> None:
    for number in (1, 2, 3):
        beat.write(page, number, {"epoch": number, "long": "x" * (1000 // number)})
        assert beat.read(page) == {"epoch": number, "long": "x" * (1000 // number)}


@pytest.mark.parametrize("cut", [0, 1, 8, 12, 16, 20, 36])
def test_a_write_cut_short_by_death_leaves_the_one_before(page: int, cut: int) -> None:
    beat.write(page, 1, {"epoch": 1, "text": "first"})
    beat.write(page, 2, {"epoch": 2, "text": "second"})
    scratch = beat.create()
    beat.write(scratch, 3, {"epoch": 3, "text": "third"})
    os.pwrite(page, os.pread(scratch, cut, beat.SLOT), beat.SLOT)
    os.close(scratch)
    assert beat.read(page) == {"epoch": 2, "text": "second"}


def term(name: str) -> Term:
    now = datetime(2031, 1, 1, tzinfo=UTC)
    return Term(
        identity="pod/1", epoch=5, lease_namespace="ns", lease_name=name, lease_uid="u", started_boot=1.0,
        trusted_until=9.0, renew_time=now, renew_sent_boot=1.0,
    )  # fmt: skip


def test_of_several_leases_each_is_held_until_it_is_cleared(page: int) -> None:
    ours = Beat(page)
    for name in ("one", "two", "one"):
        ours.write(term(name), nonce="n", connection={})
    assert [each["lease"]["name"] for each in beat.read(page)["held"]] == ["one", "two"]
    ours.clear("ns", "one")
    assert [each["lease"]["name"] for each in beat.read(page)["held"]] == ["two"]
    ours.clear("ns", "two")
    ours.clear("ns", "never")
    assert beat.read(page) == {"held": []}


def test_a_document_that_does_not_fit_is_refused(page: int) -> None:
    with pytest.raises(ValueError, match="more than"):
        beat.write(page, 1, {"caData": "x" * beat.SLOT})


def test_without_a_parent_the_beat_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(beat.FD_VARIABLE, raising=False)
    Beat.inherited().clear("ns", "name")
