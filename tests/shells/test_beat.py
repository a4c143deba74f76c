"""The page between child and parent holds whatever moment the child dies at."""

import os
from collections.abc import Iterator

import pytest

from soloist.shells import beat
from soloist.shells.child import Beat


@pytest.fixture
def page() -> Iterator[int]:
    fd = beat.create()
    yield fd
    os.close(fd)


def test_an_empty_page_says_that_nothing_is_held(page: int) -> None:
    assert beat.read(page) is None


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


def test_what_is_cleared_is_not_held(page: int) -> None:
    beat.write(page, 1, {"epoch": 1})
    beat.write(page, 2, {})
    assert beat.read(page) is None


def test_a_document_that_does_not_fit_is_refused(page: int) -> None:
    with pytest.raises(ValueError, match="more than"):
        beat.write(page, 1, {"caData": "x" * beat.SLOT})


def test_without_a_parent_the_beat_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(beat.FD_VARIABLE, raising=False)
    Beat.inherited().clear()
