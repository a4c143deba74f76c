"""Manifests that change under running replicas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from soloist.domain.instants import parse_time, stamp
from soloist.shells.cli import cli
from tests.cluster.backend import Received
from tests.cluster.children import until
from tests.cluster.health_pages import asked
from tests.standalone.crew import STEADY, Crew, Raw, job

pytestmark = pytest.mark.slow
EVERY, TIME_ENOUGH = 15, timedelta(seconds=9)
"""A look at the files takes a second or two."""
REFUSED = "soloist.dev/refused"


def test_an_edit_holds_from_then_on_and_no_tick_is_lost_or_twice(crew: Crew) -> None:
    crew.env = dict(STEADY)
    plain = {"schedule": "@every 1s", "concurrencyPolicy": "Allow", "timeoutSeconds": 60}
    crew.write("jobs.yaml", crew.job("sweep", **plain))
    crew.start("a")
    crew.backend.wait(3, path="/sweep", timeout=120)
    for body in ("one", "two", "three"):
        spec = crew.job("sweep", **plain)
        spec["spec"]["http"]["body"] = body
        crew.write("jobs.yaml", spec)
        crew.backend.wait(2, path="/sweep", when=lambda seen, body=body: seen.body == body, timeout=120)
    page = crew.audit("sweep")
    assert not page.gaps
    stored = crew.stored("sweep")
    assert stored is not None
    assert stored["metadata"]["generation"] == 4


def test_a_broken_file_keeps_its_jobs_as_they_were_and_says_why_also_to_the_next_process(crew: Crew) -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write("other.yaml", crew.job("other", schedule="@every 1s"))
    first = crew.start("a")
    crew.backend.wait(2, path="/sweep", timeout=120)
    (crew.files / "jobs.yaml").write_text("half: [a")
    until(lambda: reason(crew, "sweep"), what="the job says why", timeout=120)
    assert "cannot be read as YAML" in reason(crew, "sweep")
    assert reason(crew, "other") == ""
    first.terminate()
    until(lambda: not first.process.alive(), what="it has ended", timeout=120)
    crew.start("b")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s", jitterSeconds=0, suspend=True))
    until(lambda: reason(crew, "sweep") == "", what="the reason is gone once it is mended", timeout=120)
    (crew.files / "jobs.yaml").unlink()
    until(lambda: crew.stored("sweep") is None, what="a job whose file is gone is gone", timeout=120)


def test_a_wrong_letter_in_the_kind_of_a_running_file_removes_nothing_and_says_why_until_it_is_mended(
    crew: Crew,
) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.ready("a")
    crew.backend.wait(2, path="/sweep", timeout=120)
    before, runs = crew.stored("sweep"), names_of(crew, "JobRun")
    assert before is not None
    crew.write("jobs.yaml", {**crew.job("sweep", schedule="@every 2s"), "kind": "ScheduledJbo"}, crew.job("late", schedule="@every 1s"))  # fmt: skip
    why = "jobs.yaml: document 1 (\"sweep\"): kind 'ScheduledJbo' is not known here: write ScheduledJob."
    until(lambda: why in reason(crew, "sweep"), what="the job says why", timeout=120)
    assert [line["sentence"].endswith(why) for line in crew.said("a", "file not taken")] == [True]
    code, page = asked(crew.hear("a", "started")["health_port"], "/readyz")
    assert (code, why in page) == (200, True)
    told = CliRunner().invoke(cli, ["why", "late", "--database", crew.url]).output
    assert 'There is no ScheduledJob "late"' in told
    assert "while its file is not taken as it is" in told
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 2s"))
    until(lambda: reason(crew, "sweep") == "", what="the reason is gone once it is mended", timeout=120)
    after = crew.stored("sweep")
    assert after is not None
    assert (after["metadata"]["uid"], after["spec"]["schedule"]) == (before["metadata"]["uid"], "@every 2s")
    assert runs <= names_of(crew, "JobRun"), "no run was removed"
    assert [line["removed"] for line in crew.said("a", "files are in effect") if line["removed"]] == []
    page = asked(crew.hear("a", "started")["health_port"], "/readyz")[1]
    assert "files: all files are taken" in page


def test_a_queue_whose_file_gets_a_field_that_does_not_exist_goes_on_as_it_was_and_says_why(crew: Crew) -> None:
    crew.env = dict(STEADY)
    spec: Raw = {
        "database": {"secretName": "own", "key": "uri"},
        "deliver": {"http": {"url": crew.backend.url("/pay")}},
    }
    pay = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "pay"}}
    crew.write("queues.yaml", {**pay, "spec": {**spec, "afterCrash": "Hold"}})
    crew.ready("a")
    crew.hear("a", "queue is worked")
    new = {**pay, "metadata": {"name": "new"}}
    crew.write("queues.yaml", *({**each, "spec": {**spec, "aftercrash": "Hold"}} for each in (pay, new)))
    why = "spec.aftercrash is no field that is of use here: write spec.afterCrash."
    until(
        lambda: f"default/pay: queues.yaml: default/pay: {why}" in listed(crew), what="the list says why", timeout=150
    )
    assert [each["spec"].get("afterCrash") for each in crew.objects("WorkQueue")] == ["Hold"]
    assert names_of(crew, "WorkQueue") == {"pay"}, "one that is new is not made"
    for name in ("pay", "new"):
        sentence = f"queues.yaml: default/{name}: {why}"
        assert sentence in asked(crew.hear("a", "started")["health_port"], "/readyz")[1]
        assert sentence in [line["sentence"] for line in crew.said("a", "file not taken")]
    crew.ask("SELECT soloist.enqueue('default/pay', '{}')")
    crew.backend.wait(1, path="/pay", timeout=120)
    assert crew.said("a", "queue is worked no more") == []
    crew.write("queues.yaml", *({**each, "spec": {**spec, "afterCrash": "Hold"}} for each in (pay, new)))
    until(
        lambda: names_of(crew, "WorkQueue") == {"pay", "new"} and why not in listed(crew),
        what="it is mended",
        timeout=150,
    )
    assert "files: all files are taken" in asked(crew.hear("a", "started")["health_port"], "/readyz")[1]


def test_a_spec_that_cannot_be_used_changes_nothing_where_there_was_one_that_could(crew: Crew) -> None:
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"), job("never", schedule="0 2 31 2 *", http={"url": "http://x/"}))  # fmt: skip
    crew.start("a")
    crew.backend.wait(2, path="/sweep", timeout=120)
    until(lambda: invalid(crew, "never"), what="what was never good says so", timeout=120)
    crew.write("jobs.yaml", crew.job("sweep", schedule="every second"))
    until(lambda: "spec.schedule" in reason(crew, "sweep"), what="the job says what is wrong", timeout=120)
    crew.backend.wait(len(crew.backend.received("/sweep")) + 2, path="/sweep", timeout=120)
    stored = crew.stored("sweep")
    assert stored is not None
    assert stored["spec"]["schedule"] == "@every 1s"


def test_of_two_replicas_with_different_files_the_leaders_hold_and_the_other_says_so(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write("jobs.yaml", crew.job("other", schedule="@every 1s"), folder="others")
    crew.start("a")
    crew.backend.wait(1, path="/sweep", timeout=120)
    crew.start("b", folder="others")
    assert crew.hear("b", "files differ")["in_effect"].startswith("a-")
    seen = crew.stored("sweep")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    assert crew.backend.received("/other") == []
    after = crew.stored("sweep")
    assert seen is not None
    assert after is not None
    assert [after["metadata"][key] for key in ("uid", "generation")] == [seen["metadata"][key] for key in ("uid", "generation")]  # fmt: skip
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"), folder="others")
    crew.hear("b", "files agree")
    assert len(crew.said("b", "files differ")) == 1
    assert len(crew.said("a", "files are in effect")) == 1, "nothing was undone and done again"


def test_at_a_hand_over_the_jobs_become_those_of_the_new_leaders_files_once_and_stay_so(crew: Crew) -> None:
    crew.env = dict(STEADY)
    plain = {"schedule": "@every 1s", "concurrencyPolicy": "Allow", "timeoutSeconds": 60}
    mine, theirs, again = (with_body(crew.job("sweep", **plain), body) for body in ("1st", "2nd", "3rd"))
    crew.write("jobs.yaml", mine, crew.job("mine", **plain))
    crew.write("jobs.yaml", theirs, crew.job("theirs", **plain), folder="others")
    first = crew.ready("a")
    crew.backend.wait(2, path="/mine", timeout=120)
    crew.ready("b", folder="others")
    before = crew.stored("sweep")
    first.terminate()
    crew.backend.wait(3, path="/theirs", timeout=120)
    until(lambda: not first.process.alive(), what="the former leader has ended", timeout=120)
    applied = crew.said("b", "files are in effect")
    assert [[line[what] for what in ("made", "changed", "removed")] for line in applied] == [[1, 1, 1]]
    ended = len(crew.backend.received("/mine"))
    crew.ready("a")
    crew.write("jobs.yaml", again, crew.job("mine", **plain))
    assert crew.hear("a", "files differ")["in_effect"].startswith("b-")
    crew.backend.wait(len(crew.backend.received("/sweep")) + 3, path="/sweep", timeout=120)
    after = crew.stored("sweep")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert crew.said("b", "files are in effect") == applied
    assert crew.said("a", "files are in effect") == []
    assert crew.stored("mine") is None
    assert len(crew.backend.received("/mine")) == ended
    bodies = [seen.body for seen in crew.backend.received("/sweep")]
    assert bodies == sorted(bodies), "each leader's own, and never back"
    assert set(bodies) == {"1st", "2nd"}
    crew.audit("sweep")


def test_an_edit_while_a_tick_is_due_holds_for_that_tick_though_its_run_stands_ready(crew: Crew) -> None:
    """Its launch lies some seconds ahead. One job is given another body, the others take the tick away in three ways."""
    crew.env = {**STEADY, "SOLOIST_CLAIM_AHEAD": str(EVERY)}
    plain = {"schedule": f"@every {EVERY}s", "timeoutSeconds": 60}
    jobs = {name: crew.job(name, **plain) for name in ("edited", "moved", "suspended", "removed", "untouched")}
    crew.write("jobs.yaml", *jobs.values())
    for name in ("a", "b"):
        crew.ready(name)
    due, runs = until(lambda: standing_ready(crew, set(jobs)), what="a tick is due for all", timeout=120)
    crew.write(
        "jobs.yaml",
        with_body(jobs["edited"], "new"),
        jobs["untouched"],
        crew.job("moved", **{**plain, "schedule": "0 0 29 2 *"}),
        crew.job("suspended", **plain, suspend=True),
    )
    leader = crew.leader().name
    until(lambda: crew.stored("removed") is None, what="the edit is in effect", timeout=120)
    assert datetime.now(UTC) < due, "and that before the tick"
    for name, body in (("edited", "new"), ("untouched", "")):
        (seen,) = calls_of(crew, name, due)
        assert (seen.body, seen.header("Soloist-Run")) == (body, runs[name])
    for name, why in (("moved", "ScheduleChanged"), ("suspended", "Suspended")):
        status = until(lambda name=name: over(crew, runs[name]), what=f"the run of {name} is settled", timeout=120)
        assert (status["phase"], status["reason"]) == ("Skipped", why)
    assert crew.leader().name == leader
    crew.leader().kill_child()
    crew.leader(other_than=leader)
    crew.audit("edited")
    assert len(calls_of(crew, "edited", due)) == 1
    for name in ("moved", "suspended", "removed"):
        assert [seen for seen in crew.backend.received(f"/{name}") if seen.at >= due] == []
    assert crew.objects("JobRun", "removed") == []


def with_body(job: Raw, body: str) -> Raw:
    return {**job, "spec": {**job["spec"], "http": {**job["spec"]["http"], "body": body}}}


def standing_ready(crew: Crew, names: set[str]) -> tuple[datetime, dict[str, str]] | None:
    """The next tick and its runs, where each job has one that is not launched, and there is time enough for an edit."""
    found: dict[datetime, dict[str, str]] = {}
    for run in crew.objects("JobRun"):
        due = parse_time(run["spec"]["scheduledTime"])
        if due is not None and due - datetime.now(UTC) > TIME_ENOUGH and not run.get("status"):
            found.setdefault(due, {})[run["spec"]["scheduledJobName"]] = run["metadata"]["name"]
    return next(((due, runs) for due, runs in found.items() if runs.keys() == names), None)


def calls_of(crew: Crew, name: str, due: datetime) -> list[Received]:
    def is_due(seen: Received) -> bool:
        return seen.header("Soloist-Scheduled-Time") == stamp(due)

    return crew.backend.wait(1, path=f"/{name}", when=is_due, timeout=120)


def over(crew: Crew, run: str) -> Raw | None:
    status = next(each.get("status", {}) for each in crew.objects("JobRun") if each["metadata"]["name"] == run)
    return status if status.get("phase") == "Skipped" else None


def reason(crew: Crew, name: str) -> str:
    stored = crew.stored(name)
    return str((stored or {}).get("metadata", {}).get("annotations", {}).get(REFUSED, ""))


def names_of(crew: Crew, kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in crew.objects(kind)}


def listed(crew: Crew) -> str:
    return str(CliRunner().invoke(cli, ["queue", "list", "--database", crew.url]).output)


def invalid(crew: Crew, name: str) -> bool:
    conditions = ((crew.stored(name) or {}).get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Valid", "False") for each in conditions)
