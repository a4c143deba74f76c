"""Did it run at that time, and if not, why? Answered from what is recorded, and from nothing else.

The first rule that has something to say answers: a run for that time; a place in ``active`` whose run is gone; a line of
``status.recent``; then what the schedule says about the time; and last, for a time that is past and open, what the same
rules that the leader goes by (``ticks.plan``) would make of it now.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from soloist.domain.runs import Observed
from soloist.domain.spec import ConcurrencyPolicy, MissedRunPolicy, Spec
from soloist.domain.ticks import Reason, plan, tick_of
from soloist.domain.wall_time import away, shown
from soloist.domain.why_answer import Answer, written
from soloist.domain.why_facts import Facts, Obstacle, Seen, leader_absence, obstacles, refusal, shut
from soloist.domain.why_recorded import SECOND, first_of, has_run, in_recent, is_recorded, is_tick
from soloist.domain.why_words import PHASES, REASONS, Verdict, Words

__all__ = ["PHASES", "REASONS", "Answer", "Facts", "Outlook", "Seen", "Verdict", "Words", "outlook", "why"]

_LONG = timedelta(days=3660)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Where a job stands: its last time and what became of it, its next one, and what is in the way of that."""

    schedule: str
    last: Answer | None
    following: datetime | None
    found: tuple[Obstacle, ...]


def why(facts: Facts, at: datetime) -> Answer:
    """The answer for the instant ``at``, in whole seconds."""
    for rule in _RULES:
        answer = rule(facts, at)
        if answer is not None:
            return answer
    return _open(facts, at)


def outlook(facts: Facts) -> Outlook:
    """Without a time: the last one, the next one, and the obstacles."""
    spec, observed = facts.spec, facts.observed
    found = (*obstacles(facts), *in_the_way(facts))
    if spec is None or observed is None:
        return Outlook(schedule="", last=None, following=None, found=found)
    newest = spec.schedule.newest(after=min(observed.since, facts.now - _LONG), until=facts.now, limit=1)
    last = why(facts, newest[0]) if newest else None
    text = f'"{spec.schedule_text}": {spec.schedule.describe()}'
    following = spec.schedule.next_after(max(facts.now, observed.since))
    return Outlook(schedule=text, last=last, following=following, found=found)


_IN_THE_WAY = {
    ConcurrencyPolicy.FORBID: "what is due before it is over is skipped",
    ConcurrencyPolicy.QUEUE: "the newest one that is due waits until it is over",
    ConcurrencyPolicy.REPLACE: "the next one that is due stops it first",
}


def in_the_way(facts: Facts) -> Iterator[Obstacle]:
    """Recorded runs that are not over, and what the policy makes of them."""
    spec = facts.spec
    if spec is None or spec.concurrency is ConcurrencyPolicy.ALLOW:
        return
    by_uid = {seen.run.uid: seen.run for seen in facts.runs}
    for entry in facts.job.active:
        run = by_uid.get(entry.uid)
        if run is not None and run.phase.final and not run.phase.held:
            continue
        state = f"is {run.phase}" if run is not None else "was deleted by a person and may still be going on"
        if run is None or run.phase.held:
            state += f" (it counts as running for spec.timeoutSeconds, {spec.timeout.total_seconds():g} s)"
        policy = f"{_IN_THE_WAY[spec.concurrency]} (spec.concurrencyPolicy: {spec.concurrency})"
        yield Obstacle(reason="RunNotOver", what=f"The run {entry.run} {state}: {policy}.")


def _cannot_be_read(facts: Facts, at: datetime) -> Answer | None:
    """No schedule to hold the time against."""
    refused = refusal(facts.job)
    if refused is None or facts.spec is not None:
        return None
    says = (refused.message, "Nothing is launched until the spec is mended, and nothing is recorded for this time.")
    return Answer(at=at, verdict=Verdict.DID_NOT_RUN, reason=refused.reason, says=says)


def _before_since(facts: Facts, at: datetime) -> Answer | None:
    """No time at or before ``since`` is ever run because of an edit, a resume or a re-apply."""
    spec, observed, job = facts.spec, facts.observed, facts.job
    if spec is None or observed is None or at > observed.since:
        return None
    since = f"{shown(observed.since, facts.zone)} ({away(observed.since, facts.now)})"
    due = is_tick(spec, at)
    if observed.since - job.created <= SECOND:
        says = [f"The job was created at {since}, after that time."]
    else:
        says = [
            f"Its schedule, timeZone, daylightSaving or suspend was changed at {since}.",
            "A change never starts anything for a time before it, and of the schedule before nothing is recorded for that time.",
        ]
    says.append("By the schedule as it is now it would have been due then." if due else _nearest(facts, spec, at))
    do = (f"To run it now: kubectl soloist trigger {facts.named}.",) if due else ()
    return Answer(at=at, verdict=Verdict.DID_NOT_RUN, reason="BeforeSince", says=tuple(says), do=do)


