"""What a transaction's order binds: values, with the variables filled in, and nothing as text of SQL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from soloist.domain.actions import EnqueueAction, KeyRef, Order, SqlAction
from soloist.domain.sql_values import bound, payload, unique_key

DATABASE = KeyRef(kind="Secret", name="db", key="uri")
SQL = SqlAction(
    database=DATABASE,
    statement="SELECT $1, $2, $3, $4, $5, $6",
    values=("{key} by {job}", "{fence}", 30, 1.5, True, "{scheduledTime}"),
)
ROW = EnqueueAction(
    work_queue="emails", payload={"run": "{run}", "n": 1, "deep": [{"at": "{{at}} {attempt}"}]}, unique_key="{key}"
)
ORDER = Order(
    namespace="shop",
    job_name="sweep",
    job_uid="uid",
    generation=1,
    run_name="sweep-1",
    run_uid="run-uid",
    scheduled_time=datetime(2026, 3, 1, 2, tzinfo=UTC),
    attempt=2,
    key="uid/2026-03-01T02:00:00Z",
    fence=1_800_000_000_000_000,
    timeout=timedelta(seconds=30),
    action=SQL,
)


def test_values_keep_their_types_and_texts_have_their_variables() -> None:
    assert bound(ORDER, SQL) == [
        "uid/2026-03-01T02:00:00Z by sweep",
        "1800000000000000",
        30,
        1.5,
        True,
        "2026-03-01T02:00:00Z",
    ]


def test_the_time_of_a_manual_run_is_null() -> None:
    assert bound(replace(ORDER, scheduled_time=None), SQL)[-1] is None


def test_texts_of_a_payload_have_their_variables_wherever_they_are() -> None:
    assert payload(ORDER, ROW) == {"run": "sweep-1", "n": 1, "deep": [{"at": "{at}} 2"}]}


def test_a_unique_key_is_a_template_too() -> None:
    assert unique_key(ORDER, ROW) == ORDER.key
    assert unique_key(ORDER, replace(ROW, unique_key=None)) is None
