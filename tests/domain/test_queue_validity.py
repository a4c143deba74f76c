"""What the condition Valid of a WorkQueue says, and which of two queues a table belongs to."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import TableName
from soloist.domain.queue_validity import Answer, Claimant, Schema, Unfit, Unreachable, Unread, served_by, validity
from soloist.domain.spec_fields import Invalid
from soloist.domain.told import merge_conditions
from tests.domain.test_queue_parsing import EXTERNAL, LEAST, MAPPED, good

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)
READY = Schema(found=10, needed=10)
HOOKS = TableName("public", "WebhookDelivery")


def queue(name: str, *, uid: str = "", after: int = 0, installation: str = "one", table: TableName = HOOKS) -> Claimant:
    """A WorkQueue that was created so many seconds after the others."""
    created = NOW + timedelta(seconds=after)
    return Claimant(
        queue=QueueName("default", name), uid=uid or name, created=created, installation=installation, table=table
    )


def served(*claimants: Claimant) -> dict[str, str]:
    return {queue.name: other.name for queue, other in served_by(claimants).items()}


@pytest.mark.parametrize(
    ("raw", "answer", "status", "reason", "message"),
    [
        (LEAST, READY, "True", "Accepted", "The queue can be worked."),
        ({**LEAST, "suspend": True}, READY, "True", "Accepted", "The queue can be worked once spec.suspend is false."),
        (EXTERNAL, READY, "True", "Accepted", "Workers of your own can work the queue."),
        (
            LEAST,
            Schema(found=None, needed=10),
            "False",
            "SchemaMissing",
            "The database of Secret backend-db, key uri, has no schema soloist: run soloist migrate with that URI.",
        ),
        (
            MAPPED,
            Schema(found=9, needed=10),
            "False",
            "SchemaMissing",
            "The database of Secret backend-db, key uri, has version 9 of the schema soloist, and 10 is needed: run soloist "
            "migrate with that URI.",
        ),
        (
            MAPPED,
            Schema(found=11, needed=10),
            "False",
            "SchemaTooNew",
            "The database of Secret backend-db, key uri, has version 11 of the schema soloist, and this program knows versions "
            "up to 10: run a release of Soloist that is as new as the one that migrated it.",
        ),
        (MAPPED, Unfit("spec.table.dueAt: there is no such column."), "False", "TableUnfit", "spec.table.dueAt: there is no such column."),
        (
            LEAST,
            Unread("Secret default/db does not exist: create it, or name another one."),
            "Unknown",
            "SecretUnreadable",
            "Secret default/db does not exist: create it, or name another one.",
        ),
        (
            MAPPED,
            Unreachable("backend: connection refused."),
            "Unknown",
            "DatabaseUnreachable",
            "Nothing is known of the table: backend: connection refused.",
        ),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_said(
    raw: dict[str, Any], answer: Answer, status: str, reason: str, message: str
) -> None:
    assert validity(good(raw), answer) == ("Valid", status, reason, message)


def test_a_spec_that_cannot_be_used_is_said_first() -> None:
    invalid = Invalid(field="spec.poll", reason="FieldInvalid", message="spec.poll must be …")
    found = validity(invalid, Unreachable("…"), QueueName("default", "other"))
    assert found == ("Valid", "False", "FieldInvalid", "spec.poll must be …")


def test_a_table_of_another_queue_is_said_before_what_its_database_says() -> None:
    found = validity(good(MAPPED), Unfit("…"), QueueName("shop", "webhooks"))
    assert found == (
        "Valid",
        "False",
        "AlreadyServed",
        'The table public."WebhookDelivery" is already served by shop/webhooks: one WorkQueue works a table, so delete one of '
        "the two, or name another table in spec.table.name.",
    )


def test_the_condition_is_one_that_a_status_takes() -> None:
    (condition,) = merge_conditions({}, [validity(good(LEAST), READY)], 3, NOW)
    assert (condition["type"], condition["status"], condition["observedGeneration"]) == ("Valid", "True", 3)


def test_the_oldest_queue_serves_a_table() -> None:
    old, young, youngest = queue("a", after=1), queue("b", after=2), queue("c", after=3)
    for order in permutations((old, young, youngest)):
        assert served(*order) == {"b": "a", "c": "a"}


def test_of_two_that_are_as_old_the_lesser_uid_serves_the_table() -> None:
    assert served(queue("a", uid="2"), queue("b", uid="1")) == {"a": "b"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(queue("b", installation="two"), id="the same name in another database"),
        pytest.param(queue("b", table=TableName("app", "WebhookDelivery")), id="another schema"),
        pytest.param(queue("b", table=TableName("public", "webhookdelivery")), id="other capitals"),
    ],
)
def test_another_table_is_no_concern(other: Claimant) -> None:
    assert served(queue("a"), other) == {}


def test_the_queue_of_the_same_name_in_another_namespace_is_another_queue() -> None:
    theirs = Claimant(queue=QueueName("shop", "a"), uid="0", created=NOW, installation="one", table=HOOKS)
    assert served_by([queue("a"), theirs]) == {QueueName("default", "a"): QueueName("shop", "a")}


CLAIMANTS = st.lists(
    st.builds(
        queue,
        st.sampled_from("abcdef"),
        after=st.integers(0, 2),
        installation=st.sampled_from(["one", "two"]),
        table=st.sampled_from([HOOKS, TableName("public", "orders")]),
    ),
    unique_by=lambda claimant: claimant.queue,
)


@given(CLAIMANTS, st.randoms())
def test_every_table_is_served_by_one_queue_whatever_the_order(claimants: list[Claimant], chance: Any) -> None:
    others = served_by(claimants)
    served_tables = [(each.installation, each.table) for each in claimants if each.queue not in others]
    assert len(set(served_tables)) == len(served_tables)
    assert set(served_tables) == {(each.installation, each.table) for each in claimants}
    assert not others.keys() & set(others.values())
    chance.shuffle(claimants)
    assert served_by(claimants) == others
