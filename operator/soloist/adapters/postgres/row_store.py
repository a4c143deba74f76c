"""The ``Store`` port on rows: what the loops ask of an API server, asked of PostgreSQL.

The same rules hold, by the same contract suite: uid and version are preconditions, a status that does not change is no new
state, a name that is taken answers with whose it is. Lists are of one state, under the version of that state.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from soloist.adapters.postgres.database import Database, Row
from soloist.adapters.postgres.row_objects import JOB, RUN, kept, raw_of
from soloist.adapters.postgres.row_texts import json_text
from soloist.adapters.postgres.row_writes import ObjectWrites
from soloist.adapters.postgres.statements import statement
from soloist.domain.merge_patch import merged
from soloist.domain.runs import Trigger
from soloist.ports import AlreadyExists, Conflict, Gone, Listing, Raw, Refused, Written

LIST_SECONDS = 60.0
LONGEST_NAME = 63


class RowStore:
    """``shard`` is the installation; ``writer`` this process, a word of its own. No ``namespaces``: whichever there are."""

    def __init__(self, database: Database, *, shard: str, writer: str, namespaces: Sequence[str] = ()) -> None:
        self._database, self.shard, self.writer = database, shard, writer
        self._namespaces = list(namespaces) or None
        self._writes = ObjectWrites(database, shard=shard, writer=writer)

    async def list_jobs(self) -> Listing:
        return await self.list_of(JOB)

    async def list_runs(self) -> Listing:
        return await self.list_of(RUN)

    async def list_of(self, kind: str) -> Listing:
        """Every object of the kind, as of one state."""
        version, items = await self._read(self.asked([kind]))
        return Listing(items=items, resource_version=str(version))

    async def read_job(self, namespace: str, name: str) -> Raw | None:
        return await self.read_one(JOB, namespace, name)

    async def read_run(self, namespace: str, name: str) -> Raw | None:
        return await self.read_one(RUN, namespace, name)

    async def read_one(self, kind: str, namespace: str, name: str) -> Raw | None:
        _, found = await self._read(self.asked([kind]) | {"namespaces": [namespace], "name": name})
        return found[0] if found else None

    def asked(self, kinds: Sequence[str], *, since: int | None = None) -> dict[str, Any]:
        """The values of ``objects.sql``. ``since``: only what others have written after that version."""
        return {
            "shard": self.shard, "kinds": list(kinds), "namespaces": self._namespaces, "name": None, "since": since,
            "writer": self.writer,
        }  # fmt: skip

    async def _read(self, asked: dict[str, Any]) -> tuple[int, list[Raw]]:
        return found(await self._database.fetch(statement("objects"), asked, most_seconds=LIST_SECONDS))

    async def create_run(self, body: Raw) -> Written | AlreadyExists | Gone | Refused:
        """Create the run. Others are told of one that a person asks for; one of the schedule is its leader's own."""
        metadata, spec = body["metadata"], {"trigger": str(Trigger.MANUAL), **(body.get("spec") or {})}
        namespace, name = metadata["namespace"], metadata["name"]
        if self._namespaces is not None and namespace not in self._namespaces:
            return Gone(message=f'namespaces "{namespace}" not found')
        wrong = _wrong(name, spec)
        if wrong:
            return Refused(message=wrong)
        told = spec["trigger"] != Trigger.SCHEDULE
        outcome, row = await self._writes.write(
            "create", RUN, namespace, name, metadata=kept(metadata), spec=spec, told=told
        )
        return Written(obj=raw_of(row)) if outcome == "created" else AlreadyExists(obj=raw_of(row))

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
        """Put whole: the version sees to it that ``before`` is what stands there."""
        return await self._status(JOB, namespace, name, uid, resource_version, merged(before, status), whole=True)

    async def write_run_status(
        self, namespace: str, name: str, *, uid: str, resource_version: str, status: Mapping[str, Any]
    ) -> Written | Conflict | Gone:
        return await self.merge_status(RUN, namespace, name, uid=uid, resource_version=resource_version, status=status)

    async def merge_status(
        self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str, status: Mapping[str, Any]
    ) -> Written | Conflict | Gone:
        """The same of any kind."""
        return await self._status(kind, namespace, name, uid, resource_version, status, whole=False)

    async def _status(
        self, kind: str, namespace: str, name: str, uid: str, version: str, status: Mapping[str, Any], *, whole: bool
    ) -> Written | Conflict | Gone:
        outcome, row = await self._writes.write(
            "status", kind, namespace, name, uid=uid, version=int(version), status=status, whole=whole
        )
        if outcome == "gone":
            return Gone(message=f'{kind} "{name}" not found in namespace "{namespace}"')
        return Conflict() if outcome == "conflict" else Written(obj=raw_of(row))

    async def delete_run(self, namespace: str, name: str, *, uid: str) -> None:
        await self._writes.write("delete", RUN, namespace, name, uid=uid)

    async def annotate(self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]) -> bool:
        """Merge into the object's annotations, whoever else writes it; None removes. False: no such object."""
        values = {
            "shard": self.shard, "writer": self.writer, "kind": kind, "namespace": namespace, "name": name,
            "annotations": json_text(annotations),
        }  # fmt: skip
        ((there,),) = await self._database.fetch(statement("annotate_object"), values)
        return bool(there)


def found(rows: Sequence[Row]) -> tuple[int, list[Raw]]:
    """The version of the state that ``objects.sql`` was answered of, and the objects."""
    return rows[0][0], [raw_of(row[1:]) for row in rows if row[1] is not None]


def _wrong(name: str, spec: Raw) -> str:
    """What the schema of a JobRun would object to, in a sentence; else nothing."""
    trigger, scheduled = spec["trigger"], spec.get("scheduledTime")
    if not isinstance(spec.get("scheduledJobName"), str) or not spec["scheduledJobName"]:
        return "spec.scheduledJobName: Required value: write the name of the ScheduledJob to run."
    if len(name) > LONGEST_NAME:
        return f"metadata.name has {len(name)} characters, and may have {LONGEST_NAME}: write a shorter one."
    if trigger not in set(Trigger):
        return f'spec.trigger is "{trigger}", and must be one of {", ".join(Trigger)}.'
    if (trigger == Trigger.MANUAL) == bool(scheduled):
        return "spec.scheduledTime belongs to trigger Schedule or Backfill, and to those only."
    return ""
