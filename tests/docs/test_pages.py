"""The documentation says what the code says: generated parts are current, and no word of the API is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soloist.domain.http_request import HttpReason
from soloist.domain.queue_validity import Standing
from soloist.domain.runs import Phase
from soloist.domain.slots import SlotReason
from soloist.domain.standing import LossReason
from soloist.domain.ticks import Reason
from soloist.shells.cli import cli
from tests.docs.pages import DOCS, PAGES, ROOT, renewed

SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "operator").rglob("*.py")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (DOCS / "api.md").read_text(encoding="utf-8")
PROSE = [*ROOT.glob("*.md"), *DOCS.glob("*.md")]


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_parts_are_current(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == renewed(page), "out of date: make docs"


@pytest.mark.parametrize(
    "word", [*Reason, *HttpReason, *LossReason, *Standing, *(phase for phase in Phase if phase.final)]
)
def test_every_reason_is_explained(word: str) -> None:
    assert f"`{word}`" in API or f"{word}" in API.split("## What a request")[0]


@pytest.mark.parametrize("reason", SlotReason)
def test_every_reason_of_a_slot_is_explained(reason: str) -> None:
    assert f"`{reason}`" in (DOCS / "elect.md").read_text(encoding="utf-8")


def test_every_reason_of_an_event_is_explained() -> None:
    said = re.compile(
        r'(?:stands_in_the_way\([^"]*|_event\([^"]*|_notice\([^"]*|noticed\(\s*|Phase\.\w+: )"([A-Z]\w+)"'
    )
    words = {word for source in SOURCES for word in said.findall(source)}
    events = API.split("## Events")[1].split("## Metrics")[0]
    assert {"Invalid", "RunFailed", "PausedAfterFailures", "LeaseUnreachable"} <= words
    assert {word for word in words if f"`{word}`" not in events} == set()


def test_every_annotation_and_label_is_explained() -> None:
    keys = {key for source in SOURCES for key in re.findall(r'"(soloist\.dev/[a-z-]+)"', source)}
    assert {key for key in keys if f"`{key}`" not in API} == set()


def test_the_promise_is_the_same_word_for_word() -> None:
    """openshift-docs #4346."""
    promise = re.compile(r"^\d\. .+$", re.MULTILINE)
    ours = promise.findall(README.split("## The promise")[1].split("##")[0])
    theirs = promise.findall(
        (DOCS / "protocol.md").read_text(encoding="utf-8").split("## The promise")[1].split("##")[0]
    )
    assert len(ours) == 5
    assert ours == theirs


def test_every_test_that_the_readme_names_exists() -> None:
    files = (
        "api/test_failure_table",
        "api/test_sql_action",
        "api/test_database_gone",
        "api/test_elect",
        "api/test_elect_gone",
        "queue/test_worker_database_gone",
        "queue/test_worker_faults",
        "queue/test_worker_trouble",
        "standalone/test_failure_table",
        "standalone/test_standby",
    )
    table = "".join((ROOT / "tests" / f"{name}.py").read_text(encoding="utf-8") for name in files)
    named = re.findall(r"`(test_\w+)`", README)
    assert len(named) == 42
    assert [name for name in named if f"def {name}(" not in table] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.name)
def test_nothing_is_promised_that_cannot_be_kept(page: Path) -> None:
    assert "exactly" + "-once delivery" not in page.read_text(encoding="utf-8").lower()


def test_every_command_is_in_the_readme() -> None:
    assert "why" in cli.commands
    assert [name for name in cli.commands if f"soloist {name}" not in README] == []
