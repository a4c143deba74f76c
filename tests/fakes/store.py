"""The ``Store`` port in memory, held to the contract of the real one by ``tests/contracts/test_store.py``.

For tests of the loops: ``before`` and ``after`` see every call of the port by its name and may raise (an error of
``after`` is a lost reply: the write has happened), ``watchers`` hear of every change as a watch would tell it.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from soloist.domain.merge_patch import merged
from soloist.ports import AlreadyExists, Conflict, Gone, Listing, Raw, Refused, Written

Key = tuple[str, str, str]
KINDS = {"jobs": "ScheduledJob", "runs": "JobRun"}


class FakeStore:
    """ScheduledJobs and JobRuns of the namespaces given at the start."""

    def __init__(self, namespaces: Iterable[str] = ("default",)) -> None:
        self.namespaces = set(namespaces)
        self.objects: dict[Key, Raw] = {}
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self.watchers: list[Callable[[str, Raw], None]] = []
        self._numbers = itertools.count(1)
        self._version = 0

    async def list_jobs(self) -> Listing:
        return self._call("list_jobs", lambda: self._list("jobs"))

    async def list_runs(self) -> Listing:
        return self._call("list_runs", lambda: self._list("runs"))

    async def read_job(self, namespace: str, name: str) -> Raw | None:
        return self._call("read_job", lambda: copy.deepcopy(self.objects.get(("jobs", namespace, name))))

    async def read_run(self, namespace: str, name: str) -> Raw | None:
        return self._call("read_run", lambda: copy.deepcopy(self.objects.get(("runs", namespace, name))))

    async def create_run(self, body: Raw) -> Written | AlreadyExists | Gone | Refused:
        return self._call("create_run", lambda: self._create("runs", body))

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
        key = ("jobs", namespace, name)
        return self._call("write_job_status", lambda: self._status(key, resource_version, status))

    async def write_run_status(
        self, namespace: str, name: str, *, uid: str, resource_version: str, status: Mapping[str, Any]
    ) -> Written | Conflict | Gone:
        key = ("runs", namespace, name)
        return self._call("write_run_status", lambda: self._status(key, resource_version, status))

    async def delete_run(self, namespace: str, name: str, *, uid: str) -> None:
        self._call("delete_run", lambda: self.remove("runs", namespace, name, uid=uid))

    # What a person or another program does, for tests:

    def put_job(self, namespace: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> Raw:
        """Create the ScheduledJob, or replace its spec and the named parts of its metadata."""
        old = self.objects.get(("jobs", namespace, name))
        if old is None:
            made = self._create("jobs", {"metadata": {"namespace": namespace, "name": name, **metadata}, "spec": spec})
            assert isinstance(made, Written)
            return made.obj
        new = copy.deepcopy({**old, "spec": dict(spec)})
        new["metadata"].update(metadata)
        new["metadata"]["generation"] += new["spec"] != old["spec"]
        return self._store(("jobs", namespace, name), new, "MODIFIED")

    def remove(self, kind: str, namespace: str, name: str, *, uid: str | None = None) -> None:
        """Delete an object, and after it what it owned."""
        found = self.objects.get((kind, namespace, name))
        if found is None or uid not in (None, found["metadata"]["uid"]):
            return
        del self.objects[kind, namespace, name]
        self._tell("DELETED", self._stamped(found))
        mine = found["metadata"]["uid"]
        for (k, ns, n), obj in list(self.objects.items()):
            if any(owner["uid"] == mine for owner in obj["metadata"].get("ownerReferences", ())):
                self.remove(k, ns, n)

    def _call(self, call: str, act: Callable[[], Any]) -> Any:
        self.before(call)
        result = act()
        self.after(call)
        return result

    def _list(self, kind: str) -> Listing:
        items = [copy.deepcopy(obj) for key, obj in sorted(self.objects.items()) if key[0] == kind]
        return Listing(items=items, resource_version=str(self._version))

    def _create(self, kind: str, body: Raw) -> Written | AlreadyExists | Gone | Refused:
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        if namespace not in self.namespaces:
            return Gone(message=f'namespaces "{namespace}" not found')
        if (kind, namespace, name) in self.objects:
            return AlreadyExists(obj=copy.deepcopy(self.objects[kind, namespace, name]))
        if kind == "runs" and not body.get("spec", {}).get("scheduledJobName"):
            return Refused(message="spec.scheduledJobName: Required value")
        obj = copy.deepcopy({key: value for key, value in body.items() if key != "status"})
        obj |= {"apiVersion": "soloist.dev/v1alpha1", "kind": KINDS[kind]}
        obj["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "generation": 1}
        obj["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        if kind == "runs":
            obj["spec"].setdefault("trigger", "Manual")
        return Written(obj=self._store((kind, namespace, name), obj, "ADDED"))

    def _status(self, key: Key, resource_version: str, status: Mapping[str, Any]) -> Written | Conflict | Gone:
        old = self.objects.get(key)
        if old is None:
            return Gone(message=f'"{key[2]}" not found')
        # As on the API server, where no two states have one number, so the number says which object is meant.
        if old["metadata"]["resourceVersion"] != resource_version:
            return Conflict()
        new = {**old, "status": merged(old.get("status", {}), copy.deepcopy(status))}
        return Written(obj=copy.deepcopy(old) if new == old else self._store(key, new, "MODIFIED"))

    def _store(self, key: Key, obj: Raw, kind: str) -> Raw:
        self.objects[key] = self._stamped(obj)
        self._tell(kind, self.objects[key])
        return copy.deepcopy(self.objects[key])

    def _stamped(self, obj: Raw) -> Raw:
        self._version += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _tell(self, kind: str, obj: Raw) -> None:
        for watcher in self.watchers:
            watcher(kind, copy.deepcopy(obj))
