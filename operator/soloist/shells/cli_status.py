"""``soloist status``: who leads, what is wrong, and every job in one line; problems come first."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.domain.conditions import DECIDED_AHEAD, RUN_REFUSED
from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import parse_time, stamp
from soloist.domain.parsing import parse_job
from soloist.domain.runs import Job, Phase
from soloist.domain.ticks import base, tick_of
from soloist.domain.wall_time import away, shown
from soloist.domain.why_facts import (
    Facts,
    Obstacle,
    leader_absence,
    obstacles,
)
from soloist.shells.cli_desk import ONE_HOST, Desk, converse, noted
from soloist.shells.cli_leader import leads, lease_document, lease_lines
from soloist.shells.cli_reading import Leases
from soloist.shells.cli_target import Target
from soloist.shells.cli_text import indented, table

OVERDUE = timedelta(seconds=60)
NONE: Mapping[str, Obstacle] = {}
COUNTED = "ACTIVE may still count a run that has succeeded: it is taken out with the next status write, within a minute or so."
_OF_THE_FLEET = ("NoLeader", "LeaderNotKnown", "FleetPaused")


def status(target: Target, *, patience: float = 0.0) -> tuple[dict[str, Any], list[str]]:
    """The same twice: for programs and for people. ``patience``: seconds to wait for somebody to lead."""
    clock = SystemClock()
    ends = clock.boottime() + patience

    async def read(desk: Desk) -> tuple[list[Job], Leases]:
        while True:
            jobs = [parse_job(raw) for raw in noted(await desk.jobs(), refused)]
            leases = await desk.leases(entry.lease for job in jobs for entry in job.active)
            if clock.boottime() >= ends or any(leads(lease, clock.now()) for lease in leases.found):
                return jobs, leases
            await asyncio.sleep(min(1.0, max(0.0, ends - clock.boottime())))

    refused: dict[str, Obstacle] = {}
    jobs, leases = converse(target, read)
    where = "all namespaces" if target.everywhere else f"namespace {target.namespace}"
    made = overview(jobs, leases, clock.now(), where=where, everywhere=target.everywhere, refused=refused)
    return made if not target.one_host else ({**made[0], "oneHost": True}, [f"DATABASE  {ONE_HOST}", *made[1]])


def is_led(document: dict[str, Any]) -> bool:
    """Whether anybody leads, by the document of ``status``."""
    return any(lease["leading"] for lease in document["leases"])


def overview(
    jobs: Iterable[Job],
    leases: Leases,
    now: datetime,
    *,
    where: str,
    everywhere: bool,
    refused: Mapping[str, Obstacle] = NONE,
) -> tuple[dict[str, Any], list[str]]:
    """``where`` names what was looked at; with ``everywhere`` jobs are shown with their namespaces."""
    all_facts = [Facts(job=job, lease=leases.of(job), lease_unknown=leases.unknown, now=now) for job in jobs]
    noted_down = {uid: [each] for uid, each in refused.items()}
    found = {f.job.uid: [*problems(f), *noted_down.get(f.job.uid, ())] for f in all_facts}
    all_facts.sort(key=lambda f: (not found[f.job.uid], f.job.namespace, f.job.name))
    troubled = [facts for facts in all_facts if found[facts.job.uid]]
    document = {
        "leases": [lease_document(lease, now) for lease in leases.found],
        "leaderUnknown": leases.unknown or None,
        "problems": [
            {"namespace": f.job.namespace, "name": f.job.name, "reason": p.reason, "says": p.what, "do": p.do or None}
            for f in troubled
            for p in found[f.job.uid]
        ],
        "jobs": [_job_document(facts) for facts in all_facts],
    }
    lines = [*lease_lines(leases, now)]
    if troubled:
        lines += ["", f"PROBLEMS ({len(troubled)} of {len(all_facts)} jobs)"]
        for facts in troubled:
            lines += indented(_problem_lines(facts, found[facts.job.uid]))
    lines += ["", *(_job_table(all_facts, everywhere) if all_facts else [f"There are no ScheduledJobs in {where}."])]
    if any(facts.job.active for facts in all_facts):
        lines += ["", COUNTED]
    return document, lines


def problems(facts: Facts) -> Iterator[Obstacle]:
    """What a person should look at. A suspended or paused job is none; a job that paused itself is one."""
    job, now = facts.job, facts.now
    found = [each for each in obstacles(facts) if each.reason not in _OF_THE_FLEET]
    paused_itself = still_auto_paused(job, now)
    yield from (
        each
        for each in found
        if each.reason in ("Invalid", DECIDED_AHEAD, RUN_REFUSED) or (each.reason == "Paused" and paused_itself)
    )
    failures, result = int(job.status.get("consecutiveFailures") or 0), job.status.get("lastResult")
    why = f"kubectl soloist why {facts.named}"
    if result in (Phase.UNKNOWN, Phase.INTERRUPTED):
        yield Obstacle(reason=str(result), what=f"The last run ended {result}: nobody knows what became of it.", do=why)
    elif failures and not paused_itself:
        counted = "The last run" if failures == 1 else f"The last {failures} runs"
        yield Obstacle(reason="Failing", what=f"{counted} did not succeed.", do=why)
    late = _overdue(facts)
    if late is not None and not found:
        what = f"Its time {shown(late, facts.zone)} ({away(late, now)}) is not decided."
        yield Obstacle(reason="Overdue", what=what, do=why)


def _overdue(facts: Facts) -> datetime | None:
    """The first open time, where it is long past and no run in the way explains that."""
    spec, observed, job = facts.spec, facts.observed, facts.job
    if spec is None or observed is None or job.active or leader_absence(facts.lease, facts.now) is not None:
        return None
    first = spec.schedule.next_after(base(job, observed))
    return first if first is not None and facts.now - tick_of(job, spec, first).launch_at > OVERDUE else None


def _problem_lines(facts: Facts, found: Iterable[Obstacle]) -> Iterator[str]:
    for problem in found:
        yield f"{facts.job.namespace}/{facts.job.name}: {problem.what}"
        if problem.do:
            yield f"    -> {problem.do}"


def _held_back(facts: Facts) -> str:
    """Why nothing is scheduled, in a word; the fleet's own state stands above the table."""
    return next((each.reason for each in obstacles(facts) if each.reason not in _OF_THE_FLEET), "")


