"""``soloist queue``: what its commands are called, take and say of themselves.

A queue is found on the API server, in the database of ``soloist standalone`` or, with -f, in a file; its database by its
Secret, or by --database. Which database was asked is said each time, never with the password.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from soloist.shells.cli_options import access, cluster, embedded, lease, output_format, target
from soloist.shells.cli_text import WrongWords, emit

if TYPE_CHECKING:
    from soloist.shells.cli_queue_place import QueuePlace

Function = TypeVar("Function", bound=Callable[..., Any])
_ID = click.IntRange(1, 2**63 - 1)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = timedelta(days=36500)


def _place_options(function: Function) -> Function:
    for option in (
        click.option("--database", metavar="DSN", default="", envvar="SOLOIST_DATABASE", help="Instead of the queue's Secret: postgresql://user@host/name; that of soloist standalone has its queues too [SOLOIST_DATABASE]"),
        click.option("-f", "--file", "files", metavar="FILE", multiple=True, help="Manifest with the WorkQueue (and its Secret) or a folder of such, instead of the API server; repeatable."),
    ):  # fmt: skip
        function = option(function)
    return access(lease(embedded(function)))


def _place(name: str, options: dict[str, Any]) -> "QueuePlace":
    from soloist.shells import cli_queue_place

    files, database = options["files"], options["database"]
    # As the queue is called in SQL, and in what we print of it.
    namespace, slash, plain = name.rpartition("/")
    if slash and options["namespace"] not in ("", namespace):
        raise WrongWords(f"{name} is not in the namespace {options['namespace']} of -n: leave one of the two out.")
    if slash:
        name, options = plain, {**options, "namespace": namespace}
    if files:
        return cli_queue_place.in_files(files, options["namespace"], name, database)
    asked = target(options)
    found = cli_queue_place.in_rows(asked, name) if asked.database else None
    return found or cli_queue_place.in_cluster(target({**options, "database": "", "embedded": False}), name, database)


@click.group()
def queue() -> None:
    """WorkQueues: how they are, what is wrong with them, and their dead letters."""


@queue.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Queues of all namespaces.")
@cluster
@output_format
def list_queues(all_namespaces: bool, output: str, **options: Any) -> None:
    """Every WorkQueue with its counts, as the leader measured them; problems first."""
    from soloist.shells import cli_queue_list

    emit(output, *cli_queue_list.queues(target(options, everywhere=all_namespaces)))


@queue.command()
@click.argument("name")
@_place_options
@output_format
def check(name: str, output: str, **options: Any) -> None:
    """Hold the WorkQueue NAME against its database, and change nothing.

    Schema, rights, and for a table of your own its columns, types, indexes and triggers. Exit code 1: something stops the
    queue.
    """  # fmt: skip
    from soloist.shells import cli_queue_check

    document, lines, code = cli_queue_check.check(_place(name, options))
    emit(output, document, lines)
    click.get_current_context().exit(code)


@queue.command()
@click.argument("name")
@_place_options
def register(name: str, **options: Any) -> None:
    """Let workers in any language work the WorkQueue NAME on a table of your own, by SQL functions.

    Puts its SQL into the schema soloist, as whose owner the database has to be asked; again after a change of the WorkQueue.
    """
    from soloist.shells import cli_queue_register

    emit("table", None, cli_queue_register.register(_place(name, options)))


@queue.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many to show.")
@click.option("--after", metavar="PLACE", help="Go on after that one, as the page before says.")
@_place_options
@output_format
def dead(name: str, limit: int, after: str | None, output: str, **options: Any) -> None:
    """The dead letters of the WorkQueue NAME with their last error, those first that died first."""
    from soloist.shells import cli_queue_dead

    start = cli_queue_dead.read_place(after)
    emit(output, *cli_queue_dead.dead(_place(name, options), limit, start))


@queue.command()
@click.argument("name")
@click.argument("ids", metavar="[ID]...", type=_ID, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead letter that there is now.")
@_place_options
def retry(name: str, ids: tuple[int, ...], everything: bool, **options: Any) -> None:
    """Put dead rows of the WorkQueue NAME back to work, due now, with a fresh budget of tries."""
    from soloist.shells import cli_queue_retry

    if bool(ids) == everything:
        raise click.UsageError("Name the IDs of dead letters, as soloist queue dead shows them, or write --all.")
    lines, code = cli_queue_retry.retry(_place(name, options), None if everything else ids)
    emit("table", None, lines)
    click.get_current_context().exit(code)


@queue.command()
@click.argument("name")
@click.argument("ids", metavar="[ID]...", type=_ID, nargs=-1)
@click.option("--older-than", metavar="AGE", help="Those that have been dead for longer, such as 30d or 12h.")
@click.option("--all", "everything", is_flag=True, help="Every dead letter that there is now.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_place_options
def purge(name: str, ids: tuple[int, ...], older_than: str | None, everything: bool, yes: bool, **options: Any) -> None:
    """Delete dead letters of the WorkQueue NAME for good. It asks first."""
    from soloist.shells import cli_queue_retry

    if [bool(ids), older_than is not None, everything].count(True) != 1:
        raise click.UsageError("Write which: IDs of dead letters, or --older-than such as 30d, or --all.")
    which = ids or (timedelta() if older_than is None else age(older_than))
    lines, code = cli_queue_retry.purge(_place(name, options), which, agreed=lambda text: yes or _agreed(text))
    emit("table", None, lines)
    click.get_current_context().exit(code)


def _agreed(text: str) -> bool:
    return click.confirm(text, err=True)


def age(text: str) -> timedelta:
    """Such as 30d or 1h30m."""
    if re.fullmatch(r"(?:[0-9]{1,12}[smhd])+", text.strip()):
        parts = re.findall(r"([0-9]+)([smhd])", text)
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in parts)
        if 0 < seconds <= _LONGEST.total_seconds():
            return timedelta(seconds=seconds)
    raise WrongWords(
        f'--older-than "{text}" is not an age: write whole seconds, minutes, hours or days, such as 30d or 12h30m.'
    )
