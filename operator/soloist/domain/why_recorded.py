"""What is recorded of a time: its run, its place in ``active``, its line in ``status.recent``."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time, stamp
from soloist.domain.names import run_key
from soloist.domain.runs import Job, Phase
from soloist.domain.spec import Spec
from soloist.domain.ticks import Reason, tick_of
from soloist.domain.wall_time import away, shown, span
from soloist.domain.why_answer import Answer, written
from soloist.domain.why_facts import Facts, Seen
from soloist.domain.why_words import PHASES, REASONS, Verdict, Words

SECOND = timedelta(seconds=1)
_COUNTED = 2000
_NEVER = datetime(9000, 1, 1, tzinfo=UTC)


def has_run(facts: Facts, at: datetime) -> Answer | None:
    """A JobRun for that time: the schedule's own before one that a person asked for."""
    found = [seen for seen in facts.runs if seen.run.tick == at]
    return of_run(facts, min(found, key=lambda seen: seen.run.order), at) if found else None


def of_run(facts: Facts, seen: Seen, at: datetime) -> Answer:
    """What became of one run."""
    run = seen.run
    rows = [PHASES[run.phase]]
    if run.phase.final and run.reason in set(Reason) and run.reason != run.phase:
        rows.append(REASONS[Reason(run.reason)])
    key = run_key(run_uid=run.uid, job_uid=facts.job.uid, scheduled=run.tick if run.scheduled else None)
    reason = run.reason or str(run.phase)
    return written(facts, at, reason=reason, words=rows, more=_details(facts, seen), run=run.name, key=key)


def _details(facts: Facts, seen: Seen) -> Iterable[str]:
    run, now = seen.run, facts.now
    if run.phase is Phase.CANCELLED and run.reason == "Replaced":
        yield "A newer run took its place: spec.concurrencyPolicy is Replace."
    if run.phase is Phase.PENDING and run.tick is not None and run.scheduled and facts.spec is not None:
        launch = tick_of(facts.job, facts.spec, run.tick).launch_at
        recorded = "It is recorded" if facts.job.entry(run.uid) is not None else "It is not recorded yet"
        yield f"{recorded}, and is launched at {shown(launch, facts.zone)} ({away(launch, now)})."
    if run.attempt:
        took = f" and took {span(seen.took)}" if seen.took is not None else ""
        began = (
            f"Attempt {run.attempt} was launched {away(seen.started, now)}{took}." if seen.started is not None else ""
        )
        yield began or f"It was attempt {run.attempt}."
    if run.next_attempt is not None and not run.phase.final:
        yield f"The next attempt is due {away(run.next_attempt, now)}."
    if seen.message:
        yield f"Its message: {seen.message}"
    elif run.reason and run.reason not in set(Reason):
        yield f"Its reason: {run.reason}."
    if seen.status_code is not None and run.phase is not Phase.SUCCEEDED:
        excerpt = " ".join(seen.excerpt.split())[:200]
        yield f"The answer was {seen.status_code}: {excerpt or '(empty)'}"


def is_recorded(facts: Facts, at: datetime) -> Answer | None:
    """In ``active``, and the JobRun is gone: only a person deletes one from there."""
    entry = next((entry for entry in facts.job.active if entry.tick == at), None)
    if entry is None:
        return None
    more = ("It counts as running until spec.timeoutSeconds have passed, and is not made again.",)
    words = [REASONS[Reason.CANCELLED]]
    return written(facts, at, reason=Reason.CANCELLED, words=words, more=more, run=entry.run)


def in_recent(facts: Facts, at: datetime) -> Answer | None:
    """A line of ``status.recent`` that has the time in it; the line that fits it best where several have."""
    lines = [line for line in facts.job.status.get("recent") or () if first_of(line) <= at <= _last(line)]
    spec = facts.spec
    due = spec is None or is_tick(spec, at) or any(_ends_at(line, at) for line in lines)
    if not lines or not due:
        return None
    line = min(lines, key=lambda line: (not _ends_at(line, at), not _certain(spec, line), _last(line) - first_of(line)))
    result = str(line.get("result"))
    words = [Words(Verdict.DID_NOT_RUN, f"It is recorded with the result {result}.")]
    more = list(_folded(facts, line, at))
    if result in set(Reason):
        words = [REASONS[Reason(result)]]
    elif result in set(Phase):
        words = [PHASES[Phase(result)]]
        more.insert(0, "The run itself is no longer kept (successfulRunsHistoryLimit, failedRunsHistoryLimit).")
    return written(facts, at, reason=result, words=words, more=more, key=f"{facts.job.uid}/{stamp(at)}")


def result_of_gone(job: Job, created: datetime) -> str:
    """What ``status.recent`` says of a manual run that is no longer there, by the second it was made in; empty: not known.

    A line that begins or ends with that second before one that only spans it; where two such differ nobody can tell.
    """
    lines = [line for line in job.status.get("recent") or () if first_of(line) <= created <= _last(line)]
    exact = [line for line in lines if _ends_at(line, created)]
    results = {str(line.get("result")) for line in exact or lines}
    return results.pop() if len(results) == 1 else ""


def _folded(facts: Facts, line: Mapping[str, Any], at: datetime) -> Iterable[str]:
    count = int(line.get("count") or 1)
    if line.get("message"):
        yield f"Its message: {line['message']}"
    if count == 1:
        return
    yield f"It is one of {count} in a row, {shown(first_of(line), facts.zone)} to {shown(_last(line), facts.zone)}."
    if not _ends_at(line, at) and not _certain(facts.spec, line):
        yield "The schedule has another number of times between these two, so this is not certain."


def first_of(line: Mapping[str, Any]) -> datetime:
    return parse_time(line.get("first")) or _last(line)


def _last(line: Mapping[str, Any]) -> datetime:
    return parse_time(line.get("last")) or _NEVER


def _ends_at(line: Mapping[str, Any], at: datetime) -> bool:
    return at in (first_of(line), _last(line))


def _certain(spec: Spec | None, line: Mapping[str, Any]) -> bool:
    """The line counts as many as the schedule has between its ends."""
    count = int(line.get("count") or 1)
    if spec is None or count > _COUNTED:
        return False
    return len(spec.schedule.newest(after=first_of(line) - SECOND, until=_last(line), limit=count + 1)) == count


def is_tick(spec: Spec, at: datetime) -> bool:
    """``at`` is a time of the schedule as it now is."""
    return spec.schedule.next_after(at - SECOND) == at
