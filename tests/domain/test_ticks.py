"""Which undecided ticks run and which are let go: each row is a sentence.

Numbers in brackets are complaints about other schedulers that the row answers: k8s = kubernetes/kubernetes.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.gate import closed
from soloist.domain.parsing import parse_job
from soloist.domain.runs import Job
from soloist.domain.spec import Spec
from soloist.domain.ticks import COUNTED, LATE, Reason, left_behind, observe, plan, still_wanted

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    """``12:03`` or ``12:03:20`` of that day."""
    parts = [int(part) for part in text.split(":")]
    return NOON.replace(hour=parts[0], minute=parts[1], second=parts[2] if len(parts) > 2 else 0)


def a_job(status: dict[str, Any] | None = None, *, generation: int = 1, edited: str = "", **spec: Any) -> Job:
    """Every minute, made at 11:59:30, decided up to noon, unless said otherwise."""
    meta: dict[str, Any] = {"namespace": "shop", "name": "sweep", "uid": "u", "resourceVersion": "1"}
    meta |= {"generation": generation, "creationTimestamp": at("11:59:30").isoformat()}
    if edited:
        meta["managedFields"] = [{"time": at(edited).isoformat()}]
    full = {"schedule": "* * * * *", "http": {"url": "http://backend/"}, **spec}
    return parse_job({"metadata": meta, "spec": full, "status": status if status is not None else decided_to("12:00")})


def decided_to(watermark: str, **observed: Any) -> dict[str, Any]:
    seen = {"schedule": "* * * * *", "timeZone": "UTC", "daylightSaving": "Shift", "suspend": False}
    since = {"since": at(observed.pop("since", "11:59:30")).isoformat()}
    return {"watermark": at(watermark).isoformat(), "observedSchedule": seen | since | observed}


def spec_of(job: Job) -> Spec:
    assert isinstance(job.spec, Spec)
    return job.spec


@dataclass(frozen=True, kw_only=True)
class Row:
    says: str
    now: str
    runs: tuple[str, ...] = ()
    let_go: tuple[tuple[str, Reason], ...] = ()
    spec: tuple[tuple[str, Any], ...] = ()
    claimed: tuple[str, ...] = ()
    waiting: bool = False


ROWS = [
    Row(says="a tick at its time runs", now="12:01", runs=("12:01",)),
    Row(says="nothing is due before its time", now="12:00:59"),
    Row(says="a tick some seconds late still runs under Skip", now="12:01:14", runs=("12:01",), spec=(("missedRunPolicy", "Skip"),)),
    Row(says="under Skip a tick later than a hand-over is missed", now="12:01:16", let_go=(("12:01", Reason.MISSED),), spec=(("missedRunPolicy", "Skip"),)),
    Row(says="under Skip what waits in the queue is not missed", now="12:01:40", runs=("12:01",), waiting=True, spec=(("missedRunPolicy", "Skip"), ("concurrencyPolicy", "Queue"))),
    Row(says="after an outage RunLatest, the default, runs the newest and says so of the others (metaflow #2657)", now="12:03:30", runs=("12:03",), let_go=(("12:01", Reason.MISSED), ("12:02", Reason.MISSED))),
    Row(says="RunAll runs the newest maxMissedRuns, oldest first (k8s #79995, #83642)", now="12:04:30", runs=("12:03", "12:04"), let_go=(("12:01", Reason.TOO_MANY_MISSED), ("12:02", Reason.TOO_MANY_MISSED)), spec=(("missedRunPolicy", "RunAll"), ("maxMissedRuns", 2))),
    Row(says="RunAll runs each of nineteen, if it may (jobrunr #1377)", now="12:19:30", runs=tuple(f"12:{minute:02}" for minute in range(1, 20)), spec=(("missedRunPolicy", "RunAll"), ("maxMissedRuns", 19))),
    Row(says="Skip runs nothing of what passed in a sleep, be it of the machine or of all controllers (dbos-transact-py #803, cronstable #17)", now="12:03:30", let_go=(("12:01", Reason.MISSED), ("12:02", Reason.MISSED), ("12:03", Reason.MISSED)), spec=(("missedRunPolicy", "Skip"),)),
    Row(says="a tick for which a run stands ready was not missed", now="12:02", runs=("12:01", "12:02"), claimed=("12:01", "12:02")),
    Row(says="a late tick past its deadline is let go, with that reason", now="12:01:31", let_go=(("12:01", Reason.DEADLINE_EXCEEDED),), spec=(("startingDeadlineSeconds", 30),)),
    Row(says="a late tick within its deadline runs (argo #6778)", now="12:01:30", runs=("12:01",), spec=(("startingDeadlineSeconds", 30),)),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
def test_missed_runs_and_deadlines(row: Row) -> None:
    job = a_job(**dict(row.spec))
    spec = spec_of(job)
    found = plan(
        job,
        spec,
        observe(job, spec, at(row.now)),
        at(row.now),
        claimed=[at(c) for c in row.claimed],
        waiting=row.waiting,
    )
    assert [tick.at for tick in found.due] == [at(text) for text in row.runs]
    assert found.decided == tuple((at(text), reason) for text, reason in row.let_go)


def test_a_long_outage_never_disables_a_schedule() -> None:
    """More than a hundred missed ticks (k8s #42649, #45825): the newest runs all the same, and no other (jobrunr #940)."""
    job = a_job()
    now = NOON + timedelta(days=30)
    found = plan(job, spec_of(job), observe(job, spec_of(job), now), now)
    assert [tick.at for tick in found.due] == [now]
    assert found.decided[0] == (NOON + MINUTE, Reason.MISSED), "the first of them all is told of, though not each"
    assert len(found.decided) == COUNTED


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        (Reason.SUSPENDED, {"suspend": True}),
        (Reason.PAUSED, {}),
        (Reason.FLEET_PAUSED, {}),
    ],
)
def test_while_nothing_may_start_each_tick_is_let_go_at_its_time(reason: Reason, change: dict[str, Any]) -> None:
    """k8s #110919."""
    job = a_job(decided_to("12:00", **change), **change)
    now = at("12:02:10")
    found = plan(job, spec_of(job), observe(job, spec_of(job), now), now, closed=reason)
    assert found.due == ()
    assert found.decided == ((at("12:01"), reason), (at("12:02"), reason))


