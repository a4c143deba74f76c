"""Takes out of what kopf reads all that is known without it: whole lists, and status-only changes, the echoes of our own writes.

An event costs kopf 1.5 ms under the interpreter's lock, in every replica. The record of a run is written just before the
run is due: a thousand echoes would take their time from the launches. A list comes when a process starts, or its watch broke:
a thousand jobs would hold up the first launch of a leader that has just come, which has listed them itself.

Nothing is lost by it. The caller lists anew after each list of kopf's, and kopf's watch goes on from its own, the older. What
stands in a status is ours; what anybody else writes there is met by the resourceVersion precondition of our next write, and
by the lists. What people change (spec, annotations, a deletion) changes more than the status, and passes.

In place of what was taken out of a watch a bookmark goes through, so that kopf's next one begins behind it and not before it.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

_LEFT_ASIDE = frozenset({"resourceVersion", "managedFields"})


class WithoutItems:
    """Stands for the content of a list, as far as kopf uses it. ``known``: by uid, what it had, for ``WithoutEchoes``."""

    def __init__(self, content: aiohttp.StreamReader, known: dict[str, int]) -> None:
        self._content, self._known = content, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self, size: int = -1) -> bytes:
        """The list without its items; what is not a list comes as it is."""
        said = await self._content.read(size)
        try:
            found = json.loads(said)
            told = {item["metadata"]["uid"]: _told(item["metadata"]) for item in found["items"]}
        except (ValueError, KeyError, TypeError):
            return said
        self._known |= told
        return json.dumps({**found, "items": []}).encode()


class WithoutEchoes:
    """Stands for the content of a watch, as far as kopf uses it. ``known``: by uid, what was last let through."""

    def __init__(self, content: aiohttp.StreamReader, known: dict[str, int]) -> None:
        self._content, self._known = content, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines, fewer than there were; what is cut off at the end comes as it is."""
        rest: list[bytes] = []
        async for chunk in self._content.iter_chunked(size):
            first, *more = chunk.split(b"\n")
            rest.append(first)
            if more:
                lines = [b"".join(rest), *more]
                rest = [lines.pop()]
                kept = b"".join(self._sift(lines))
                if kept:
                    yield kept
        if any(rest):
            yield b"".join(rest)

    def _sift(self, lines: list[bytes]) -> list[bytes]:
        kept: list[bytes] = []
        bookmark: bytes | None = None
        for line in lines:
            echo = self._echo(line) if line else None
            if echo is None:
                kept.append(line + b"\n")
            bookmark = echo
        return kept if bookmark is None else [*kept, bookmark]

    def _echo(self, line: bytes) -> bytes | None:
        """A bookmark where this event tells of nothing but a status; None where it must pass."""
        try:
            event = json.loads(line)
            obj, kind = event["object"], event["type"]
            metadata = obj["metadata"]
            uid, version = metadata["uid"], metadata["resourceVersion"]
        except (ValueError, KeyError, TypeError):
            return None
        if kind == "DELETED":
            self._known.pop(uid, None)
            return None
        told = _told(metadata)
        if kind != "MODIFIED" or self._known.get(uid) != told:
            self._known[uid] = told
            return None
        named = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": {"resourceVersion": version}}
        return json.dumps({"type": "BOOKMARK", "object": named}).encode() + b"\n"


def _told(metadata: dict[str, Any]) -> int:
    """Other than before where anything but the status has changed."""
    return hash(json.dumps({key: value for key, value in metadata.items() if key not in _LEFT_ASIDE}))
