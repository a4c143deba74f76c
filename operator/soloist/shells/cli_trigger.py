"""``soloist trigger``: one JobRun, which the controllers pass through the same gate as every other.

What it does is the ScheduledJob's action, whoever made the run; it ignores ``suspend`` and a pause of the job, not one of
the whole installation. With ``wait`` it is followed to its end, by reading it now and then: a watch would need a right more.
"""

import asyncio
import secrets
from collections.abc import Callable
from datetime import timedelta

from soloist.adapters.clock import SystemClock
from soloist.domain.documents import run_of
from soloist.domain.errors import TransientError
from soloist.domain.names import manual_name
from soloist.domain.parsing import parse_job
from soloist.domain.runs import Job, Phase
from soloist.domain.wall_time import span
from soloist.domain.why import Facts, Seen
from soloist.domain.why_facts import leader_absence, pause_words, refusal
from soloist.domain.why_recorded import result_of_gone
from soloist.ports import Raw, Refused, Written
from soloist.shells.cli_desk import Desk, converse
from soloist.shells.cli_target import Target, missing_right
from soloist.shells.cli_text import Complaint

EXIT_FAILED, EXIT_UNKNOWN, EXIT_NOT_OVER = 1, 3, 4
_POLL_SECONDS = 0.5
Say = Callable[[str], None]


def manual_run(job: Job, nonce: str) -> Raw:
    """The JobRun that a person asks for."""
    return run_of(job, manual_name(job.name, nonce), trigger="Manual")


def trigger(target: Target, name: str, *, wait: bool, timeout: float | None, say: Say) -> tuple[Raw, int]:
    """The JobRun as it was made, as it ended, or as it was last seen where it is gone; and the exit code."""

    async def conversation(desk: Desk) -> tuple[Raw, int]:
        job = parse_job(await desk.job(name))
        leases = await desk.leases(entry.lease for entry in job.active)
        lease = leases.of(job)
        _check(Facts(job=job, lease=lease, lease_unknown=leases.unknown, now=SystemClock().now()), say)
        run = await _create(desk, job)
        say(f"jobrun {run['metadata']['name']} created in namespace {job.namespace}")
        return await _follow(desk, run, timeout, say) if wait else (run, 0)

    return converse(target, conversation)


async def _create(desk: Desk, job: Job) -> Raw:
    made = await desk.create_run(manual_run(job, secrets.token_hex(16)))
    match made:
        case Written():
            return made.obj
        case Refused():
            raise Complaint(missing_right(made.message) or f"The API server refuses the run: {made.message}")
        case _:
            raise Complaint(
                f"The run could not be made in namespace {job.namespace}, which may be going away; try again."
            )


def _check(facts: Facts, say: Say) -> None:
    """A run that cannot be launched is not made; one that will only wait is, with a word."""
    job, refused = facts.job, refusal(facts.job)
    if job.deleting:
        raise Complaint(f"{job.name} is being deleted and starts nothing more.")
    if refused is not None:
        raise Complaint(f"{job.name} cannot be run: {refused.message}")
    if facts.lease is not None and facts.lease.fleet_paused is not None:
        words = pause_words(facts.lease.fleet_paused)
        raise Complaint(
            f"The whole installation is paused{words}: a run would be skipped. First: kubectl soloist resume --all."
        )
    absence = None if facts.lease_unknown else leader_absence(facts.lease, facts.now)
    if absence is not None:
        say(f"{absence} The run waits for one.")


async def _follow(desk: Desk, run: Raw, timeout: float | None, say: Say) -> tuple[Raw, int]:
    meta, clock = run["metadata"], SystemClock()
    until = clock.boottime() + timeout if timeout is not None else None
    told = ""
    while True:
        try:
            found = await desk.read_run(meta["namespace"], meta["name"])
        except TransientError as error:
            line = f"waiting: {error}"
        else:
            if found is None or found["metadata"]["uid"] != meta["uid"]:
                return run, await _gone(desk, run, say)
            run, line = found, _line(Seen.of(found))
        if line != told:
            say(line)
            told = line
        seen = Seen.of(run)
        if seen.run.phase.final:
            return run, exit_code(seen.run.phase)
        if until is not None and clock.boottime() >= until:
            say(f"{meta['name']} is not over after {span(timedelta(seconds=timeout or 0))}; it goes on.")
            return run, EXIT_NOT_OVER
        await asyncio.sleep(_POLL_SECONDS)


async def _gone(desk: Desk, run: Raw, say: Say) -> int:
    """The JobRun is not there any more: what the books of its job say became of it, and the exit code."""
    name = run["metadata"]["name"]
    job = parse_job(await desk.job(run["spec"]["scheduledJobName"]))
    if job.uid != run["spec"]["scheduledJobUID"]:
        raise Complaint(f"The ScheduledJob {job.name} was deleted, and its run {name} with it.")
    if job.entry(run["metadata"]["uid"]) is not None:
        raise Complaint(
            f"The run {name} was deleted by somebody before it was over: it is given no further attempt, "
            "and counts as running until spec.timeoutSeconds have passed."
        )
    result = result_of_gone(job, Seen.of(run).run.created)
    if result == Phase.CANCELLED:
        raise Complaint(f"The run {name} was deleted by somebody before it was over; its action may have begun.")
    if not result:
        raise Complaint(
            f"The run {name} is gone, and status.recent of {job.name} does not say what became of it: "
            "it was deleted before it was launched, or its line was dropped."
        )
    say(
        f"{name} {result}, as status.recent says; the run itself is no longer kept "
        "(spec.successfulRunsHistoryLimit, spec.failedRunsHistoryLimit)"
    )
    return exit_code(Phase(result)) if result in set(Phase) else EXIT_FAILED


def _line(seen: Seen) -> str:
    parts = [f"{seen.run.name} {seen.run.phase}", *([f"attempt {seen.run.attempt}"] if seen.run.attempt else [])]
    parts += [f"took {span(seen.took)}"] if seen.took is not None else []
    reason = f"{seen.run.reason}: {seen.message}" if seen.run.reason and seen.message else seen.run.reason
    return ", ".join(parts) + (f" ({reason})" if reason else "")


def exit_code(phase: Phase) -> int:
    """0 for what succeeded, 3 where nobody knows, 1 for every other end."""
    if phase is Phase.SUCCEEDED:
        return 0
    return EXIT_UNKNOWN if phase.held else EXIT_FAILED
