"""Which queues a set of WorkQueue objects makes."""

from __future__ import annotations

from typing import Any

from soloist.domain.queue_name import FoundQueues, QueueName, queues_in

SPEC = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}}


def queue(name: str, spec: Any = SPEC, **metadata: Any) -> dict[str, Any]:
    return {"kind": "WorkQueue", "metadata": {"name": name, **metadata}, "spec": spec}


def test_a_queue_is_its_namespace_and_name_and_default_is_the_namespace_of_one_that_names_none() -> None:
    found = queues_in([queue("a", namespace="shop"), queue("a")])
    assert sorted(map(str, found.valid)) == ["default/a", "shop/a"]


def test_one_that_cannot_be_used_is_told_apart_and_the_others_are_there() -> None:
    found = queues_in(
        [queue("good"), queue("empty", None), queue("odd", "no mapping"), queue("late", SPEC | {"leaseSeconds": 1})]
    )
    assert list(found.valid) == [QueueName("default", "good")]
    assert {name.name: why.field for name, why in found.invalid.items()} == {
        "empty": "spec.database",
        "odd": "spec",
        "late": "spec.leaseSeconds",
    }


def test_one_that_is_being_deleted_is_there_no_more() -> None:
    assert queues_in([queue("a", deletionTimestamp="2026-01-01T00:00:00Z")]) == FoundQueues()