def test_what_a_person_starts_ignores_suspend_but_not_the_pause_of_the_fleet() -> None:
    job = a_job(suspend=True)
    assert closed(job, spec_of(job), False, NOON) is Reason.SUSPENDED
    assert closed(job, spec_of(job), False, NOON, person=True) is None
    assert closed(job, spec_of(job), True, NOON, person=True) is Reason.FLEET_PAUSED


class TestSince:
    """No tick at or before ``since`` ever runs; only a real change moves it."""

    def test_a_new_job_counts_from_its_creation(self) -> None:
        job = a_job({})
        assert observe(job, spec_of(job), at("12:05")).since == at("11:59:30")

    def test_an_edit_never_fires_for_a_time_before_it(self) -> None:
        """k8s #63371, #65457, #57853, #123220, #130838; argo-cd #9331; Hangfire #366."""
        job = a_job(decided_to("11:00", schedule="0 0 * * *"), generation=2, edited="12:02:30")
        seen = observe(job, spec_of(job), at("12:03:10"))
        assert seen.since == at("12:02:30")
        assert [tick.at for tick in plan(job, spec_of(job), seen, at("12:03:10")).due] == [at("12:03")]

    def test_without_a_known_time_of_the_edit_it_is_now(self) -> None:
        job = a_job(decided_to("11:00", schedule="0 0 * * *"), generation=2)
        assert observe(job, spec_of(job), at("12:03:10")).since == at("12:03:10")

    def test_applying_the_same_again_changes_nothing(self) -> None:
        """temporal #4866: GitOps applies all the time."""
        job = a_job(decided_to("12:00", since="11:00"), generation=7, edited="12:02")
        assert observe(job, spec_of(job), at("12:03")).since == at("11:00")

    @pytest.mark.parametrize(
        "change",
        [
            {"schedule": "*/5 * * * *"},
            {"timeZone": "Europe/Berlin"},
            {"daylightSaving": "WallClock"},
            {"suspend": True},
        ],
    )
    def test_each_part_of_the_schedule_moves_it(self, change: dict[str, Any]) -> None:
        job = a_job(decided_to("12:00"), generation=2, edited="12:02", **change)
        assert observe(job, spec_of(job), at("12:03")).since == at("12:02")

    def test_an_edit_of_anything_else_does_not(self) -> None:
        job = a_job(generation=2, edited="12:02", timeoutSeconds=7)
        assert observe(job, spec_of(job), at("12:03")).since == at("11:59:30")

    def test_resuming_starts_nothing_that_lay_in_the_pause(self) -> None:
        """k8s #45825, furiko #50, argo #4445."""
        job = a_job(decided_to("11:30", suspend=True), generation=3, edited="12:02:30")
        seen = observe(job, spec_of(job), at("12:02:40"))
        found = plan(job, spec_of(job), seen, at("12:02:40"))
        assert (found.due, found.decided) == ((), ())
        assert found.upcoming is not None
        assert found.upcoming.at == at("12:03")

    def test_the_ticks_of_the_former_schedule_get_their_reason(self) -> None:
        """csi-addons #374: judge the past by the schedule that was in force."""
        job = a_job(decided_to("12:00"), generation=2, edited="12:02:30", schedule="0 0 1 1 *")
        assert left_behind(job, observe(job, spec_of(job), at("12:05"))) == (
            (at("12:01"), Reason.SCHEDULE_CHANGED),
            (at("12:02"), Reason.SCHEDULE_CHANGED),
        )

    def test_a_tick_of_the_former_schedule_is_not_wanted(self) -> None:
        job = a_job(decided_to("12:00"), generation=2, edited="12:00:30", schedule="*/5 * * * *")
        seen = observe(job, spec_of(job), at("12:00:40"))
        assert not still_wanted(spec_of(job), seen, at("12:01"))
        assert still_wanted(spec_of(job), seen, at("12:05"))


