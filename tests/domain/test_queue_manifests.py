"""Which WorkQueues of files are worked, and what a mistake in one of them changes (that one, if it was never good)."""

from __future__ import annotations

from typing import Any

from soloist.domain.manifest_plan import REFUSED, Written
from soloist.domain.queue_manifests import QueuePlan, plan_queues
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import AfterCrash

TABLE = {"name": "app.rows", "id": "id", "dueAt": "due", "status": {"column": "s", "pending": ["new"], "done": "d", "failed": "f"}}  # fmt: skip
A, B = QueueName("default", "a"), QueueName("default", "b")
HELD = {"afterCrash": "Hold", "retry": {"maxAttempts": 3}}
WRONG = {"aftercrash": "Hold", "retry": {"maxAttempts": 3}}
SAYS = "q.yaml: default/a: spec.aftercrash is no field that is of use here: write spec.afterCrash."


def queue(name: str = "a", **spec: Any) -> Written:
    whole = {"database": {"secretName": "db", "key": "uri"}, "deliver": {"http": {"url": "http://backend/"}}, **spec}
    raw = {"kind": "WorkQueue", "metadata": {"name": name, "annotations": {"own": "word"}}, "spec": whole}
    return Written(raw=raw, file="q.yaml")


def plan(*queues: Written, before: QueuePlan | None = None, **problems: str) -> QueuePlan:
    return plan_queues(queues, {f"{name}.yaml": why for name, why in problems.items()}, before or QueuePlan())


def annotations(planned: QueuePlan) -> list[Any]:
    return [raw["metadata"]["annotations"] for raw in planned.objects]


def test_a_wrong_letter_in_a_queue_that_is_new_stops_that_queue_and_no_other() -> None:
    planned = plan(queue(**WRONG), queue("b"))
    assert list(planned.found.valid) == [B]
    assert planned.found.invalid[A].field == "spec.aftercrash"
    assert (planned.refused, planned.kept) == ({A: SAYS}, {})
    assert [raw["metadata"]["name"] for raw in planned.objects] == ["b"], "it would look like one that can be worked"


def test_a_queue_that_gets_a_wrong_letter_goes_on_as_it_was_until_it_is_mended() -> None:
    first = plan(queue(**HELD))
    for wrong, says in ((WRONG, SAYS), ({"leaseSeconds": 1}, "q.yaml: default/a: spec.leaseSeconds")):
        planned = plan(queue(**wrong), before=first)
        planned = plan(queue(**wrong), before=planned)
        spec = planned.found.valid[A]
        assert (spec.after_crash, spec.retry.max_attempts) == (AfterCrash.HOLD, 3)
        assert planned.found == first.found
        assert planned.refused[A].startswith(says)
        assert planned.kept == planned.refused
        refused = f"{planned.refused[A]} What was in effect before goes on."
        assert annotations(planned) == [{"own": "word", REFUSED: refused}]
    mended = plan(queue(afterCrash="Retry"), before=planned)
    assert mended.found.valid[A].after_crash is AfterCrash.RETRY
    assert (mended.refused, annotations(mended)) == ({}, [{"own": "word"}])


def test_what_was_good_is_forgotten_with_its_document() -> None:
    gone = plan(before=plan(queue(**HELD)))
    assert plan(queue(**WRONG), before=gone).found.valid == {}


def test_a_spec_that_was_never_good_is_shown_as_it_is() -> None:
    planned = plan(queue(leaseSeconds=1))
    assert planned.found.invalid[A].field == "spec.leaseSeconds"
    assert [raw["spec"]["leaseSeconds"] for raw in planned.objects] == [1]
    assert plan(Written(raw={"metadata": {"name": "a"}, "spec": [1]}, file="q.yaml")).found.valid == {}


def test_a_queue_of_a_file_that_cannot_be_read_says_why() -> None:
    planned = plan(queue(**HELD), q="q.yaml: this cannot be read as YAML: mend it.")
    assert annotations(planned) == [{"own": "word", REFUSED: "q.yaml: this cannot be read as YAML: mend it."}]
    assert planned.refused == {}, "the file says so itself"


def test_of_two_over_one_table_one_is_worked_also_while_the_other_goes_on_as_it_was() -> None:
    planned = plan(queue("b", table=TABLE))
    planned = plan(queue(table=TABLE), queue("b", table={**TABLE, "dueat": "x"}), before=planned)
    assert list(planned.found.valid) == [A]
    assert planned.found.invalid[B].reason == "AlreadyServed"
    assert list(planned.refused) == [B]
