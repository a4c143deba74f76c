"""Killed at each point of a run's life, the child alone and with its parent, with a standby and without: same runs, same outcomes.

A crash strikes the first leader, once: a child that is killed ends its parent as well, and who comes after it (the
standby, or the same Pod's container started again, as a kubelet would) is told of no crash point.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest

from soloist.domain.lease import parse
from tests.api.crew import FAST, LEASE_SECONDS, Crew, Raw, audit
from tests.api.reasons import due_ticks, moment
from tests.api.tending import (
    EVERY_TICK,
    KEEP,
    Crews,
    attempts_ascend,
    ended,
    fences,
    keys,
    nothing_twice_or_early,
    now,
    of_run,
    phase_of,
    start_each,
    through,
    tick_of,
)
from tests.cluster.backend import Backend
from tests.cluster.children import until

pytestmark = pytest.mark.cluster

STAGES = ("claimed", "recorded", "launched", "answered", "settled")
"""The moments that a run has just passed; "settled" is when its outcome is written and its job's books are not."""
OF_THREE = ("recorded", "launched")
"""Where nobody can know what became of a run, two stand by; else one."""
JOBS: dict[str, Raw] = {
    "once": {**EVERY_TICK, "retry": {"maxAttempts": 3, "initialDelaySeconds": 1}},
    "again": {**EVERY_TICK, "retry": {"maxAttempts": 3, "onUnknown": "Retry"}},
    "plain": {},
}


@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
@pytest.mark.parametrize("whom", ["child", "both"])
def test_a_crash_at_any_stage_costs_no_tick_and_repeats_none(
    crews: Crews, backend: Backend, whom: str, company: bool
) -> None:
    struck = {stage: crews(stage) for stage in STAGES}
    for stage, crew in struck.items():
        crew.start("a", SOLOIST_CRASH_AT=f"{stage}:{whom}")
    for crew in struck.values():
        crew.leader()
    if company:
        start_each(struck.values(), "b")
        start_each([struck[stage] for stage in OF_THREE], "c")
    for stage, crew in struck.items():
        for job, spec in JOBS.items():
            url = backend.url(path_of(stage, job))
            crew.job(job, schedule="@every 3s", timeoutSeconds=6, http={"url": url}, **KEEP, **spec)
    for crew in struck.values():
        ended(crew, "a")
        if not company:
            crew.start("a")
    crashed = now()
    for stage, crew in struck.items():
        for job in ("once", "again"):
            through(crew, job, crashed)
        for job in JOBS:
            audit(crew, backend, job, path=path_of(stage, job))
            attempts_ascend(backend, path_of(stage, job))
        all_but_the_unknown_ran_once(crew, backend, stage)
        unknown_ones_ran_again(crew, backend, stage)
        what_is_unknown_tells_the_stage(crew, stage)
        the_struck_term_did_what_its_stage_says(crew, backend, stage)


def path_of(stage: str, job: str) -> str:
    return f"/{stage}/{job}"


def all_but_the_unknown_ran_once(crew: Crew, backend: Backend, stage: str) -> None:
    """A run for each tick. It succeeded by one request, or nobody can know, and then it is not repeated."""
    ticks = decided(crew, "once")
    runs = runs_by_tick(crew, "once")
    for tick in ticks:
        run = runs[tick]
        seen = of_run(backend, path_of(stage, "once"), run)
        if phase_of(run) == "Unknown":
            assert len(seen) <= 1
        elif phase_of(run) not in ("Pending", "Running"):
            assert (phase_of(run), len(seen)) == ("Succeeded", 1), run


def unknown_ones_ran_again(crew: Crew, backend: Backend, stage: str) -> None:
    """onUnknown: Retry: every tick succeeded in the end, the repeated ones with their key and under a later term."""
    ticks = decided(crew, "again")
    runs = runs_by_tick(crew, "again")
    for tick in ticks:
        run = runs[tick]
        seen = of_run(backend, path_of(stage, "again"), run)
        if phase_of(run) in ("Pending", "Running"):
            continue
        assert phase_of(run) == "Succeeded", run
        attempt = run["status"]["attempt"]
        assert attempt <= 2
        assert attempt - 1 <= len(seen) <= attempt
        assert len(keys(seen)) == 1
        assert fences(seen) == sorted(set(fences(seen)))


def decided(crew: Crew, job: str) -> list[datetime]:
    status = crew.status(job)
    return due_ticks(status, moment(status["watermark"]))


def runs_by_tick(crew: Crew, job: str) -> dict[datetime, Raw]:
    return {tick_of(run): run for run in crew.runs(job)}


def struck(crew: Crew) -> tuple[datetime, int, datetime]:
    """The first tick, the term that had claimed it and was then struck, and when that term ended, as its successors know it.

    The end is the death that the parent stamped; where it died as well, the last renewal and what it was trusted for.
    """
    claims = [(tick_of(run), int(run["spec"]["lease"]["epoch"])) for job in JOBS for run in crew.runs(job)]
    first, epoch = min(claims)
    return first, epoch, parse(crew.lease() or {}).term_ends[epoch]


