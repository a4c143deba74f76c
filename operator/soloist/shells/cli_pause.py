"""``soloist pause`` and ``resume``: annotations, on the job or on the Lease of the whole installation.

An annotation does not fight with whoever owns the manifest, and it can be written while no controller is up.
"""

from soloist.adapters.clock import SystemClock
from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import stamp
from soloist.domain.lease import PAUSED, LeaseRecord
from soloist.domain.parsing import parse_job
from soloist.domain.spec import Spec
from soloist.shells.cli_desk import Desk, converse
from soloist.shells.cli_reading import place
from soloist.shells.cli_target import Target
from soloist.shells.cli_text import Complaint

RESUMED_AT = "soloist.dev/resumed-at"


def pause(target: Target, name: str, reason: str) -> str:
    """Hold back a job's ticks, until somebody resumes it."""

    async def conversation(desk: Desk) -> str:
        await desk.job(name)
        await desk.annotate_job(name, {PAUSED: annotation(reason)})
        return f"{name} is paused: its times pass and are recorded as Paused. To go on: kubectl soloist resume {name} -n {target.namespace}"

    return converse(target, conversation)


def resume(target: Target, name: str) -> str:
    """End a person's pause and the job's own. What passed meanwhile is not made up for."""

    async def conversation(desk: Desk) -> str:
        job = parse_job(await desk.job(name))
        now = SystemClock().now()
        automatic = still_auto_paused(job, now)
        if job.paused is None and not automatic:
            suspended = isinstance(job.spec, Spec) and job.spec.suspend
            tail = " But it is suspended: write suspend: false in its manifest." if suspended else ""
            return f"{name} is not paused.{tail}"
        # At least the pause's own time, which is the leader's clock: ours may be behind it.
        moment = max(filter(None, (now.replace(microsecond=0), job.auto_paused)))
        await desk.annotate_job(name, {PAUSED: None, RESUMED_AT: stamp(moment)})
        return (
            f"{name} goes on with its next time. To run it at once: kubectl soloist trigger {name} -n {job.namespace}"
        )

    return converse(target, conversation)


def pause_all(target: Target, reason: str) -> str:
    async def conversation(desk: Desk) -> str:
        lease = await _the_lease(desk, target)
        await desk.annotate_lease(lease, {PAUSED: annotation(reason)})
        return f"The installation of Lease {place(lease)} is paused: no run starts until: kubectl soloist resume --all"

    return converse(target, conversation)


def resume_all(target: Target) -> str:
    async def conversation(desk: Desk) -> str:
        lease = await _the_lease(desk, target)
        if lease.fleet_paused is None:
            return f"The installation of Lease {place(lease)} is not paused."
        await desk.annotate_lease(lease, {PAUSED: None})
        return f"The installation of Lease {place(lease)} goes on."

    return converse(target, conversation)


async def _the_lease(desk: Desk, target: Target) -> LeaseRecord:
    leases = await desk.leases()
    if len(leases.found) == 1:
        return leases.found[0]
    if leases.found:
        names = ", ".join(map(place, leases.found))
        raise Complaint(f"There are several installations ({names}): choose one with --lease-namespace.")
    raise Complaint(
        leases.unknown
        or f"No Lease named {target.lease_name} was found that a controller has held: name it with --lease-name and --lease-namespace."
    )


def annotation(reason: str) -> str:
    """Never empty and never "false", which would be no pause; ``pause_words`` reads it."""
    return f"true: {reason.strip()}" if reason.strip() else "true"
