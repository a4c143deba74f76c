"""What is written to the status of a WorkQueue, and when nothing is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.depth import Depth
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_status import (
    Learned,
    WatchedQueue,
    conditions_of,
    status_patch,
    turned_bad,
    watched_queue,
)
from soloist.domain.queue_validity import Condition, Schema, Unreachable
from tests.domain.test_queue_parsing import LEAST, MAPPED

NOW = datetime(2026, 11, 30, 12, 0, 1, 500_000, tzinfo=UTC)
THEN = "2026-11-30T11:00:00Z"
GOOD: Condition = ("Valid", "True", "Accepted", "The queue can be worked.")
UNFIT: Condition = ("Valid", "False", "TableUnfit", "spec.table.dueAt: no such column.")
AWAY: Condition = ("Valid", "Unknown", "DatabaseUnreachable", "Nothing is known of the table: refused.")
UNREAD: Condition = ("Valid", "Unknown", "SecretUnreadable", "Secret shop/db does not exist.")
DEPTH = Depth(ready=3, scheduled=2, in_flight=1, dead=4, oldest_due=7.9, whole=True)
COUNTS = {"ready": 3, "scheduled": 2, "inFlight": 1, "dead": 4, "oldestDueSeconds": 7}
READY = Learned(answer=Schema(found=9, needed=9), installation="one")


def queue(name: str = "q", *, raw: dict[str, Any] = LEAST, after: int = 0, **more: Any) -> WatchedQueue:
    made = WatchedQueue(
        name=QueueName("shop", name),
        uid=f"uid-{name}",
        generation=3,
        created=NOW + timedelta(seconds=after),
        resource_version="7",
        spec=parse_queue(raw),
    )
    return replace(made, **more)


def told(condition: Condition = GOOD, *, generation: int = 3, **more: Any) -> dict[str, Any]:
    """A status as an earlier write left it."""
    kind, status, reason, message = condition
    valid = {"type": kind, "status": status, "reason": reason, "message": message}
    more = {**COUNTS, "measuredTime": THEN, **more}
    return {"conditions": [{**valid, "observedGeneration": generation, "lastTransitionTime": THEN}], **more}


def patched(status: dict[str, Any], condition: Condition = GOOD, depth: Depth | None = DEPTH, **more: Any) -> Any:
    rests = {"at_leisure": False, **more}
    return status_patch(queue(status=status), condition, depth, now=NOW, **rests)


def test_the_first_word_is_said_at_once_with_all_that_was_measured() -> None:
    assert patched({}) == {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Valid",
                "status": "True",
                "reason": "Accepted",
                "message": "The queue can be worked.",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-11-30T12:00:01Z",
            }
        ],
        **COUNTS,
        "measuredTime": "2026-11-30T12:00:01Z",
    }


@pytest.mark.parametrize(
    ("before", "now", "depth"),
    [
        (told(), UNFIT, DEPTH),
        (told(), AWAY, None),
        (told(UNFIT), GOOD, DEPTH),
        (told(UNFIT), ("Valid", "False", "AlreadyServed", UNFIT[3]), None),
        (told(generation=2), GOOD, DEPTH),
    ],
    ids=["invalid", "unknown", "valid", "another reason", "another spec"],
)
def test_what_turns_is_said_at_once(before: dict[str, Any], now: Condition, depth: Depth | None) -> None:
    assert patched(before, now, depth)["conditions"][0]["reason"] == now[2]


@pytest.mark.parametrize(
    ("before", "condition"),
    [(told(ready=2), GOOD), (told(dead=0), GOOD), (told(("Valid", "True", "Accepted", "Another wording.")), GOOD)],
    ids=["ready", "dead", "wording"],
)
def test_what_only_moves_waits_for_leisure(before: dict[str, Any], condition: Condition) -> None:
    assert patched(before, condition) is None
    found = patched(before, condition, at_leisure=True)
    assert found["ready"] == 3
    assert found["conditions"][0]["message"] == condition[3]
    assert found["conditions"][0]["lastTransitionTime"] == THEN, "nothing turned"


def test_where_nothing_is_different_nothing_is_written() -> None:
    assert patched(told(), at_leisure=True) is None


def test_what_was_measured_stays_while_the_database_cannot_be_asked() -> None:
    found = patched(told(), AWAY, None)
    assert found.keys() == {"observedGeneration", "conditions"}


def test_conditions_of_others_stay() -> None:
    other = {"type": "Theirs", "status": "True"}
    before = told(UNFIT)
    before["conditions"].append(other)
    assert patched(before)["conditions"][1] == other


@given(st.booleans(), st.sampled_from([GOOD, UNFIT, AWAY]), st.sampled_from([GOOD, UNFIT, AWAY]))
def test_a_patch_once_applied_leaves_nothing_to_write(leisure: bool, before: Condition, now: Condition) -> None:
    status = told(before)
    found = patched(status, now, at_leisure=leisure)
    assert patched({**status, **(found or {})}, now, at_leisure=leisure) is None


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, UNFIT, True),
        (told(), UNFIT, True),
        (told(AWAY), UNFIT, True),
        (told(UNFIT), UNFIT, False),
        (told(UNFIT, generation=2), UNFIT, False),
        (told(UNFIT), ("Valid", "False", "AlreadyServed", "…"), True),
        (told(), AWAY, True),
        (told(AWAY), AWAY, False),
        (told(AWAY), UNREAD, True),
        (told(UNFIT), GOOD, False),
    ],
)
def test_people_are_told_when_a_queue_turns_bad_and_not_again(
    before: dict[str, Any], now: Condition, expected: bool
) -> None:
    assert turned_bad(queue(status=before), now) is expected


def reasons(*known: tuple[WatchedQueue, Learned | None]) -> dict[str, str]:
    return {name.name: condition[2] for name, condition in conditions_of(known).items()}


def test_a_queue_is_judged_once_its_database_has_been_asked() -> None:
    unusable = queue("bad", raw={"database": {"secretName": "db", "key": "uri"}})
    assert reasons((queue("a"), None), (queue("b"), READY), (unusable, None)) == {
        "b": "Accepted",
        "bad": "FieldRequired",
    }


def test_a_second_queue_on_a_table_is_refused_and_of_another_database_it_is_not() -> None:
    older, newer = queue("old", raw=MAPPED), queue("new", raw=MAPPED, after=5)
    assert reasons((newer, READY), (older, READY)) == {"old": "Accepted", "new": "AlreadyServed"}
    elsewhere = replace(READY, installation="two")
    assert reasons((newer, elsewhere), (older, READY)) == {"old": "Accepted", "new": "Accepted"}


def test_nobody_is_given_a_table_before_every_other_on_it_has_been_asked_about() -> None:
    older, newer = queue("old", raw=MAPPED), queue("new", raw=MAPPED, after=5)
    assert reasons((newer, READY), (older, None)) == {}
    away = Learned(answer=Unreachable("refused."))
    assert reasons((newer, READY), (older, away)) == {"new": "Accepted", "old": "DatabaseUnreachable"}
    assert reasons((newer, READY), (older, replace(away, installation="one"))) == {
        "new": "AlreadyServed",
        "old": "DatabaseUnreachable",
    }


def test_an_object_is_read_as_the_api_server_gives_it() -> None:
    metadata = {"namespace": "shop", "name": "q", "uid": "u", "resourceVersion": "12", "generation": 4}
    raw = {"metadata": {**metadata, "creationTimestamp": THEN}, "spec": LEAST, "status": {"ready": 1}}
    found = watched_queue(raw)
    assert found is not None
    assert (found.name, found.which, found.resource_version) == (QueueName("shop", "q"), ("u", 4), "12")
    assert found.created == datetime(2026, 11, 30, 11, tzinfo=UTC)
    assert watched_queue({**raw, "metadata": {**metadata, "deletionTimestamp": THEN}}) is None
