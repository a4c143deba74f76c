"""Jobs, their runs and the controllers' Leases, as the commands read them."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from soloist.adapters.kube.answers import NotFound, Refusal
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.queue_watch import QUEUES
from soloist.adapters.kube.store import JOBS, RUNS, KubeStore, collection, list_all, path_of
from soloist.domain.lease import EPOCH, LeaseRecord
from soloist.domain.lease import parse as parse_lease
from soloist.domain.runs import Job
from soloist.domain.why_facts import Seen
from soloist.ports import Raw
from soloist.shells.cli_target import Target, forbidden
from soloist.shells.cli_text import Complaint

LEASES = "/apis/coordination.k8s.io/v1"
_KINDS = {JOBS: "ScheduledJob", QUEUES: "WorkQueue"}
_LISTINGS = {JOBS: "soloist status -A", QUEUES: "soloist queue list -A"}
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """Those that were found; ``unknown`` says what may have been missed, and why."""

    found: tuple[LeaseRecord, ...]
    unknown: str = ""

    def of(self, job: Job, runs: Iterable[Seen] = ()) -> LeaseRecord | None:
        """The one whose controllers have this job: by what they wrote, else the one that was renewed last."""
        names = [seen.run.lease for seen in sorted(runs, key=lambda seen: seen.run.created, reverse=True)]
        for name in (*(entry.lease for entry in job.active), *names):
            for lease in self.found:
                if name and name == place(lease):
                    return lease
        return max(self.found, key=lambda lease: lease.renew_time or _LONG_AGO, default=None)


def place(lease: LeaseRecord) -> str:
    metadata = lease.raw.get("metadata") or {}
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


async def find_leases(api: KubeApi, target: Target, hints: Iterable[str] = ()) -> Leases:
    """The Lease of the flags, else all of that name that a controller has held, and those that runs speak of."""
    if target.lease_namespace:
        wanted = f"{target.lease_namespace}/{target.lease_name}"
        return await _read_each(api, [wanted], {})
    known: dict[str, LeaseRecord] = {}
    unknown = ""
    query = {"fieldSelector": f"metadata.name={target.lease_name}"}
    try:
        listed = await api.request("GET", collection(LEASES, "leases", None), query=query)
        held = [lease for lease in map(parse_lease, listed.get("items") or ()) if _is_ours(lease)]
        known = {place(lease): lease for lease in held}
    except Refusal as error:
        unknown = f"{_why_not(error)} Or name it with --lease-namespace."
    found = await _read_each(api, [hint for hint in dict.fromkeys(hints) if hint and hint not in known], known)
    return Leases(found=found.found, unknown="" if found.found else (found.unknown or unknown))


async def _read_each(api: KubeApi, wanted: Iterable[str], known: dict[str, LeaseRecord]) -> Leases:
    unknown = ""
    for each in wanted:
        namespace, _, name = each.partition("/")
        try:
            known[each] = parse_lease(await api.request("GET", collection(LEASES, "leases", namespace, name)))
        except NotFound:
            continue
        except Refusal as error:
            unknown = _why_not(error)
    return Leases(found=tuple(known.values()), unknown=unknown)


def _is_ours(lease: LeaseRecord) -> bool:
    return EPOCH in ((lease.raw.get("metadata") or {}).get("annotations") or {})


def _why_not(error: Refusal) -> str:
    return forbidden(error) if error.status == 403 else str(error)


async def read_job(api: KubeApi, target: Target, name: str) -> Raw:
    """The ScheduledJob; where there is none, names that are near, here and elsewhere."""
    return await read_one(api, target, JOBS, name)


async def read_one(api: KubeApi, target: Target, plural: str, name: str) -> Raw:
    """The same for any kind of ours that people name."""
    try:
        return await api.request("GET", path_of(plural, target.namespace, name))
    except NotFound as error:
        listed = (await list_all(api, [path_of(plural, target.namespace)])).items
        names = sorted(each["metadata"]["name"] for each in listed)
        raise Complaint(
            f'There is no {_KINDS[plural]} "{name}" in namespace {target.namespace}. '
            f"{await _near(api, plural, name, names)}"
        ) from error


async def _near(api: KubeApi, plural: str, name: str, names: list[str]) -> str:
    try:
        everywhere = (await list_all(api, [path_of(plural)])).items
    except Refusal:
        everywhere = []
    places = sorted(each["metadata"]["namespace"] for each in everywhere if each["metadata"]["name"] == name)
    if places:
        return f"There is one in {', '.join(places)}: name it with -n."
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    if not names:
        return f"There are none at all there: choose another with -n, or see {_LISTINGS[plural]}."
    return f"There are: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}."


async def read_runs(api: KubeApi, job: Raw) -> list[Raw]:
    """The job's JobRuns, those that people made too, which carry no label."""
    meta = job["metadata"]
    path = path_of(RUNS, meta["namespace"])
    try:
        items = (await api.request("GET", path, query={"fieldSelector": f"spec.scheduledJobName={meta['name']}"}))[
            "items"
        ]
    except Refusal as error:
        if error.status != 400:
            raise
        # A server older than selectable fields.
        items = (await KubeStore(api, namespaces=(meta["namespace"],)).list_runs()).items
    mine = [run for run in items if run["spec"].get("scheduledJobName") == meta["name"]]
    return [run for run in mine if run["spec"].get("scheduledJobUID") in (None, meta["uid"])]
