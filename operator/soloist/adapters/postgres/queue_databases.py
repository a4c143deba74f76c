"""The databases of all WorkQueues, each asked about its own: the ``QueueDatabases`` port.

One for each URL, so queues with one database share a connection and one statement measures all of them that are in
soloist.work_items. What was found good (the schema, a mapping) is taken for good for a minute; what was not is looked at
each time, so that a remedy is soon seen.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping

from soloist.adapters.postgres.catalog import read_session
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.depths import managed_depths
from soloist.adapters.postgres.installation import schema_of
from soloist.adapters.postgres.mapped_depths import MappedDepth, mapped_depth
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.adapters.postgres.registered import OF_FUNCTIONS
from soloist.adapters.postgres.url import database_url
from soloist.adapters.sealed import ReadKey
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.findings import Severity
from soloist.domain.mapping_rights import read_only, schema_rights
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import DatabaseRef, External, ManagedTable, QueueSpec
from soloist.domain.queue_status import Learned
from soloist.domain.queue_validity import Answer, Schema, Unfit, Unreachable

GOOD_SECONDS = 60.0


class SurveyedDatabase:
    """One database."""

    def __init__(self, database: Database, *, boottime: Callable[[], float]) -> None:
        self._database, self._boottime = database, boottime
        self._schema: tuple[float, Schema, str] | None = None
        self._lacks = ""
        self._good: dict[QueueName, tuple[float, QueueSpec, MappedDepth]] = {}

    async def learn(self, queues: Mapping[QueueName, QueueSpec]) -> dict[QueueName, Learned]:
        try:
            schema, home = await self._schema_now()
            if schema.found != schema.needed:
                return dict.fromkeys(queues, Learned(answer=schema))
            managed = [str(name) for name, spec in queues.items() if isinstance(spec.table, ManagedTable)]
            depths = await managed_depths(self._database, managed) if managed else {}
        except (TransientError, PermanentError) as error:
            return dict.fromkeys(queues, Learned(answer=_answer(error)))
        found = {}
        for name, spec in queues.items():
            if isinstance(spec.table, ManagedTable):
                # Workers of one's own have roles of their own.
                lacks = self._lacks and not isinstance(spec.deliver, External)
                answer = Unfit(self._lacks) if lacks else schema
                found[name] = Learned(answer=answer, installation=home, depth=depths[str(name)])
            else:
                found[name] = await self._mapped(name, spec, schema, home)
        now = self._boottime()
        self._good = {name: good for name, good in self._good.items() if now - good[0] < GOOD_SECONDS}
        return found

    async def close(self) -> None:
        await self._database.close()

    async def _schema_now(self) -> tuple[Schema, str]:
        now = self._boottime()
        if self._schema is None or now - self._schema[0] >= GOOD_SECONDS:
            self._schema = None
            schema, home = await schema_of(self._database)
            if schema.found != schema.needed:
                return schema, home
            session = await read_session(self._database)
            if (finding := read_only(session)) is not None:
                raise PermanentError(finding.message)
            lacking = schema_rights(session)
            self._lacks = lacking.message if lacking is not None else ""
            if self._lacks:
                return schema, home
            self._schema = now, schema, home
        return self._schema[1:]

    async def _mapped(self, name: QueueName, spec: QueueSpec, schema: Schema, home: str) -> Learned:
        """What keeps one of these from being asked about is its own matter, and no word on the others."""
        try:
            depth, wrong = await self._mapping(name, spec)
            measured = None if depth is None else await depth.measure()
            return Learned(answer=wrong or schema, installation=home, depth=measured)
        except (TransientError, PermanentError) as error:
            self._good.pop(name, None)
            return Learned(answer=_answer(error), installation=home)

    async def _mapping(self, name: QueueName, spec: QueueSpec) -> tuple[MappedDepth | None, Unfit | None]:
        """How the queue is measured, where it can be, and what is in the way of its work."""
        now = self._boottime()
        kept = self._good.get(name)
        if kept is not None and kept[1] == spec and now - kept[0] < GOOD_SECONDS:
            return kept[2], None
        self._good.pop(name, None)
        findings = await check_mapping(self._database, str(name), spec)
        if findings and findings[0].severity is Severity.ERROR:
            return None, Unfit(findings[0].message)
        depth = await mapped_depth(self._database, str(name), spec)
        by_functions = isinstance(spec.deliver, External)
        for finding in findings:
            if by_functions and finding.reason in OF_FUNCTIONS:
                return depth, Unfit(finding.message)
        self._good[name] = now, spec, depth
        return depth, None


class SurveyedDatabases:
    """All of them. ``read_key`` raises SoloistError with a sentence that shows no secret."""

    def __init__(self, read_key: ReadKey, *, boottime: Callable[[], float]) -> None:
        self._read_key, self._boottime = read_key, boottime
        self._known: dict[bytes, SurveyedDatabase] = {}

    async def find(self, name: QueueName, ref: DatabaseRef) -> SurveyedDatabase:
        sealed = await self._read_key(name.namespace, ref.secret)
        text = sealed.reveal().strip()
        try:
            url = database_url(text)
        except PermanentError as error:
            raise PermanentError(f"Secret {name.namespace}/{ref.secret_name}, key {ref.key}: {error}") from None
        which = hashlib.sha256(text.encode()).digest()
        if which not in self._known:
            database = Database(url, program="soloist-controller")
            self._known[which] = SurveyedDatabase(database, boottime=self._boottime)
        return self._known[which]

    async def keep(self, used: Collection[object]) -> None:
        for which, database in list(self._known.items()):
            if database not in used:
                del self._known[which]
                await database.close()


def _answer(error: TransientError | PermanentError) -> Answer:
    return Unreachable(str(error)) if isinstance(error, TransientError) else Unfit(str(error))
