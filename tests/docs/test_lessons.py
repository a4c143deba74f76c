"""docs/lessons.md: what went wrong elsewhere is held by a test that exists and names the issue, or is said not to be offered."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.docs.pages import DOCS, ROOT

SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))]


@dataclass(frozen=True, slots=True)
class Lesson:
    upstream: str
    wrong: str
    here: str
    held: str

    @property
    def numbers(self) -> list[str]:
        return re.findall(r"#\d+\b", self.upstream)


ROWS = [
    Lesson(*(cell.strip() for cell in line.strip("|").split("|")))
    for line in (DOCS / "lessons.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [\w.-]+/[\w.-]+#\d", line)
]
HELD = [row for row in ROWS if row.held != "-"]


def test_the_table_is_read() -> None:
    assert len(ROWS) > 70
    assert len(HELD) > len(ROWS) - 10
    firsts = [row.upstream.split(",")[0] for row in ROWS]
    assert len(firsts) == len(set(firsts)), "one row for each"


@pytest.mark.parametrize("row", HELD, ids=lambda row: row.upstream.split(",")[0])
def test_its_test_is_there_and_names_the_issues(row: Lesson) -> None:
    (name,) = re.findall(r"^`(test_\w+)`$", row.held)
    sources = [text for text in SOURCES if re.search(rf"^ *def {name}\(", text, re.MULTILINE)]
    assert any(all(re.search(rf"{number}\b", text) for number in row.numbers) for text in sources)


@pytest.mark.parametrize("row", [row for row in ROWS if row not in HELD], ids=lambda row: row.upstream.split(",")[0])
def test_what_no_test_holds_is_not_offered(row: Lesson) -> None:
    assert row.here.startswith("not offered")
