"""``soloist queue dead``: the letters of rows that were given up or wait for a person.

A page begins after a place, a time and an id, not after a number of letters: what is retried or comes meanwhile shifts
nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.dead_letters import DeadLetters
from soloist.adapters.postgres.managed_dead import DeadItems
from soloist.adapters.postgres.mapped_dead import RowLetters
from soloist.domain.dead_letter import FIRST, Letter, PlaceInList
from soloist.domain.instants import stamp
from soloist.domain.queue_spec import MappedTable
from soloist.domain.wall_time import away
from soloist.shells.cli_queue_place import QueuePlace, ask
from soloist.shells.cli_text import WrongWords, table


def read_place(text: str | None) -> PlaceInList:
    """As ``--after`` has it: a time and an id."""
    if text is None:
        return FIRST
    moment, _, id_ = text.partition(",")
    try:
        died_at, number = datetime.fromisoformat(moment), int(id_)
        if died_at.tzinfo is not None and 1970 <= died_at.year < 9000 and 0 <= number < 2**63:
            return died_at, number
    except ValueError:
        pass
    raise WrongWords(
        f'--after "{text}" is not a place in the list: write it as the page before ends, such as 2026-10-15T12:00:00Z,42.'
    )


def dead(place: QueuePlace, limit: int, after: PlaceInList) -> tuple[dict[str, Any], list[str]]:
    mapped = isinstance(place.usable().table, MappedTable)

    async def conversation(database: Database) -> list[Letter]:
        return await letters_of(database, place).oldest(limit + 1, after=after)

    found = ask(place, conversation)
    return page(place, found[:limit], now=SystemClock().now(), more=len(found) > limit, mapped=mapped)


def page(
    place: QueuePlace, letters: Sequence[Letter], *, now: datetime, more: bool, mapped: bool
) -> tuple[dict[str, Any], list[str]]:
    """With the rows' keys where they are other than the letters' ids."""
    following = _written(letters[-1].place) if more else None
    document = {"letters": [_document(letter) for letter in letters], "after": following}
    if not letters:
        return document, [f"There are no dead letters of {place.name}."]
    header = ["ID", *(["ROW"] if mapped else []), "DIED", "REASON", "NEXT ATTEMPT", "CLAIMS LOST", "LAST ERROR"]
    lines = table(header, (_row(letter, now, mapped) for letter in letters))
    if following is not None:
        lines += ["", f"There are more: soloist queue dead {place.named} --after {following}"]
    return document, lines


def _document(letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "row": list(letter.row),
        "died": stamp(letter.died_at),
        "due": stamp(letter.due) if letter.due is not None else None,
        "reason": letter.reason,
        "nextAttempt": letter.attempt,
        "claimsLost": letter.reclaims,
        "lastError": letter.error,
    }


def _row(letter: Letter, now: datetime, mapped: bool) -> list[str]:
    row = [_printable(", ".join(letter.row))] if mapped else []
    said = _printable(" ".join((letter.error or "").split()))[:160]
    died = away(letter.died_at, now)
    return [str(letter.id), *row, died, letter.reason, str(letter.attempt), str(letter.reclaims), said]


def _printable(text: str) -> str:
    """A receiver's words are not to move a terminal's cursor."""
    return "".join(each if each.isprintable() else "�" for each in text)


def _written(place: PlaceInList) -> str:
    return f"{stamp(place[0])},{place[1]}"


def letters_of(database: Database, place: QueuePlace) -> DeadLetters:
    mapped = isinstance(place.usable().table, MappedTable)
    return RowLetters(database, str(place.name)) if mapped else DeadItems(database, str(place.name))
