"""Of two WorkQueues over one table a worker works the one whose table it is."""

from __future__ import annotations

from typing import Any

from soloist.domain.one_each import one_each
from soloist.domain.queue_name import FoundQueues, queues_in

TABLE = {
    "id": "id",
    "dueAt": "due",
    "status": {"column": "status", "pending": ["new"], "done": "done", "failed": "dead"},
}
YEAR = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"


def queue(
    name: str,
    created: str | None,
    *,
    secret: str = "db",
    table: str = "app.deliveries",
    namespace: str = "shop",
    **more: Any,
) -> dict[str, Any]:
    spec = {
        "database": {"secretName": secret, "key": "uri"},
        "deliver": {"http": {"url": "http://backend/", "bodyColumn": "body"}},
        "table": TABLE | {"name": table},
        **more,
    }
    dated = {"creationTimestamp": created} if created else {}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 3, **dated}
    return {"kind": "WorkQueue", "metadata": metadata, "spec": spec}


def told(obj: dict[str, Any], *, generation: int, reason: str = "AlreadyServed") -> dict[str, Any]:
    condition = {"type": "Valid", "status": "False", "reason": reason, "message": "It is another's."}
    return obj | {"status": {"conditions": [condition | {"observedGeneration": generation}]}}


def worked(*objects: dict[str, Any]) -> list[str]:
    return sorted(name.name for name in found(*objects).valid)


def found(*objects: dict[str, Any]) -> FoundQueues:
    return one_each(objects, queues_in(objects))


def test_the_older_of_two_over_one_table_is_worked_and_the_other_says_whose_it_is() -> None:
    both = found(queue("second", LATER), queue("first", YEAR))
    assert [name.name for name in both.valid] == ["first"]
    ((name, why),) = both.invalid.items()
    assert (name.name, why.field, why.reason) == ("second", "spec.table.name", "AlreadyServed")
    assert "already served by shop/first" in why.message


def test_files_have_no_dates_and_the_lesser_name_is_worked() -> None:
    assert worked(queue("b", None), queue("a", None)) == ["a"]


def test_a_suspended_queue_keeps_its_table() -> None:
    assert worked(queue("first", YEAR, suspend=True), queue("second", LATER)) == ["first"]


def test_other_tables_other_secrets_and_other_namespaces_are_nobody_elses() -> None:
    first = queue("first", YEAR)
    assert worked(first, queue("second", LATER, table="app.others")) == ["first", "second"]
    assert worked(first, queue("second", LATER, secret="other")) == ["first", "second"]
    assert worked(first, queue("second", LATER, namespace="elsewhere")) == ["first", "second"]


def test_what_the_controller_found_by_asking_the_databases_counts_for_the_spec_it_was_said_of() -> None:
    first, second = queue("first", YEAR), queue("second", LATER, secret="another-way-there")
    assert worked(first, told(second, generation=3)) == ["first"]
    assert worked(first, told(second, generation=2)) == ["first", "second"]
    assert worked(first, told(second, generation=3, reason="TableUnfit")) == ["first", "second"]


def test_once_the_older_is_deleted_the_other_is_worked() -> None:
    gone = queue("first", YEAR)
    gone["metadata"]["deletionTimestamp"] = LATER
    assert worked(gone, queue("second", LATER)) == ["second"]


def test_queues_on_our_own_table_share_it() -> None:
    managed = [queue(name, YEAR) for name in ("a", "b")]
    for each in managed:
        del each["spec"]["table"]
        del each["spec"]["deliver"]["http"]["bodyColumn"]
    assert worked(*managed) == ["a", "b"]
