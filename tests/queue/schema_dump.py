"""The schema as pg_dump tells it, less what differs between versions of pg_dump.

`python -m tests.queue.schema_dump` writes the golden files anew: the dump, and the checksum of each migration.
"""

from __future__ import annotations

from pathlib import Path

from soloist.adapters.postgres.migrate import known, migrate
from tests.postgres.server import Database, Postgres

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = GOLDEN / "schema.sql"
CHECKSUMS = GOLDEN / "migrations.txt"
NOISE = ("SET ", "SELECT pg_catalog.set_config", "\\restrict", "\\unrestrict")


def dump(database: Database) -> str:
    said = database.server.run("pg_dump", "-s", "-n", "soloist", "--no-owner", database.dsn())
    lines: list[str] = []
    for line in said.splitlines():
        noise = line.startswith(NOISE) or (line.startswith("--") and not inside_a_body(lines))
        if not noise and (line or (lines and lines[-1])):
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def inside_a_body(lines: list[str]) -> bool:
    return sum(line.count("$$") for line in lines) % 2 == 1


def checksums() -> str:
    return "".join(f"{migration.title} {migration.checksum}\n" for migration in known())


if __name__ == "__main__":
    with Postgres() as server:
        made = server.create_database("golden")
        migrate(made.dsn())
        SCHEMA.write_text(dump(made))
    CHECKSUMS.write_text(checksums())