def what_is_unknown_tells_the_stage(crew: Crew, stage: str) -> None:
    """What was only claimed is as good as new. A run that was recorded and not launched is unknown if its time had come when
    the term ended, since then it may have been launched; else it is not, and was launched late, by another. What was launched
    is unknown, unless its outcome was written."""
    first, _, end = struck(crew)
    disturbed = [run for job in JOBS for run in crew.runs(job) if is_disturbed(run)]
    match stage:
        case "claimed":
            assert not disturbed, disturbed
        case "recorded":
            assert (first in map(tick_of, disturbed)) is (first <= end), (first, end, disturbed)
        case "launched" | "answered":
            assert first in map(tick_of, disturbed), (first, disturbed)
            assert first <= end, "launched before its time"
    assert len({tick_of(run) for run in disturbed}) <= 1, disturbed


def is_disturbed(run: Raw) -> bool:
    return phase_of(run) in ("Unknown", "Interrupted") or run.get("status", {}).get("attempt", 1) > 1


def the_struck_term_did_what_its_stage_says(crew: Crew, backend: Backend, stage: str) -> None:
    """Before a launch nothing was sent by it; what it was answered was sent; a run whose outcome it wrote stays as it ended."""
    first, epoch, _ = struck(crew)
    sent = [seen for job in JOBS for seen in backend.received(path_of(stage, job)) if epoch in fences([seen])]
    if stage in ("claimed", "recorded"):
        assert not sent, sent
    if stage in ("answered", "settled"):
        assert sent
    if stage == "settled":
        its = [run for job in JOBS for run in crew.runs(job) if run.get("status", {}).get("epoch") == epoch]
        assert (first, "Succeeded") in {(tick_of(run), phase_of(run)) for run in its}, its


POLICIES = {"latest": "RunLatest", "all": "RunAll", "skip": "Skip"}


def test_a_tick_due_while_nobody_led_runs_late_and_once(crews: Crews, backend: Backend) -> None:
    """Killed 4 s before a due second, once with the run already claimed and once not, and replaced about 4 s after it.

    A lone one is started again at the due second, with a lease of 4 s; standbys have waited for one of 10 s since the kill. (dkron #1210)
    """
    found = {number: crews(f"late{number}") for number in (1, 2, 3)}
    found[1].env |= FAST
    start_each(found.values(), "a", SOLOIST_CLAIM_AHEAD="15")
    start_each([found[2], found[3]], "b")
    start_each([found[3]], "c")
    for number, crew in found.items():
        for job, policy in POLICIES.items():
            url = backend.url(f"/{number}/{job}")
            crew.job(job, schedule="@every 20s", missedRunPolicy=policy, http={"url": url}, **KEEP)
    due: datetime = until(lambda: claimed_by_all(found.values()), what="a tick is claimed by all", timeout=120)
    until(lambda: (due - now()).total_seconds() <= 4, what="4 s before the due second", timeout=60)
    for crew in found.values():
        crew.members["a"].kill_both()
    for crew in found.values():
        crew.namespace.api.delete(crew.namespace.ours("jobruns", claimed_for(crew, "all", due)))
    until(lambda: now() >= due, what="the due second", timeout=60)
    found[1].start("b")
    stamp = due.strftime("%Y-%m-%dT%H:%M:%SZ")
    seen = backend.wait(9, timeout=120, when=lambda seen: seen.header("Soloist-Scheduled-Time") == stamp)
    assert {each.path for each in seen} == {f"/{number}/{job}" for number in found for job in POLICIES}
    for each in seen:
        least = LEASE_SECONDS - 0.1 if each.path.startswith("/1/") else 1.0
        assert each.at - due >= timedelta(seconds=least), each.path
    for number, crew in found.items():
        for job in POLICIES:
            nothing_twice_or_early(backend, f"/{number}/{job}")
            accounted(crew, job, stamp)
            audit(crew, backend, job, path=f"/{number}/{job}")


def accounted(crew: Crew, job: str, stamp: str) -> None:
    crew.wait(lambda: crew.status(job).get("lastScheduleTime", "") >= stamp, what=f"{stamp} is in the status of {job}")


def claimed_for(crew: Crew, job: str, tick: datetime) -> str:
    return next(str(run["metadata"]["name"]) for run in crew.runs(job) if tick_of(run) == tick)


def claimed_by_all(crews: Iterable[Crew]) -> datetime | None:
    """A tick of which each job of theirs has a run, soon enough for them to be killed well before it."""
    each = [{tick_of(run) for run in crew.runs(job)} for crew in crews for job in POLICIES]
    return next((tick for tick in sorted(set.intersection(*each)) if tick - now() > timedelta(seconds=6)), None)
