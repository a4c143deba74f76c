"""``soloist runs`` and ``soloist why``: what became of a job's times."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from soloist.domain.instants import parse_time, stamp
from soloist.domain.runs import Run
from soloist.domain.ticks import Reason
from soloist.domain.wall_time import Unreadable, away, read_time, shown, span
from soloist.domain.why import Answer, Facts, Outlook, Seen, outlook, why
from soloist.shells.cli_desk import converse, read_facts
from soloist.shells.cli_target import Target
from soloist.shells.cli_text import WrongWords, indented, table

Reply = tuple[dict[str, Any], list[str]]


def runs(target: Target, name: str) -> Reply:
    return runs_of(converse(target, lambda desk: read_facts(desk, name)))


def runs_of(facts: Facts) -> Reply:
    """JobRuns newest first, then the times without a run that ``status.recent`` tells of."""
    newest = sorted(facts.runs, key=lambda seen: (_for(seen.run), seen.run.created), reverse=True)
    without = [line for line in reversed(facts.job.status.get("recent") or ()) if line.get("result") in set(Reason)]
    document = {"runs": [_run_document(seen) for seen in newest], "withoutRun": without}
    lines = [f"There are no runs of {facts.job.name} in namespace {facts.job.namespace}."]
    if newest:
        header = ["RUN", "PHASE", "FOR", "TRIGGER", "ATTEMPT", "LAUNCHED", "TOOK", "REASON"]
        lines = table(header, (_run_row(facts, seen) for seen in newest))
    if without:
        lines += ["", "Times without a run:"]
        rows = ([str(x["result"]), _shown(x.get("first"), facts), _shown(x.get("last"), facts), str(x.get("count", 1)), x.get("message", "")] for x in without)  # fmt: skip
        lines += table(["REASON", "FIRST", "LAST", "COUNT", "MESSAGE"], rows)
        lines += ["", f"What a reason means: kubectl soloist why {facts.named} --at TIME"]
    return document, lines


def _for(run: Run) -> datetime:
    return run.tick if run.tick is not None else run.created


def _run_document(seen: Seen) -> dict[str, Any]:
    run = seen.run
    return {
        "name": run.name,
        "phase": str(run.phase),
        "scheduledTime": stamp(run.tick) if run.tick is not None else None,
        "trigger": str(run.trigger),
        "attempt": run.attempt,
        "started": stamp(seen.started) if seen.started is not None else None,
        "completed": stamp(run.completed) if run.completed is not None else None,
        "seconds": seen.took.total_seconds() if seen.took is not None else None,
        "reason": run.reason or None,
        "message": seen.message or None,
        "statusCode": seen.status_code,
    }


def _run_row(facts: Facts, seen: Seen) -> list[str]:
    run = seen.run
    scheduled = shown(run.tick, facts.zone) if run.tick is not None else ""
    started = away(seen.started, facts.now) if seen.started is not None else ""
    took = span(seen.took) if seen.took is not None else ""
    reason = f"{run.reason}: {seen.message}" if run.reason and seen.message else run.reason or seen.message
    attempt = str(run.attempt) if run.attempt else ""
    return [
        run.name,
        str(run.phase),
        scheduled,
        str(run.trigger),
        attempt,
        started,
        took,
        " ".join(reason.split())[:160],
    ]


def _shown(text: Any, facts: Facts) -> str:
    moment = parse_time(text)
    return shown(moment, facts.zone) if moment is not None else ""


def why_job(target: Target, name: str, at: str | None) -> Reply:
    return why_of(converse(target, lambda desk: read_facts(desk, name)), at)


def why_of(facts: Facts, at: str | None) -> Reply:
    """The answer for a time as a person writes it, or without one for the last time and the next."""
    if at is None:
        return _outlook(facts, outlook(facts))
    asked = read_time(at, facts.zone, facts.now)
    if isinstance(asked, Unreadable):
        raise WrongWords(asked.message)
    answers = [why(facts, instant) for instant in asked.instants]
    lines = [asked.note, ""] if asked.note else []
    for number, answer in enumerate(answers):
        lines += [*([""] if number else []), *_answer_lines(facts, answer)]
    document = {"job": facts.job.name, "namespace": facts.job.namespace, "note": asked.note or None}
    return document | {"answers": [_answer_document(answer) for answer in answers]}, lines


def _answer_lines(facts: Facts, answer: Answer) -> Iterable[str]:
    instant = "" if facts.zone.key == "UTC" else f" ({stamp(answer.at)})"
    yield f"{facts.job.name} at {shown(answer.at, facts.zone)}{instant}: {answer.verdict.sentence} ({answer.reason})."
    yield from indented(answer.says)
    yield from (f"  -> {each}" for each in answer.do)


def _answer_document(answer: Answer) -> dict[str, Any]:
    return {
        "time": stamp(answer.at),
        "verdict": str(answer.verdict),
        "reason": str(answer.reason),
        "run": answer.run,
        "says": list(answer.says),
        "do": list(answer.do),
    }


def _outlook(facts: Facts, found: Outlook) -> Reply:
    job = facts.job
    document = {
        "job": job.name,
        "namespace": job.namespace,
        "schedule": found.schedule or None,
        "last": _answer_document(found.last) if found.last is not None else None,
        "next": stamp(found.following) if found.following is not None else None,
        "inTheWay": [{"reason": each.reason, "says": each.what, "do": each.do or None} for each in found.found],
    }
    lines = [f"{job.name} in namespace {job.namespace}" + (f", {found.schedule}." if found.schedule else ":")]
    if found.following is not None:
        lines.append(f"Next: {shown(found.following, facts.zone)} ({away(found.following, facts.now)}).")
    for each in found.found:
        lines += [f"In the way: {each.what}", *([f"  -> {each.do}"] if each.do else [])]
    if not found.found:
        lines.append("Nothing is in the way.")
    if found.last is not None:
        lines += ["", "The last time of the schedule:", *_answer_lines(facts, found.last)]
    return document, lines
