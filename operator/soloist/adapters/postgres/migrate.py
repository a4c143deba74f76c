"""Brings the schema ``soloist`` of a database to the version of this program: all of it in one transaction, or nothing.

Every process takes the same transaction-level advisory lock first, so of several that start at once one migrates and the
others find it done; it works through a transaction pooler, since nothing lasts longer than the transaction. What was
applied is kept with its checksum: a file that was changed since, and a database newer than the program, are refused.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from soloist.adapters.postgres.failures import NO_WRITES, OPTION, STANDALONE, translated, unreached
from soloist.adapters.postgres.url import DatabaseUrl, database_url
from soloist.domain.errors import PermanentError, TransientError

# One number for everybody who migrates; any would do that nobody else uses.
MIGRATION_LOCK = 730945321600002
WAIT_FOR_OTHERS = "10min"
WAIT_FOR_TABLES = "10s"
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file; its checksum is of its text."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def title(self) -> str:
        return f"{self.version:04} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One row of ``soloist.migrations``."""

    version: int
    checksum: str


def known() -> tuple[Migration, ...]:
    """Every migration of this program, in order; their versions are 1, 2, 3 …"""
    found = []
    for entry in files(__package__).joinpath("migrations").iterdir():
        named = _NAME.fullmatch(entry.name)
        if named:
            found.append(Migration(version=int(named[1]), name=named[2], text=entry.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


def pending(migrations: Sequence[Migration], applied: Sequence[Applied]) -> tuple[Migration, ...]:
    """What is still to be applied; raises PermanentError where the database does not go with this program."""
    newest = max((row.version for row in applied), default=0)
    last = migrations[-1].version
    if newest > last:
        raise PermanentError(
            f"The schema soloist of the database is at version {newest}, and this program knows versions up to {last}: "
            "run a release of Soloist that is as new as the one that migrated it."
        )
    there = {row.version: row.checksum for row in applied}
    for migration in migrations:
        if there.get(migration.version, migration.checksum) != migration.checksum:
            raise PermanentError(
                f"Migration {migration.title} was applied to the database with another text than this program has: "
                "use the release that applied it, or restore the file; applied migrations are never edited."
            )
    missing = [version for version in range(1, newest + 1) if version not in there]
    if missing:
        raise PermanentError(
            f"soloist.migrations lacks version {missing[0]}, and has {newest}: restore the row, or the database."
        )
    return tuple(migration for migration in migrations if migration.version > newest)


def migrate(conninfo: str, migrations: Sequence[Migration] | None = None) -> tuple[Migration, ...]:
    """Applies what is pending, and lifts the fence to the present; gives what was applied."""
    with _connected(database_url(conninfo)) as connection, connection.transaction():
        connection.execute(_SETTING, ("lock_timeout", WAIT_FOR_OTHERS))
        connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        connection.execute(_SETTING, ("lock_timeout", WAIT_FOR_TABLES))
        connection.execute(_SETTING, ("search_path", "pg_catalog"))
        todo = pending(migrations or known(), _applied(connection))
        for migration in todo:
            connection.execute(sql.SQL(migration.text))
            connection.execute(_RECORD, (migration.version, migration.name, migration.checksum))
        connection.execute("SELECT soloist.lift_fence()")
    return todo


def look(conninfo: str) -> tuple[Migration, ...]:
    """What ``migrate`` would apply; changes nothing, and may be asked by whoever is to work there."""
    url = database_url(conninfo)
    with _connected(url) as connection:
        role = connection.info.user
        try:
            with connection.transaction():
                return pending(known(), _applied(connection))
        except psycopg.Error as error:
            raise translated(error, url.name, role=role, grant=STANDALONE) from error


def script(migrations: Sequence[Migration]) -> str:
    """The same as text for psql, for a database that only its administrators may change."""
    parts = [
        "BEGIN;",
        f"SELECT pg_catalog.pg_advisory_xact_lock({MIGRATION_LOCK});",
        "SET LOCAL search_path = pg_catalog;",
    ]
    for migration in migrations:
        values = f"{migration.version}, '{migration.name}', '{migration.checksum}'"
        parts += [f"-- {migration.title}", migration.text.rstrip()]
        parts += [f"INSERT INTO soloist.migrations (version, name, checksum) VALUES ({values});", ""]
    return "\n".join([*parts, "SELECT soloist.lift_fence();", "COMMIT;", ""])


_SETTING = "SELECT pg_catalog.set_config(%s, %s, true)"
_RECORD = "INSERT INTO soloist.migrations (version, name, checksum) VALUES (%s, %s, %s)"


@contextmanager
def _connected(url: DatabaseUrl) -> Iterator[psycopg.Connection[Any]]:
    """By Prisma's URL or libpq's; its errors are ours. Nothing is prepared, so that it works behind a transaction pooler."""
    try:
        where = make_conninfo(**url.libpq)
        connection = psycopg.connect(where, autocommit=True, prepare_threshold=None, connect_timeout=10)
    except psycopg.ProgrammingError as error:
        raise PermanentError(
            "The database's connection string cannot be read: write postgresql://user@host/name."
        ) from error
    except psycopg.OperationalError as error:
        raise unreached(error, url.name, url=OPTION) from error
    try:
        with closing(connection):
            yield connection
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise TransientError(f"The database takes no writes ({_first_line(error)}): {NO_WRITES}", sent=False) from error
    except psycopg.OperationalError as error:
        raise TransientError(f"The migration did not get through: {_first_line(error)}") from error
    except psycopg.Error as error:
        raise PermanentError(f"The migration was refused: {_first_line(error)}") from error


def _applied(connection: psycopg.Connection[Any]) -> list[Applied]:
    there = connection.execute("SELECT pg_catalog.to_regclass('soloist.migrations') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return []
    rows = connection.execute("SELECT version, checksum FROM soloist.migrations ORDER BY version")
    return [Applied(version=version, checksum=checksum) for version, checksum in rows]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
