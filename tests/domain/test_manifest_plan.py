"""Which jobs are in effect, by what files say and what is in effect already."""

from __future__ import annotations

from typing import Any

from soloist.domain.manifest_plan import FILE, REFUSED, Plan, Raw, Written, plan
from soloist.domain.places import without_a_cluster

HTTP = {"url": "http://backend/"}
HERE = without_a_cluster(commands=False)


def written(name: str, file: str = "a.yaml", schedule: str = "@hourly", **metadata: Any) -> Written:
    return Written(
        raw={"metadata": {"name": name, **metadata}, "spec": {"schedule": schedule, "http": HTTP}}, file=file
    )


def stored(made: Plan) -> list[Raw]:
    """As they lie in the store afterwards, with a pause that a person has put there."""
    for raw in made.objects:
        raw["metadata"] |= {"uid": "u", "annotations": {**raw["metadata"]["annotations"], "soloist.dev/paused": "true"}}
    return list(made.objects)


def planned(*jobs: Written, before: list[Raw] | None = None, problems: dict[str, str] | None = None) -> Plan:
    return plan(jobs, problems or {}, before or [], HERE)


def only(made: Plan) -> Raw:
    (raw,) = made.objects
    return raw


def test_a_job_is_put_in_with_the_name_of_its_file_and_its_own_labels_and_annotations() -> None:
    raw = only(planned(written("a", labels={"team": "x"}, annotations={"note": "y"})))
    assert raw["metadata"] == {"namespace": "default", "name": "a", "labels": {"team": "x"}, "annotations": {"note": "y", FILE: "a.yaml"}}  # fmt: skip
    assert raw["spec"]["schedule"] == "@hourly"


def test_a_job_that_no_file_has_any_more_goes() -> None:
    before = stored(planned(written("a"), written("b")))
    assert [raw["metadata"]["name"] for raw in planned(written("b"), before=before).objects] == ["b"]


def test_a_job_of_a_file_that_cannot_be_read_stays_with_the_reason_though_nobody_has_read_it_yet() -> None:
    before = stored(planned(written("a", "broken.yaml"), written("b", "gone.yaml")))
    made = planned(before=before, problems={"broken.yaml": "broken.yaml: mend it."})
    raw = only(made)
    assert (raw["metadata"]["name"], raw["metadata"]["annotations"]) == ("a", {FILE: "broken.yaml", REFUSED: "broken.yaml: mend it."})  # fmt: skip
    assert made.refused == ["broken.yaml: mend it."]


def test_a_spec_that_cannot_be_used_leaves_the_one_that_could_and_says_why() -> None:
    before = stored(planned(written("a")))
    made = planned(written("a", schedule="now and then"), before=before)
    raw = only(made)
    assert raw["spec"]["schedule"] == "@hourly"
    assert "spec.schedule" in raw["metadata"]["annotations"][REFUSED]
    assert "What was in effect before goes on." in raw["metadata"]["annotations"][REFUSED]
    assert REFUSED not in only(planned(written("a"), before=stored(made)))["metadata"]["annotations"], (
        "once it is mended"
    )


def test_an_action_that_is_not_for_here_counts_as_a_spec_that_cannot_be_used() -> None:
    before = stored(planned(written("a")))
    command = Written(raw={"metadata": {"name": "a"}, "spec": {"schedule": "@hourly", "exec": {"command": ["true"]}}}, file="a.yaml")  # fmt: skip
    assert "http" in only(planned(command, before=before))["spec"]


def test_a_spec_that_was_never_good_is_put_in_for_the_rules_to_refuse() -> None:
    made = planned(written("a", schedule="now and then"))
    assert only(made)["spec"]["schedule"] == "now and then"
    assert made.refused


def test_two_with_the_same_files_plan_the_same_whether_the_last_plan_is_in_effect_or_not() -> None:
    good = planned(written("a"))
    bad = written("a", schedule="now and then")
    first = planned(bad, before=stored(good))
    assert planned(bad, before=stored(first)).objects == planned(bad, before=stored(good)).objects


def test_a_name_that_kubernetes_would_not_take_is_refused_and_stops_no_other_job() -> None:
    made = planned(written("Not A Name"), written("b"))
    assert only(made)["metadata"]["name"] == "b"
    assert "'Not A Name' is no name" in made.refused[0]


def test_a_field_that_nobody_reads_is_a_mistake_and_what_was_in_effect_goes_on() -> None:
    spec = {"schedule": "@daily", "missedRunPolcy": "Skip", "http": HTTP}
    job = Written(raw={"metadata": {"name": "a"}, "spec": spec}, file="a.yaml")
    assert planned(job).objects == []
    assert "write spec.missedRunPolicy" in planned(job).refused[0]
    raw = only(planned(job, before=stored(planned(written("a")))))
    assert raw["spec"]["schedule"] == "@hourly"
    assert "write spec.missedRunPolicy" in raw["metadata"]["annotations"][REFUSED]


def test_while_a_folder_says_nothing_about_what_there_is_to_be_nothing_is_removed() -> None:
    before = stored(planned(written("a"), written("b", "other.yaml")))
    made = plan([written("b", "other.yaml")], {}, before, HERE, ["/jobs holds no manifest."])
    assert {raw["metadata"]["name"]: raw["metadata"]["annotations"].get(REFUSED) for raw in made.objects} == {"a": "/jobs holds no manifest.", "b": None}  # fmt: skip
    assert made.refused == ["/jobs holds no manifest."]


def test_labels_and_annotations_that_are_none_are_passed_over_and_a_uid_in_a_file_means_nothing() -> None:
    for odd in ("text", ["text"], 5, None):
        raw = only(planned(written("a", labels=odd, annotations=odd)))
        assert raw["metadata"] | {"namespace": ""} == {"namespace": "", "name": "a", "labels": {}, "annotations": {FILE: "a.yaml"}}  # fmt: skip
    exported = only(planned(written("a", uid="of-a-cluster", labels={"team": 1}, annotations={"note": "y"})))
    assert exported["metadata"]["labels"] == {"team": "1"}
    assert exported["metadata"]["annotations"] == {"note": "y", FILE: "a.yaml"}
