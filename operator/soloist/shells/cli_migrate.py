"""``soloist migrate``: bring a database's schema to this program's version, say what that would do, or print it as SQL.

The connection string may hold a password, so it is never printed; what the database says of a failed login does not
hold one.
"""

from typing import TYPE_CHECKING

import click

from soloist.shells.cli_text import Complaint

if TYPE_CHECKING:
    from soloist.adapters.postgres.migrate import Migration


@click.command()
@click.option(
    "--database",
    metavar="DSN",
    default="",
    envvar="SOLOIST_DATABASE",
    help="postgresql://user@host/name [SOLOIST_DATABASE]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be applied.")
@click.option("--sql", "as_sql", is_flag=True, help="Print it for psql instead; all of it where no database is named.")
def migrate(database: str, dry_run: bool, as_sql: bool) -> None:
    """Bring the schema soloist of a database to this version.

    All in one transaction, and safe to run from many places at once. A database that a newer release has migrated is
    left alone.
    """  # fmt: skip
    from soloist.adapters.postgres import migrate as schema
    from soloist.domain.errors import SoloistError

    if dry_run and as_sql:
        raise click.UsageError("Write --dry-run or --sql, not both.")
    if not database and not as_sql:
        raise click.UsageError("Name the database: --database postgresql://user@host/name, or SOLOIST_DATABASE.")
    try:
        if as_sql:
            click.echo(_text(schema.look(database) if database else schema.known()), nl=False)
        elif dry_run:
            click.echo(_said("Would apply", schema.look(database)))
        else:
            click.echo(_said("Applied", schema.migrate(database)))
    except SoloistError as error:
        raise Complaint(str(error)) from error


def _text(migrations: "tuple[Migration, ...]") -> str:
    from soloist.adapters.postgres.migrate import script

    return script(migrations) if migrations else f"-- {_said('', ())}\n"


def _said(verb: str, migrations: "tuple[Migration, ...]") -> str:
    if not migrations:
        return "The schema soloist is up to date."
    return "\n".join([f"{verb}:", *(f"  {migration.title}" for migration in migrations)])
