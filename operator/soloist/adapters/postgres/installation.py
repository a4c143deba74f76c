"""Whether a database has the schema that this program needs, and how that installation is told from every other."""

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.migrate import Applied, known, pending
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError
from soloist.domain.queue_validity import Schema

_THERE = b"SELECT pg_catalog.to_regclass('soloist.migrations') IS NOT NULL"
_WHERE = b"SELECT system_identifier::text, pg_catalog.current_database()::text FROM pg_catalog.pg_control_system()"


async def installation(database: Database) -> str:
    """A name that no other installation has: the moment of its first migration, to the microsecond.

    It is part of the rows, so it goes along when a database is moved, restored or failed over, and so do the keys that are
    made of it. Raises PermanentError where the schema is older than this program, newer, or not there.
    """
    ((there,),) = await database.fetch(_THERE)
    rows = await database.fetch(statement("applied")) if there else []
    todo = pending(known(), [Applied(version=version, checksum=checksum) for version, checksum, _ in rows])
    if todo:
        where = f"is at version {rows[-1][0]}, and this program needs {todo[-1].version}" if rows else "is not there"
        raise PermanentError(f"{database.name}: the schema soloist {where}: run soloist migrate on it.")
    return str(rows[0][2])


async def schema_of(database: Database) -> tuple[Schema, str]:
    """The version that is there and the one that is needed; and a name for the very database, however it is reached.

    That name has the server's own identity in it: a copy that was restored elsewhere is another database, though its rows
    and their keys are the same. Raises PermanentError where a migration was applied with another text.
    """
    needed = known()
    ((there,),) = await database.fetch(_THERE)
    rows = await database.fetch(statement("applied")) if there else []
    found = rows[-1][0] if rows else None
    schema = Schema(found=found, needed=needed[-1].version)
    if not rows or schema.found != schema.needed:
        return schema, ""
    pending(needed, [Applied(version=version, checksum=checksum) for version, checksum, _ in rows])
    ((server, name),) = await database.fetch(_WHERE)
    return schema, f"{rows[0][2]}/{server}/{name}"
