"""ScheduledJobs and JobRuns on the API server: the ``Store`` port.

Why it is right: a list names no resourceVersion, so the server answers from its newest state and not from a watch cache;
every status write names the resourceVersion that it was decided on, so it can only follow what the caller saw (no two states
of anything share one; the uid is sent with it, but the server heeds none in a write to the status of a custom object);
a create that may or may not have happened is answered by its name. Of ``managedFields`` only *when* something was written is
kept, and to which part of the object: it dates an edit that was made while nobody led. What was written is half of an object's
size in a cache.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from soloist.adapters.kube.answers import Clash, Expired, NotFound, Refusal
from soloist.adapters.kube.api import JSON, MERGE_PATCH, KubeApi
from soloist.domain.errors import TransientError
from soloist.domain.merge_patch import merged
from soloist.ports import AlreadyExists, Conflict, Gone, Listing, Raw, Refused, Written

GROUP = "soloist.dev"
VERSION = "v1alpha1"
JOBS = "scheduledjobs"
RUNS = "jobruns"
PAGE = 500
LIST_SECONDS = 60.0
_log = logging.getLogger(__name__)


def path_of(plural: str, namespace: str | None = None, name: str = "", sub: str = "") -> str:
    """The path of a collection of ours (of all namespaces: None), of an object in it, or of a part of that object."""
    return collection(f"/apis/{GROUP}/{VERSION}", plural, namespace, name, sub)


def collection(root: str, plural: str, namespace: str | None, name: str = "", sub: str = "") -> str:
    """The same for any API: ``root`` is ``/api/v1`` or ``/apis/GROUP/VERSION``."""
    parts = [root] if namespace is None else [root, "namespaces", quote(namespace, safe="")]
    parts.append(plural)
    parts += [quote(part, safe="") for part in (name, sub) if part]
    return "/".join(parts)


def slim(obj: Raw) -> Raw:
    """The same object without what only the server needs."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        metadata["managedFields"] = [
            {key: entry[key] for key in ("time", "subresource") if key in entry} for entry in metadata["managedFields"]
        ]
    return obj


async def list_all(api: KubeApi, paths: Sequence[str], *, selector: str = "") -> Listing:
    """Consistent lists of several collections as one. Its resourceVersion is the oldest: a watch from there misses nothing."""
    lists = await asyncio.gather(*(_list_one(api, path, selector) for path in paths))
    items = [item for one in lists for item in one.items]
    oldest = min((one.resource_version for one in lists), key=_as_number, default="")
    return Listing(items=items, resource_version=oldest)


class KubeStore:
    """The ``Store`` port. ``namespaces``: those to look into; none at all means every namespace."""

    def __init__(self, api: KubeApi, *, namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)

    def paths(self, plural: str) -> tuple[str, ...]:
        """The collections that this store looks into, for a watch over the same."""
        return tuple(path_of(plural, namespace) for namespace in self._namespaces)

    async def list_jobs(self) -> Listing:
        return await list_all(self._api, self.paths(JOBS))

    async def list_runs(self) -> Listing:
        return await list_all(self._api, self.paths(RUNS))

    async def read_job(self, namespace: str, name: str) -> Raw | None:
        return await self._read(path_of(JOBS, namespace, name))

    async def read_run(self, namespace: str, name: str) -> Raw | None:
        return await self._read(path_of(RUNS, namespace, name))

    async def create_run(self, body: Raw) -> Written | AlreadyExists | Gone | Refused:
        """Create the run in the namespace that its metadata names."""
        metadata = body["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        whole = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "JobRun", **body}
        try:
            return Written(obj=slim(await self._api.request("POST", path_of(RUNS, namespace), whole)))
        except Clash as error:
            if error.reason == "AlreadyExists":
                return AlreadyExists(obj=await self.read_run(namespace, name))
            # A quota's own bookkeeping lost a race: nothing was created, and a later try is not refused.
            raise TransientError(str(error), sent=False) from error
        except NotFound as error:
            return Gone(message=str(error))
        except Refusal as error:
            return Gone(message=str(error)) if error.namespace_is_going else Refused(message=str(error))

    async def write_job_status(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str,
        status: Mapping[str, Any],
        before: Mapping[str, Any],
    ) -> Written | Conflict | Gone:
        """Put whole, since a thousand of these decide how late a burst is, and a patch costs the server a third more.

        The resourceVersion sees to it that ``before`` is what stands there. Spec and the rest of the metadata are left out:
        in a write to the status the server takes them from the object.
        """
        whole = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "ScheduledJob",
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": resource_version},
            "status": merged(before, status),
        }
        return await write_status(self._api, "PUT", path_of(JOBS, namespace, name, "status"), whole)

    async def write_run_status(
        self, namespace: str, name: str, *, uid: str, resource_version: str, status: Mapping[str, Any]
    ) -> Written | Conflict | Gone:
        patch = {"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status}
        return await write_status(self._api, "PATCH", path_of(RUNS, namespace, name, "status"), patch)

    async def delete_run(self, namespace: str, name: str, *, uid: str) -> None:
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._api.request("DELETE", path_of(RUNS, namespace, name), options)
        except (NotFound, Clash):
            # Gone, or another run has the name by now: either way that very run is no more.
            _log.debug("the run to delete was gone already", extra={"namespace": namespace, "run": name, "uid": uid})

    async def _read(self, path: str) -> Raw | None:
        try:
            return slim(await self._api.request("GET", path))
        except NotFound:
            return None


async def write_status(api: KubeApi, method: str, path: str, body: Raw) -> Written | Conflict | Gone:
    """``body`` names the uid and the resourceVersion that it was decided on."""
    kind = MERGE_PATCH if method == "PATCH" else JSON
    try:
        return Written(obj=slim(await api.request(method, path, body, content_type=kind)))
    except Clash:
        return Conflict()
    except NotFound as error:
        return Gone(message=str(error))
    except Refusal as error:
        if any(field == "metadata.uid" for _, field in error.causes):
            return Conflict()
        raise


async def _list_one(api: KubeApi, path: str, selector: str) -> Listing:
    """One collection in pages, which keeps the loop responsive; all pages are of one and the same state."""
    query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
    items: list[Raw] = []
    while True:
        try:
            page = await api.request("GET", path, query=query, timeout=LIST_SECONDS)
        except Expired:
            # The state that the pages were of has been compacted away: start again, in one piece.
            items, query = [], {key: value for key, value in query.items() if key == "labelSelector"}
            continue
        items += [slim(item) for item in page.get("items") or []]
        metadata = page.get("metadata") or {}
        more = metadata.get("continue")
        if not more:
            return Listing(items=items, resource_version=str(metadata.get("resourceVersion", "")))
        query = query | {"continue": more}


def _as_number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdecimal() else 0
