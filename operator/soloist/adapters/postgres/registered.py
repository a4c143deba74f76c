"""Whether the SQL that a mapped queue has in its database is what its manifest means now.

Workers in other languages run that SQL, and only a person with the rights of the schema's owner can put it there. So an edit
of the WorkQueue, another type of a column, and a release that composes it otherwise leave the old one at work, until
somebody registers the queue again. All of it is compared, not a date or a number, so nothing else is ever said to be stale.
"""

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.mapped_opening import shape_of, table_of
from soloist.adapters.postgres.registration import registration
from soloist.adapters.postgres.statements import statement
from soloist.domain.catalog import Catalog
from soloist.domain.findings import Finding, warning
from soloist.domain.queue_spec import External, Inline, QueueSpec

NOT_REGISTERED, STALE = "NotRegistered", "RegistrationStale"
OF_FUNCTIONS = frozenset({NOT_REGISTERED, STALE})


async def registration_findings(database: Database, name: str, spec: QueueSpec, catalog: Catalog) -> list[Finding]:
    """At most one, of a mapping that has no error. A queue of Soloist's own workers needs no functions."""
    external = isinstance(spec.deliver, External)
    if external and isinstance(table_of(spec).claim, Inline):
        message = "spec.table.claim: Inline is for Soloist's own workers: write Sidecar, or leave the field out."
        return [warning(NOT_REGISTERED, message, field="spec.table.claim")]
    rows = await database.fetch(statement("registered_queue"), {"queue": name})
    if not rows:
        if not external:
            return []
        message = (
            f"The functions of {name} are not in the database, so no worker can claim its rows: run soloist queue register, "
            "as the owner of the schema soloist."
        )
        return [warning(NOT_REGISTERED, message)]
    shape = shape_of(name, spec, catalog, source=rows[0][0])
    meant = None if shape.inline is not None else registration(shape, spec)
    if meant is not None and tuple(value for key, value in meant.items() if key != "queue") == rows[0]:
        return []
    message = (
        f"The functions of {name} work by an earlier manifest, table or release of Soloist: run soloist queue register, as the "
        "owner of the schema soloist."
    )
    return [warning(STALE, message)]