def _not_a_tick(facts: Facts, at: datetime) -> Answer | None:
    spec = facts.spec
    if spec is None or is_tick(spec, at):
        return None
    says = [f'The schedule is "{spec.schedule_text}": {spec.schedule.describe()}.', _nearest(facts, spec, at)]
    for seen in facts.runs:
        if not seen.run.scheduled and abs(seen.run.created - at) < timedelta(minutes=1):
            made = shown(seen.run.created, facts.zone)
            says.append(f"A person started the run {seen.run.name} at {made}: it is {seen.run.phase}.")
    return Answer(at=at, verdict=Verdict.NOT_A_TICK, reason="NotATick", says=tuple(says))


def _nearest(facts: Facts, spec: Spec, at: datetime) -> str:
    before = spec.schedule.newest(after=at - _LONG, until=at - SECOND, limit=1)
    following = spec.schedule.next_after(at)
    ends = [*before, *([following] if following is not None else [])]
    return f"The nearest times of the schedule: {' and '.join(shown(end, facts.zone) for end in ends)}."


def _ahead(facts: Facts, at: datetime) -> Answer | None:
    spec = facts.spec
    if spec is None:
        return None
    launch = tick_of(facts.job, spec, at).launch_at
    if launch <= facts.now:
        return None
    says = [f"It is due {away(at, facts.now)}." if at > facts.now else f"Its time was {away(at, facts.now)}."]
    if launch != at:
        says.append(f"With its jitter it is launched at {shown(launch, facts.zone)} ({away(launch, facts.now)}).")
    found = [*obstacles(facts), *in_the_way(facts)]
    says += [each.what for each in found] or ["Nothing stands in its way."]
    do = tuple(each.do for each in found if each.do)
    reason = found[0].reason if found else "Scheduled"
    return Answer(at=at, verdict=Verdict.AHEAD, reason=reason, says=tuple(says), do=do)


def _long_ago(facts: Facts, at: datetime) -> Answer | None:
    """Decided, and no longer written anywhere."""
    job = facts.job
    if job.watermark is None or at > job.watermark:
        return None
    reach = min((first_of(line) for line in job.status.get("recent") or ()), default=None)
    back = (
        f"status.recent reaches back to {shown(reach, facts.zone)}" if reach is not None else "status.recent is empty"
    )
    says = ("The time was decided: the job either ran or was let go.", f"Which of them is no longer recorded; {back}.")
    do = ("For a longer memory raise spec.successfulRunsHistoryLimit and failedRunsHistoryLimit.",)
    return Answer(at=at, verdict=Verdict.NOT_RECORDED, reason="NotRecorded", says=says, do=do)


def _open(facts: Facts, at: datetime) -> Answer:
    """Past, and above the watermark: what the leader's own rules make of it now."""
    spec, observed = facts.spec, facts.observed
    if spec is None or observed is None:
        raise AssertionError("a spec that cannot be read has been answered for")
    absence = None if facts.lease_unknown else leader_absence(facts.lease, facts.now)
    reason = _let_go(facts, spec, observed, at)
    if reason is not None:
        note = absence or ("It is written down within ten minutes of its time." if shut(facts) is not None else "")
        return written(facts, at, reason=reason, words=[REASONS[reason]], more=(note,))
    late = f"Its time was {away(at, facts.now)}, and no controller has written a run or a reason for it."
    found = [*obstacles(facts), *in_the_way(facts)]
    says = [late, *(each.what for each in found)]
    do = [each.do for each in found if each.do]
    if not found:
        says.append("A controller leads, so that should take a second or two.")
        do.append(
            f"Read the leader's log (kubectl soloist status names it); is {facts.job.namespace} among its --namespace?"
        )
    if refusal(facts.job) is None and not facts.job.deleting and not list(in_the_way(facts)):
        says.append("As things stand it will still run, late.")
    reason_now = found[0].reason if found else "NotDecidedYet"
    return Answer(at=at, verdict=Verdict.UNDECIDED, reason=reason_now, says=tuple(says), do=tuple(do))


def _let_go(facts: Facts, spec: Spec, observed: Observed, at: datetime) -> Reason | None:
    planned = plan(facts.job, spec, observed, facts.now, closed=shut(facts), waiting=bool(facts.job.active))
    known = dict(planned.decided)
    if at in known or at in {tick.at for tick in planned.due}:
        return known.get(at)
    # So many are undecided that the plan counts the newest only.
    return shut(facts) or (Reason.TOO_MANY_MISSED if spec.missed is MissedRunPolicy.RUN_ALL else Reason.MISSED)


_RULES = (has_run, is_recorded, in_recent, _cannot_be_read, _before_since, _not_a_tick, _ahead, _long_ago)
