"""All that a database says of a queue: its schema, our rights there, and the table that the queue is mapped to.

It reads and explains; it changes nothing, so it can be asked of a queue that is at work.
"""

from soloist.adapters.postgres.catalog import read_session
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.installation import installation
from soloist.adapters.postgres.mapping_check import check_mapping
from soloist.domain.errors import PermanentError
from soloist.domain.findings import Finding, Severity, error
from soloist.domain.mapping_rights import session_findings
from soloist.domain.queue_spec import MappedTable, QueueSpec

_SCHEMA_MISSING = "SchemaMissing"


async def check_queue(database: Database, name: str, spec: QueueSpec) -> list[Finding]:
    """Errors first. Raises TransientError where the database cannot be asked; what it refuses is a finding."""
    schema = await _schema(database)
    try:
        if isinstance(spec.table, MappedTable):
            found = await check_mapping(database, name, spec)
        else:
            found = list(session_findings(await read_session(database)))
    except PermanentError as refusal:
        # Without any right on the schema both fail, with one sentence.
        found = [] if schema is not None else [error("Refused", str(refusal))]
    if schema is not None:
        # It knows the versions, which the catalog does not.
        found = [schema, *(each for each in found if each.reason != _SCHEMA_MISSING)]
    return sorted(found, key=lambda each: list(Severity).index(each.severity))


async def _schema(database: Database) -> Finding | None:
    try:
        await installation(database)
    except PermanentError as refusal:
        return error(_SCHEMA_MISSING, str(refusal))
    return None
