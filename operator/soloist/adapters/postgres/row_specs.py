"""The specs in effect: whoever leads makes them those of its own files, and everybody can see whose they are.

Why no two processes with different files undo each other's: specs are applied under the epoch of the one that leads, and
what has lost its term applies nothing (the epoch is checked last, in the same transaction). The others compare the hash of
their files with the one that is kept, and say so where it is another.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from soloist.adapters.postgres.database import Database
from soloist.adapters.postgres.row_objects import kept
from soloist.adapters.postgres.row_texts import json_text
from soloist.adapters.postgres.statements import statement
from soloist.ports import Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class InEffect:
    """``of`` is the writer that applied them, ``at`` when."""

    hash: str
    of: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How many objects were made, changed, and removed."""

    made: int
    changed: int
    removed: int


def hash_of(objects: Sequence[Raw]) -> str:
    """The same for the same objects, whatever the order of them and of their keys."""
    texts = sorted(json.dumps(_asked(raw), sort_keys=True) for raw in objects)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


class RowSpecs:
    """Of one installation; ``writer`` is this process, in the same word as its ``RowStore`` has."""

    def __init__(self, database: Database, *, shard: str, writer: str) -> None:
        self._database, self._shard, self._writer = database, shard, writer

    async def apply(
        self, objects: Sequence[Raw], *, kinds: Sequence[str], epoch: int, compared: bool = True
    ) -> Applied:
        """Make these all that there is of ``kinds``. Raises RowRefused with SO002 where the epoch is another by now.

        ``compared``: these are what the others hold their files against.
        """
        values = {
            "shard": self._shard, "writer": self._writer, "epoch": epoch, "kinds": list(kinds),
            "objects": json_text([_asked(raw) for raw in objects]), "hash": hash_of(objects) if compared else None,
        }  # fmt: skip
        ((made, changed, removed),) = await self._database.fetch(statement("apply_objects"), values, most_seconds=60.0)
        return Applied(made=made, changed=changed, removed=removed)

    async def in_effect(self) -> InEffect | None:
        """None: nobody has applied any."""
        rows = await self._database.fetch(statement("specs"), {"shard": self._shard})
        if not rows or rows[0][0] is None:
            return None
        ((hash_, of, at),) = rows
        return InEffect(hash=hash_, of=of, at=at)


def _asked(raw: Raw) -> Raw:
    metadata = raw["metadata"]
    given = {key: value for key, value in kept(metadata).items() if key != "ownerReferences"}
    where = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return {"kind": raw["kind"], **where, "given": given, "spec": raw.get("spec") or {}}