def _following(facts: Facts) -> datetime | None:
    stopped = any(each.reason not in ("NoLeader", "LeaderNotKnown", "NotLookedAt") for each in obstacles(facts))
    return facts.spec.schedule.next_after(facts.now) if facts.spec is not None and not stopped else None


def _job_document(facts: Facts) -> dict[str, Any]:
    job, raw = facts.job, facts.job.status
    following = _following(facts)
    return {
        "namespace": job.namespace,
        "name": job.name,
        "schedule": facts.spec.schedule_text if facts.spec is not None else None,
        "timeZone": facts.spec.time_zone if facts.spec is not None else None,
        "last": raw.get("lastScheduleTime"),
        "result": raw.get("lastResult"),
        "next": stamp(following) if following is not None else None,
        "active": len(job.active),
        "held": _held_back(facts) or None,
    }


def _job_table(all_facts: Iterable[Facts], everywhere: bool) -> list[str]:
    header = ["NAME", "SCHEDULE", "ZONE", "LAST", "RESULT", "NEXT", "ACTIVE", "HELD BACK"]
    rows = []
    for facts in all_facts:
        row = _job_document(facts)
        last, following = parse_time(row["last"]), parse_time(row["next"])
        cells = [row["name"], row["schedule"] or "", row["timeZone"] or ""]
        cells += [away(last, facts.now) if last is not None else "", row["result"] or ""]
        cells += [away(following, facts.now) if following is not None else "", str(row["active"]), row["held"] or ""]
        rows.append([row["namespace"], *cells] if everywhere else cells)
    return table(["NAMESPACE", *header] if everywhere else header, rows)
