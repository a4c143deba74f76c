"""Whether a database has the schema that this program needs, and how that installation is told from every other."""

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.migrate import Applied, known, pending
from soloist.adapters.postgres.statements import statement
from soloist.domain.errors import PermanentError

_THERE = b"SELECT pg_catalog.to_regclass('soloist.migrations') IS NOT NULL"


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