class TestJitter:
    def test_a_tick_waits_for_its_jitter_and_is_not_missed_meanwhile(self) -> None:
        job = a_job(jitterSeconds=50)
        spec = spec_of(job)
        first = plan(job, spec, observe(job, spec, at("12:01")), at("12:01"))
        launch_at = first.upcoming.launch_at if first.upcoming is not None else NOON
        assert at("12:01") < launch_at < at("12:02")
        assert first.due == ()
        later = plan(job, spec, observe(job, spec, launch_at), launch_at)
        assert [tick.launch_at for tick in later.due] == [launch_at]

    def test_the_deadline_counts_from_tick_and_jitter(self) -> None:
        job = a_job(jitterSeconds=50, startingDeadlineSeconds=1)
        spec = spec_of(job)
        upcoming = plan(job, spec, observe(job, spec, NOON), NOON).upcoming
        assert upcoming is not None
        in_time, too_late = upcoming.launch_at + timedelta(seconds=1), upcoming.launch_at + timedelta(seconds=1.1)
        assert [tick.at for tick in plan(job, spec, observe(job, spec, NOON), in_time).due] == [upcoming.at]
        assert plan(job, spec, observe(job, spec, NOON), too_late).decided == ((upcoming.at, Reason.DEADLINE_EXCEEDED),)


def test_late_is_longer_than_one_hand_over() -> None:
    """Lease 10 s and a second to claim; a tick that only waited for its next leader is not missed."""
    assert timedelta(seconds=11) < LATE < MINUTE
