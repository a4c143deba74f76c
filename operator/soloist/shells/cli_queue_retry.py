"""``soloist queue retry`` and ``purge``: what a person decides of rows that were given up.

What was asked to be destroyed is what was counted: letters of later are left alone, however long the answer takes.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.managed_dead import DeadItems
from soloist.adapters.postgres.mapped_dead import DeadRows
from soloist.adapters.postgres.mapped_opening import open_dead_rows
from soloist.domain.dead_letter import FIRST
from soloist.domain.queue_spec import MappedTable, QueueSpec
from soloist.shells.cli_queue_dead import letters_of
from soloist.shells.cli_queue_place import QueuePlace, ask, database_name

EXIT_NOT_ALL = 1
_CLOCK = SystemClock()
_BATCH = 500
_NAMED = 10
Result = tuple[list[str], int]


def retry(place: QueuePlace, ids: Sequence[int] | None) -> Result:
    """None: all that there are now."""
    spec = place.usable()

    async def conversation(database: Database) -> dict[int, bool]:
        name = str(place.name)
        mapped = isinstance(spec.table, MappedTable)
        letters: DeadItems | DeadRows = (
            await open_dead_rows(database, name, spec) if mapped else DeadItems(database, name)
        )
        return await retry_all(letters) if ids is None else await letters.retry(list(dict.fromkeys(ids)))

    return said_of_retry(place, spec, ids or (), ask(place, conversation))


async def retry_all(letters: DeadItems | DeadRows) -> dict[int, bool]:
    """As many as there are at the start: a row that dies again meanwhile is at the end of the list."""
    left, after, done = await letters.count(), FIRST, dict[int, bool]()
    while left > 0 and (found := await letters.oldest(min(left, _BATCH), after=after)):
        done |= await letters.retry([letter.id for letter in found])
        left, after = left - len(found), found[-1].place
    return done


def said_of_retry(place: QueuePlace, spec: QueueSpec, ids: Sequence[int], done: dict[int, bool]) -> Result:
    back = sum(done.values())
    stay = [id_ for id_, is_back in done.items() if not is_back]
    lines = [f"{_count(back, 'row')} of {place.name} {'is' if back == 1 else 'are'} due again."]
    if back and spec.suspend:
        lines.append("spec.suspend is true: they wait until it is false.")
    if stay and isinstance(spec.table, MappedTable):
        lines.append(
            f"Not these: {_some(stay)}. The application has changed or deleted the row since; it was left as it is, and the "
            "letter is gone."
        )
    elif stay:
        lines.append(
            f"Not these: {_some(stay)}. A row with the same unique_key is in the queue by now: wait until it is done, or purge the "
            "letter."
        )
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in done]
    return [*lines, *_missing(place, missing)], EXIT_NOT_ALL if stay or missing else 0


def purge(place: QueuePlace, which: Sequence[int] | timedelta, *, agreed: Callable[[str], bool]) -> Result:
    """By id, or those that have been dead for longer. ``agreed`` is asked with the question before anything is destroyed.

    It is asked with no loop running, whose handling of SIGINT would keep Ctrl-C from the person who is asked.
    """
    asked = _CLOCK.boottime()
    count, where = ask(place, lambda database: _counted(database, place, which))
    if not count:
        return [f"There are no such dead letters of {place.name}."], 0
    if not agreed(_question(place, count, where)):
        return ["Nothing was deleted."], EXIT_NOT_ALL
    if isinstance(which, timedelta):
        gone = ask(place, lambda database: _purged_older(database, place, which, asked))
        return [f"{_count(gone, 'dead letter')} of {place.name} deleted."], 0
    there = ask(place, lambda database: letters_of(database, place).purge(list(dict.fromkeys(which))))
    missing = [id_ for id_ in dict.fromkeys(which) if id_ not in there]
    lines = [f"{_count(len(there), 'dead letter')} of {place.name} deleted.", *_missing(place, missing)]
    return lines, EXIT_NOT_ALL if missing else 0


async def _counted(database: Database, place: QueuePlace, which: Sequence[int] | timedelta) -> tuple[int, str]:
    letters = letters_of(database, place)
    count = await letters.count(older_than=which) if isinstance(which, timedelta) else len(set(which))
    return count, database_name(database)


async def _purged_older(database: Database, place: QueuePlace, than: timedelta, asked: float) -> int:
    """Those that were as old when it was ``asked``; connected first, since that may take longer than to ask."""
    letters = letters_of(database, place)
    await letters.oldest(1)
    return await letters.purge_older(than + timedelta(seconds=_CLOCK.boottime() - asked))


def _question(place: QueuePlace, count: int, where: str) -> str:
    mapped = isinstance(place.usable().table, MappedTable)
    what = f"The rows of {place.table} stay as they are." if mapped else "Their rows go with them, payload and all."
    return f"This deletes {_count(count, 'dead letter')} of {place.name} in {where}, for good. {what} Go on?"


def _missing(place: QueuePlace, missing: Sequence[int]) -> list[str]:
    if not missing:
        return []
    return [f"There is no such dead letter: {_some(missing)}. Those that there are: soloist queue dead {place.named}"]


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _some(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:_NAMED])) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
