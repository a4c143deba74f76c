"""What users see, word for word."""

import pytest

from soloist.shells.cli import cli
from soloist.shells.cli_queue import queue
from tests.shells.cli_pages import COMMANDS, GOLDEN, PAGES, QUEUE_COMMANDS, page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_golden_file_says(name: str) -> None:
    assert page(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8"), (
        "python -m tests.shells.cli_pages writes it anew"
    )


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PAGES)


def test_every_command_has_a_page_of_help() -> None:
    assert set(cli.commands) == {*COMMANDS, "controller", "elect", "standalone", "worker"}
    assert set(queue.commands) == set(QUEUE_COMMANDS)
