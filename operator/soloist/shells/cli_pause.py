"""``soloist pause`` and ``resume``: annotations, on the job or on the Lease of the whole installation.

An annotation does not fight with whoever owns the manifest, and it can be written while no controller is up.
"""

from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.store import JOBS, collection, path_of
from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import stamp
from soloist.domain.lease import PAUSED, LeaseRecord
from soloist.domain.parsing import parse_job
from soloist.domain.spec import Spec
from soloist.shells.cli_reading import LEASES, find_leases, place, read_job
from soloist.shells.cli_target import Target, talk
from soloist.shells.cli_text import Complaint

RESUMED_AT = "soloist.dev/resumed-at"


def pause(target: Target, name: str, reason: str) -> str:
    """Hold back a job's ticks, until somebody resumes it."""

    async def conversation(api: KubeApi) -> str:
        await read_job(api, target, name)
        await _annotate(api, path_of(JOBS, target.namespace, name), {PAUSED: annotation(reason)})
        return f"{name} is paused: its times pass and are recorded as Paused. To go on: kubectl soloist resume {name} -n {target.namespace}"

    return talk(target, conversation)


def resume(target: Target, name: str) -> str:
    """End a person's pause and the job's own. What passed meanwhile is not made up for."""

    async def conversation(api: KubeApi) -> str:
        job = parse_job(await read_job(api, target, name))
        now = SystemClock().now()
        automatic = still_auto_paused(job, now)
        if job.paused is None and not automatic:
            suspended = isinstance(job.spec, Spec) and job.spec.suspend
            tail = " But it is suspended: write suspend: false in its manifest." if suspended else ""
            return f"{name} is not paused.{tail}"
        # At least the pause's own time, which is the leader's clock: ours may be behind it.
        moment = max(filter(None, (now.replace(microsecond=0), job.auto_paused)))
        await _annotate(api, path_of(JOBS, job.namespace, name), {PAUSED: None, RESUMED_AT: stamp(moment)})
        return (
            f"{name} goes on with its next time. To run it at once: kubectl soloist trigger {name} -n {job.namespace}"
        )

    return talk(target, conversation)


def pause_all(target: Target, reason: str) -> str:
    async def conversation(api: KubeApi) -> str:
        lease = await _the_lease(api, target)
        await _annotate(api, _lease_path(lease), {PAUSED: annotation(reason)})
        return f"The installation of Lease {place(lease)} is paused: no run starts until: kubectl soloist resume --all"

    return talk(target, conversation)


def resume_all(target: Target) -> str:
    async def conversation(api: KubeApi) -> str:
        lease = await _the_lease(api, target)
        if lease.fleet_paused is None:
            return f"The installation of Lease {place(lease)} is not paused."
        await _annotate(api, _lease_path(lease), {PAUSED: None})
        return f"The installation of Lease {place(lease)} goes on."

    return talk(target, conversation)


async def _the_lease(api: KubeApi, target: Target) -> LeaseRecord:
    leases = await find_leases(api, target)
    if len(leases.found) == 1:
        return leases.found[0]
    if leases.found:
        names = ", ".join(map(place, leases.found))
        raise Complaint(f"There are several installations ({names}): choose one with --lease-namespace.")
    raise Complaint(
        leases.unknown
        or f"No Lease named {target.lease_name} was found that a controller has held: name it with --lease-name and --lease-namespace."
    )


def _lease_path(lease: LeaseRecord) -> str:
    namespace, _, name = place(lease).partition("/")
    return collection(LEASES, "leases", namespace, name)


def annotation(reason: str) -> str:
    """Never empty and never "false", which would be no pause; ``pause_words`` reads it."""
    return f"true: {reason.strip()}" if reason.strip() else "true"


async def _annotate(api: KubeApi, path: str, annotations: dict[str, Any]) -> None:
    await api.request("PATCH", path, {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)
