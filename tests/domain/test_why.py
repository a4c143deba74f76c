"""What a person is told who asks whether a job ran at a time, and why not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.runs import Phase
from soloist.domain.ticks import Reason
from soloist.domain.why import PHASES, REASONS, Answer, Facts, Verdict, outlook, why
from tests.domain.why_world import at, entry, facts, job, lease, line, run

NOON = at("12:00:30")


def told(answer: Answer) -> str:
    return " ".join((*answer.says, *answer.do))


def short(answer: Answer) -> tuple[Verdict, str]:
    return answer.verdict, answer.reason


def test_every_phase_of_a_run_has_its_words() -> None:
    assert set(PHASES) == set(Phase)


def test_every_reason_of_a_tick_has_its_words() -> None:
    assert set(REASONS) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_tick_without_a_run_is_explained_by_its_reason_and_says_what_to_do(reason: Reason) -> None:
    answer = why(facts(NOON, recent=[line(reason, at("09:00"))], watermark=at("11:00")), at("09:00"))
    assert answer.reason == reason
    assert answer.verdict in (Verdict.DID_NOT_RUN, Verdict.STOPPED)
    assert "{" not in told(answer)
    assert answer.do or reason is Reason.SUPERSEDED
    assert all(sentence.endswith(".") for sentence in answer.says)


@pytest.mark.parametrize("phase", Phase)
def test_a_run_is_explained_by_its_phase(phase: Phase) -> None:
    answer = why(facts(NOON, run(at("09:00"), phase), watermark=at("11:00")), at("09:00"))
    assert answer.verdict is PHASES[phase].verdict
    assert answer.run is not None
    assert answer.run in told(answer)
    assert "{" not in told(answer)


@pytest.mark.parametrize("reason", Reason)
def test_a_run_that_was_skipped_is_explained_by_its_reason_too(reason: Reason) -> None:
    answer = why(facts(NOON, run(at("09:00"), "Skipped", reason=reason), watermark=at("11:00")), at("09:00"))
    assert short(answer) == (Verdict.DID_NOT_RUN, reason)
    assert REASONS[reason].what.split("{")[0].split(":")[0] in told(answer)


def test_a_failed_run_tells_its_message_attempt_and_answer() -> None:
    status = {
        "reason": "UnexpectedStatus", "message": "http://backend answered 500.", "attempt": 3, "response": {"statusCode": 500, "excerpt": "out of\nmoney"},
        "startTime": "2026-10-15T09:00:40Z", "completionTime": "2026-10-15T09:00:42Z",
    }  # fmt: skip
    answer = why(facts(NOON, run(at("09:00"), "Failed", **status), watermark=at("11:00")), at("09:00"))
    assert short(answer) == (Verdict.FAILED, "UnexpectedStatus")
    assert answer.says[1:] == (
        "Attempt 3 was launched 179m ago and took 2s.",
        "Its message: http://backend answered 500.",
        "The answer was 500: out of money",
    )


def test_an_unknown_run_names_the_key_that_the_receiver_saw() -> None:
    answer = why(facts(NOON, run(at("09:00"), "Unknown", attempt=1), watermark=at("11:00")), at("09:00"))
    assert short(answer) == (Verdict.NOT_KNOWN, "Unknown")
    assert "key uid-of-report/2026-10-15T09:00:00Z" in told(answer)
    assert "spec.timeoutSeconds (30 s)" in told(answer)


def test_a_retrying_run_says_when_the_next_attempt_is_due() -> None:
    waiting = run(at("12:00"), "Retrying", reason="ConnectionFailed", attempt=1, nextAttemptTime="2026-10-15T12:01:00Z")
    answer = why(facts(NOON, waiting, watermark=at("12:00")), at("12:00"))
    assert short(answer) == (Verdict.UNDER_WAY, "ConnectionFailed")
    assert "The next attempt is due in 30s." in answer.says


def test_a_run_that_stands_ready_says_when_it_is_launched() -> None:
    answer = why(facts(at("11:59:57"), run(at("12:00")), watermark=at("11:00")), at("12:00"))
    assert "It is not recorded yet, and is launched at 2026-10-15 12:00 UTC (in 3s)." in answer.says


def test_the_schedules_own_run_is_told_before_a_backfilled_one() -> None:
    backfill = run(at("09:00"), "Failed")
    backfill = replace(backfill, run=replace(backfill.run, trigger="Backfill", name="by-hand"))  # type: ignore[arg-type]
    answer = why(facts(NOON, backfill, run(at("09:00"), "Succeeded"), watermark=at("11:00")), at("09:00"))
    assert answer.verdict is Verdict.RAN
    assert answer.run != "by-hand"


def test_a_recorded_run_whose_object_is_gone_was_deleted_by_a_person() -> None:
    answer = why(facts(NOON, active=[entry(at("12:00"))], watermark=at("12:00")), at("12:00"))
    assert short(answer) == (Verdict.STOPPED, "Cancelled")
    assert "counts as running until spec.timeoutSeconds" in told(answer)


def test_a_trimmed_run_is_known_by_its_line() -> None:
    answer = why(
        facts(NOON, recent=[line("Succeeded", at("07:00"), at("11:00"), 5)], watermark=at("11:00")), at("09:00")
    )
    assert short(answer) == (Verdict.RAN, "Succeeded")
    assert "It is one of 5 in a row, 2026-10-15 07:00 UTC to 2026-10-15 11:00 UTC." in answer.says
    assert "not certain" not in told(answer)


def test_a_long_run_in_whose_time_others_were_blocked_is_told_apart_from_them() -> None:
    recent = [line("Blocked", at("08:00"), at("10:00"), 3), line("Succeeded", at("07:00"), at("11:00"), 2)]
    world = facts(NOON, recent=recent, watermark=at("11:00"))
    answers = {hour: why(world, at(f"{hour:02}:00")).reason for hour in range(7, 12)}
    assert answers == {7: "Succeeded", 8: "Blocked", 9: "Blocked", 10: "Blocked", 11: "Succeeded"}


def test_a_line_that_leaves_out_times_says_that_it_is_not_certain() -> None:
    answer = why(
        facts(NOON, recent=[line("Succeeded", at("07:00"), at("11:00"), 2)], watermark=at("11:00")), at("09:00")
    )
    assert "not certain" in told(answer)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        pytest.param("09:30", "2026-10-15 09:00 UTC and 2026-10-15 10:00 UTC", id="between two"),
        pytest.param("09:00:01", "2026-10-15 09:00 UTC and 2026-10-15 10:00 UTC", id="a second after"),
    ],
)
def test_a_time_that_is_not_of_the_schedule_shows_the_nearest(asked: str, nearest: str) -> None:
    answer = why(facts(NOON, recent=[line("Succeeded", at("07:00"), at("11:00"), 5)], watermark=at("11:00")), at(asked))
    assert short(answer) == (Verdict.NOT_A_TICK, "NotATick")
    assert answer.says == (
        'The schedule is "0 * * * *": At the start of every hour, in UTC.',
        f"The nearest times of the schedule: {nearest}.",
    )


def test_a_run_that_a_person_started_is_told_where_the_schedule_has_nothing() -> None:
    answer = why(facts(NOON, run(None, "Succeeded", created=at("09:30:10")), watermark=at("11:00")), at("09:30"))
    assert (
        "A person started the run report-manual-abcdefghij at 2026-10-15 09:30:10 UTC: it is Succeeded." in answer.says
    )


def test_a_time_before_the_job_was_created_says_so() -> None:
    answer = why(facts(NOON, watermark=at("11:00")), datetime(2026, 9, 30, 9, tzinfo=UTC))
    assert short(answer) == (Verdict.DID_NOT_RUN, "BeforeSince")
    assert answer.says[0] == "The job was created at 2026-10-01 00:00 UTC (14d ago), after that time."


def test_a_time_before_an_edit_or_a_resume_is_never_made_up_for() -> None:
    answer = why(facts(NOON, since=at("11:30"), watermark=at("11:30")), at("11:00"))
    assert short(answer) == (Verdict.DID_NOT_RUN, "BeforeSince")
    assert "suspend was changed at 2026-10-15 11:30 UTC (30m ago)" in answer.says[0]
    assert "it would have been due then" in answer.says[2]


def test_a_time_before_an_edit_that_is_recorded_is_told_all_the_same() -> None:
    world = facts(NOON, since=at("11:30"), watermark=at("11:30"), recent=[line("Suspended", at("11:00"))])
    assert why(world, at("11:00")).reason == "Suspended"


def test_a_time_ahead_says_when_and_that_nothing_is_in_the_way() -> None:
    answer = why(facts(NOON, watermark=at("12:00")), at("13:00"))
    assert short(answer) == (Verdict.AHEAD, "Scheduled")
    assert answer.says == ("It is due in 59m.", "Nothing stands in its way.")


SAYS_NO = {"type": "Valid", "status": "False", "observedGeneration": 3, "reason": "FieldInvalid", "message": "spec: …"}
"""A controller of another version refuses what this program takes."""

AHEAD: dict[str, dict[str, Any]] = {
    "Suspended": {"spec": {"suspend": True}},
    "Paused": {"annotations": {"soloist.dev/paused": "true: deploying"}},
    "Deleting": {"deleting": True},
    "NoLeader": {"leading": False},
    "RunNotOver": {"active": [entry(at("12:00"))]},
    "NotLookedAt": {"observedGeneration": 2},
    "Invalid": {"conditions": [SAYS_NO]},
}


@pytest.mark.parametrize("reason", AHEAD)
def test_a_time_ahead_says_what_is_in_the_way(reason: str) -> None:
    answer = why(facts(NOON, watermark=at("12:00"), **AHEAD[reason]), at("13:00"))
    assert short(answer) == (Verdict.AHEAD, reason)
    assert "Nothing stands in its way." not in answer.says


def test_a_persons_words_beside_a_pause_are_told() -> None:
    answer = why(facts(NOON, watermark=at("12:00"), **AHEAD["Paused"]), at("13:00"))
    assert "The job is paused by a person (deploying)." in answer.says
    assert answer.do == ("To go on: kubectl soloist resume report -n billing.",)


def test_a_job_that_paused_itself_says_after_how_many_failures() -> None:
    paused = {"since": "2026-10-15T10:00:05Z", "reason": "TooManyFailures", "message": "…"}
    answer = why(facts(NOON, watermark=at("12:00"), paused=paused, consecutiveFailures=5), at("13:00"))
    assert answer.reason == "Paused"
    assert "The job paused itself 120m ago, after 5 failed runs in a row." in answer.says


def test_a_resume_ends_the_jobs_own_pause() -> None:
    paused = {"since": "2026-10-15T10:00:05Z", "reason": "TooManyFailures", "message": "…"}
    annotations = {"soloist.dev/resumed-at": "2026-10-15T10:00:05Z"}
    answer = why(facts(NOON, watermark=at("12:00"), paused=paused, annotations=annotations), at("13:00"))
    assert answer.reason == "Scheduled"


def test_a_pause_of_the_whole_installation_is_in_everybodys_way() -> None:
    world = replace(facts(NOON, watermark=at("12:00")), lease=lease(NOON, paused="true: migration"))
    assert why(world, at("13:00")).says[1] == "The whole installation is paused (migration)."


def test_jitter_is_counted_into_the_time_of_launch() -> None:
    world = facts(NOON, watermark=at("11:00"), spec={"jitterSeconds": 3000})
    answer = why(world, at("12:00"))
    assert answer.verdict is Verdict.AHEAD
    assert answer.says[1].startswith("With its jitter it is launched at 2026-10-15 12:")


def test_what_is_older_than_the_record_says_how_far_it_reaches() -> None:
    world = facts(NOON, recent=[line("Succeeded", at("07:00"), at("11:00"), 5)], watermark=at("11:00"))
    answer = why(world, at("03:00"))
    assert short(answer) == (Verdict.NOT_RECORDED, "NotRecorded")
    assert "status.recent reaches back to 2026-10-15 07:00 UTC" in told(answer)


def test_an_open_time_without_a_leader_says_that_it_will_still_run() -> None:
    answer = why(facts(NOON, watermark=at("11:00"), leading=False), at("12:00"))
    assert short(answer) == (Verdict.UNDECIDED, "NoLeader")
    assert answer.says[1] == "No controller leads: soloist-7d9f-x2k4z last renewed it 5m ago, and it lasts 10 s."
    assert answer.says[-1] == "As things stand it will still run, late."


def test_an_open_time_behind_a_running_one_says_which() -> None:
    world = facts(NOON, run(at("11:00"), "Running", attempt=1), spec={"concurrencyPolicy": "Queue"}, active=[entry(at("11:00"))], watermark=at("11:00"))  # fmt: skip
    answer = why(world, at("12:00"))
    assert short(answer) == (Verdict.UNDECIDED, "RunNotOver")
    assert "is Running: the newest one that is due waits until it is over (spec.concurrencyPolicy: Queue)" in told(
        answer
    )


def test_an_open_time_with_a_leader_sends_one_to_its_log() -> None:
    answer = why(facts(NOON, watermark=at("11:00")), at("12:00"))
    assert short(answer) == (Verdict.UNDECIDED, "NotDecidedYet")
    assert "--namespace" in told(answer)


LET_GO: dict[str, tuple[str, dict[str, Any], str]] = {
    "suspended": ("12:00", {"spec": {"suspend": True}}, "Suspended"),
    "paused": ("12:00", {"annotations": {"soloist.dev/paused": "true"}}, "Paused"),
    "an older one under RunLatest": ("10:00", {}, "Missed"),
    "long past under Skip": ("12:00", {"spec": {"missedRunPolicy": "Skip"}}, "Missed"),
    "too many under RunAll": ("06:00", {"spec": {"missedRunPolicy": "RunAll"}}, "TooManyMissed"),
    "past its deadline": ("12:00", {"spec": {"startingDeadlineSeconds": 10}}, "DeadlineExceeded"),
    "one of more than are counted": ("00:10", {"spec": {"schedule": "* * * * *"}}, "Missed"),
}


@pytest.mark.parametrize("row", LET_GO)
def test_an_open_time_that_the_rules_let_go_says_why_already(row: str) -> None:
    asked, more, reason = LET_GO[row]
    answer = why(facts(at("12:00:30"), watermark=at("00:00"), leading=False, **more), at(asked))
    assert short(answer) == (Verdict.DID_NOT_RUN, reason)


def test_without_the_right_to_read_the_lease_it_says_so() -> None:
    world = Facts(job=job(watermark=at("11:00")), lease=None, lease_unknown="no rights.", now=NOON)
    answer = why(world, at("12:00"))
    assert answer.reason == "LeaderNotKnown"
    assert "Whether a controller leads is not known: no rights." in answer.says


def test_a_spec_that_cannot_be_read_answers_with_its_sentence() -> None:
    world = facts(NOON, spec={"schedule": "61 * * * *"}, watermark=at("11:00"))
    answer = why(world, at("12:00"))
    assert short(answer) == (Verdict.DID_NOT_RUN, "OutOfRange")
    assert answer.says[0].startswith('spec.schedule "61 * * * *" has minute "61", which is out of range')
    assert outlook(world).found[0].reason == "Invalid"


def test_what_the_controller_refuses_is_believed_for_its_generation_only() -> None:
    said = {
        "type": "Valid",
        "status": "False",
        "reason": "TooNew",
        "message": "spec.x is too new.",
        "observedGeneration": 3,
    }
    for spec in ({}, {"schedule": "61 * * * *"}):
        assert outlook(facts(NOON, spec=spec, conditions=[said])).found[0].what == "spec.x is too new."
    assert outlook(facts(NOON, conditions=[{**said, "observedGeneration": 2}])).found == ()


def test_a_job_that_nobody_has_looked_at_is_answered_by_its_own_times() -> None:
    world = facts(NOON, looked_at=False, generation=1)
    assert short(why(world, at("12:00"))) == (Verdict.UNDECIDED, "NotDecidedYet")
    assert why(world, datetime(2026, 9, 1, tzinfo=UTC)).reason == "BeforeSince"


def test_a_status_that_a_person_spoiled_is_no_error() -> None:
    recent = [{"result": "Nonsense", "first": "x", "last": None, "count": 1}, line("Odd", at("09:00"))]
    world = facts(NOON, recent=recent, watermark=at("11:00"))
    assert why(world, at("09:00")).reason in ("Odd", "Nonsense")


def test_the_outlook_tells_the_last_time_the_next_and_what_is_in_the_way() -> None:
    found = outlook(
        facts(NOON, run(at("12:00"), "Running", attempt=1), active=[entry(at("12:00"))], watermark=at("12:00"))
    )
    assert found.schedule == '"0 * * * *": At the start of every hour, in UTC'
    assert found.last is not None
    assert short(found.last) == (Verdict.UNDER_WAY, "Running")
    assert found.following == at("13:00")
    assert [each.reason for each in found.found] == ["RunNotOver"]


@pytest.mark.parametrize("minutes", range(-180, 181, 7))
def test_any_second_of_the_day_has_an_answer_whatever_the_state(minutes: int) -> None:
    asked = NOON.replace(second=0) + timedelta(minutes=minutes)
    for more in ({}, *AHEAD.values(), *(more for _, more, _ in LET_GO.values())):
        for watermark in (None, at("10:00"), at("12:00")):
            answer = why(facts(NOON, watermark=watermark, **more), asked)
            assert answer.says
            assert "{" not in told(answer)
