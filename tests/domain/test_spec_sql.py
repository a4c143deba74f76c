"""Reading the sql and enqueue actions. The words of their refusals are in tests/crds/bad.yaml."""

import json
from datetime import timedelta
from typing import Any

import pytest

from soloist.domain.actions import EnqueueAction, KeyRef, SqlAction, asking, kind_of, ledger_of
from tests.domain.test_spec import TRANSACTIONS, good, refused

DATABASE = {"secretName": "backend-db", "key": "uri"}


def test_a_statement_has_numbers_for_names_and_its_values_beside_it() -> None:
    spec = good(TRANSACTIONS[0])
    assert spec.action == SqlAction(
        database=KeyRef(kind="Secret", name="backend-db", key="uri"),
        statement="UPDATE gigs SET expired = $1 WHERE due < $2::timestamptz - make_interval(days => $3)",
        values=(True, "{scheduledTime}", 30),
    )
    assert spec.timeout == timedelta(seconds=30)


def test_a_row_has_all_that_was_written() -> None:
    assert good(TRANSACTIONS[1]).action == EnqueueAction(
        work_queue="emails",
        payload={"run": "{key}", "list": [1, {"a": None}]},
        due_in=timedelta(minutes=1),
        priority=0,
        unique_key="digest {scheduledTime}",
    )


def test_a_row_needs_no_more_than_a_queue_and_that_may_be_one_without_a_work_queue() -> None:
    assert good({"schedule": "@daily", "enqueue": {"workQueue": "emails"}}).action == EnqueueAction(work_queue="emails")
    own = {"databaseRef": DATABASE, "queue": "emails"}
    assert good({"schedule": "@daily", "enqueue": own}).action == EnqueueAction(
        database=KeyRef(kind="Secret", name="backend-db", key="uri"), queue="emails"
    )


@pytest.mark.parametrize("action", [{"workQueue": "emails"}, {"databaseRef": DATABASE, "queue": "emails"}])
def test_a_ledger_can_be_asked_by_its_name_alone(action: dict[str, Any]) -> None:
    ledger = ledger_of(good({"schedule": "@daily", "enqueue": action}).action)
    assert ledger_of(asking(ledger)) == ledger


def test_a_statement_and_a_row_in_one_database_have_one_ledger() -> None:
    sql = good({"schedule": "@daily", "sql": {"databaseRef": DATABASE, "statement": "SELECT 1"}}).action
    row = good({"schedule": "@daily", "enqueue": {"databaseRef": DATABASE, "queue": "emails"}}).action
    assert ledger_of(sql) == ledger_of(row) == "secret/backend-db/uri"
    assert (kind_of(sql), kind_of(row)) == ("sql", "enqueue")


@pytest.mark.parametrize("action", TRANSACTIONS, ids=["sql", "enqueue"])
def test_they_may_be_tried_again(action: dict[str, Any]) -> None:
    assert good({**action, "retry": {"maxAttempts": 3}}).retry.max_attempts == 3


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"a": "x\0"}, "NUL"),
        ({"a\0": 1}, "NUL"),
        ({"a": ["\ud800"]}, "half of a character"),
        ({"a": float("nan")}, "JSON object"),
        ({"a": "x" * 65536}, "at most 65536 bytes"),
        ({"deep": json.loads("[" * 500 + "]" * 500)}, "nested deeper than 32"),
        ({"a": {"b": ["{nope}"]}}, "{nope}, which is no variable"),
    ],
    ids=["nul", "nul-in-key", "surrogate", "nan", "large", "deep", "variable"],
)
def test_a_payload_that_no_row_could_carry_is_refused(payload: dict[str, Any], words: str) -> None:
    problem = refused({"schedule": "@daily", "enqueue": {"workQueue": "emails", "payload": payload}})
    assert problem.field == "spec.enqueue.payload"
    assert words in problem.message


@pytest.mark.parametrize("value", [2**63, float("inf"), [1], {"a": 1}, "x\0", "{nope}", "x" * 4097], ids=repr)
def test_a_value_that_no_parameter_could_take_is_refused(value: Any) -> None:
    sql = {"databaseRef": DATABASE, "statement": "SELECT :a", "parameters": {"a": value}}
    assert refused({"schedule": "@daily", "sql": sql}).field == "spec.sql.parameters.a"
