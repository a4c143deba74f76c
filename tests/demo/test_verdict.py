"""A breach ends the demonstration with exit code 1, whoever committed it; else that it passes would prove nothing."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.backend import Received
from tests.cluster.children import Child, until
from tests.demo.books import page
from tests.demo.rows import rows_of
from tests.demo.standalone import BALANCED, Books, main
from tests.demo.test_books import LAST, a_job, received
from tests.standalone.folders import open_folder

SOON = 300.0


def books(*again: Received, accepted: tuple[int, ...] = ()) -> Books:
    """Of four ticks, each of them launched, and of no rows; and of what came on top."""
    made = page(a_job(), [], [*map(received, (1, 2, 3, 4)), *again], LAST)
    rows = rows_of("q", len(set(accepted)), [], accepted=list(accepted), left=0)
    return Books(pages=[made], rows=rows, hand_overs=[])


def test_books_that_balance_end_with_0_the_seconds_that_it_took_and_nothing_left_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders: list[Path] = []

    def balanced(folder: Path) -> Books:
        folders.append(folder)
        return books()

    assert main(balanced) == 0
    said = capsys.readouterr().out
    assert BALANCED in said
    assert re.search(r"^\d+ s in all\.$", said, re.MULTILINE)
    assert not folders[0].exists()


@pytest.mark.parametrize(
    ("found", "breach"),
    [
        (books(received(2, after=1.5)), "sweep: launched twice: "),
        (books(received(3, after=-0.2)), "sweep: before its time: "),
        (books(accepted=(7, 7)), "q: rows accepted twice: 1"),
    ],
)
def test_one_breach_ends_with_1_and_its_name_and_keeps_what_was_received(
    found: Books, breach: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(lambda _: found) == 1
    said = capsys.readouterr().out
    assert breach in said
    assert BALANCED not in said
    kept = re.search(r"what was received: (.+)", said)
    assert kept is not None
    Path(kept[1]).rmdir()


def test_a_demonstration_that_does_not_come_to_its_end_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    def stuck(_: Path) -> Books:
        raise TimeoutError("Not within 180 s: somebody leads.")

    assert main(stuck) == 1
    kept = re.search(r"Logs: (.+)", capsys.readouterr().err)
    assert kept is not None
    Path(kept[1]).rmdir()


@pytest.mark.long
def test_the_demonstration_itself_ends_with_1_where_its_receiver_gets_a_tick_a_second_time() -> None:
    with open_folder() as folder:
        log = folder / "demo.log"
        demo = Child("demo", [sys.executable, "-m", "tests.demo.standalone"], log=log, env={"TMPDIR": str(folder)})
        demo.start()
        try:
            until(lambda: ticks_in(folder), what="a tick is received", timeout=SOON, needs=[demo])
            send_again(folder)
            until(lambda: not demo.alive(), what="it has ended", timeout=SOON)
        finally:
            demo.stop()
        said = log.read_text()
        assert demo._running is not None
        assert demo._running.returncode == 1, said
        assert "BREACH\nevery-second: launched twice: " in said
        assert re.search(r"^\d+ s in all\.$", said, re.MULTILINE)


def ticks_in(folder: Path) -> list[dict[str, object]]:
    """What the receiver has written down of the job of every second."""
    lines = [line for file in folder.glob("soloist-*/receiver/received.jsonl") for line in file.read_text().splitlines(keepends=True)]  # fmt: skip
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [each for each in records if each["event"] == "received" and each["path"] == "/every-second"]


def send_again(folder: Path) -> None:
    (ports,) = folder.glob("soloist-*/receiver/received.ports")
    url = f"http://127.0.0.1:{json.loads(ports.read_text())['port']}/every-second"
    headers = ticks_in(folder)[0]["headers"]
    assert isinstance(headers, dict)
    tick = {name: value for name, value in headers.items() if name.lower().startswith("soloist-")}
    with urllib.request.urlopen(urllib.request.Request(url, b"", tick), timeout=60) as answer:
        answer.read()
