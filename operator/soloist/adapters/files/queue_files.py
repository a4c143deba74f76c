"""WorkQueues, Secrets and ConfigMaps out of YAML files, in the form in which the API server would have them.

A file that cannot be read ends the start, with a sentence. Later it changes nothing: what was read last goes on to hold, so
that an editor's half-written file stops no queue, and the sentence is told once. Looked at once a second, since a file may
be replaced, mounted anew, or lie where no kernel tells of changes.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import ConfigError, PermanentError
from soloist.domain.queue_name import FoundQueues, queues_in

ENDINGS = frozenset({".yaml", ".yml", ".json"})
LOOK_EVERY = 1.0
Place = tuple[str, str, str]
_KINDS = frozenset({"WorkQueue", "Secret", "ConfigMap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the files held, by kind, namespace and name; ``stamp`` tells one state of the files from another."""

    objects: Mapping[Place, dict[str, Any]] = field(default_factory=dict)
    stamp: tuple[object, ...] = ()


class QueueFiles:
    """``told`` is told why changed files were not taken."""

    def __init__(self, paths: Sequence[str], *, told: Callable[[str], None]) -> None:
        self._paths, self._told = [Path(path) for path in paths], told
        self._read = _load(self._paths)

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """Tell of all queues now, and whenever the files have changed."""
        tell(self.found())
        refused: tuple[object, ...] = ()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            stamp = _stamp(self._paths)
            if stamp in (self._read.stamp, refused):
                continue
            try:
                self._read = await asyncio.to_thread(_load, self._paths)
            except ConfigError as error:
                refused = stamp
                self._told(f"{error} What was read before goes on to hold.")
            else:
                tell(self.found())

    async def read_key(self, namespace: str, ref: KeyRef) -> Sealed:
        """A value of a Secret or ConfigMap that is in the files."""
        place = f"{ref.kind} {namespace}/{ref.name}"
        found = self._read.objects.get((ref.kind, namespace, ref.name))
        if found is None:
            raise PermanentError(f"{place} is in none of the files: add it to one, or name another.")
        text = _text(found, ref.key, secret=ref.kind == "Secret")
        if text is None:
            raise PermanentError(f"{place} has no key {ref.key!r} with text in it: add it, or name another key.")
        return Sealed(text)

    def found(self) -> FoundQueues:
        """All queues, as they were read last."""
        return queues_in(each for (kind, *_), each in self._read.objects.items() if kind == "WorkQueue")


def _load(paths: Sequence[Path]) -> _Read:
    stamp = _stamp(paths)
    objects: dict[Place, dict[str, Any]] = {}
    for file in _files(paths):
        for each in _documents(file):
            metadata = each["metadata"]
            place = (each["kind"], metadata.get("namespace") or "default", metadata["name"])
            if place in objects:
                raise ConfigError(f"{file}: {place[0]} {place[1]}/{place[2]} is there twice: rename or remove one.")
            objects[place] = each
    return _Read(objects=objects, stamp=stamp)


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path} does not exist: name a manifest, or a folder of them.")
        # A mounted ConfigMap has folders of its own in it whose names begin with two dots.
        inside = (each for each in path.iterdir() if each.suffix in ENDINGS and not each.name.startswith("."))
        found += sorted(inside) if path.is_dir() else [path]
    return found


def _stamp(paths: Sequence[Path]) -> tuple[object, ...]:
    try:
        stats = [(file, file.stat()) for file in _files(paths)]
    except (OSError, ConfigError):
        return ("gone",)
    return tuple((str(file), stat.st_ino, stat.st_size, stat.st_mtime_ns) for file, stat in stats)


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    """Those of our three kinds; what else is in the file is somebody else's."""
    try:
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # Not the parser's own words: they repeat the line, and a Secret may stand in it.
        where = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) is not None else ""
        raise ConfigError(f"{file}{where}: this cannot be read as YAML: mend it.") from error
    for each in documents:
        kept = each.get("items", []) if isinstance(each, dict) and each.get("kind") == "List" else [each]
        yield from (one for one in kept if isinstance(one, dict) and _is_ours(file, one))


def _is_ours(file: Path, document: dict[str, Any]) -> bool:
    if document.get("kind") not in _KINDS:
        return False
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ConfigError(f"{file}: a {document['kind']} has no metadata.name: give it one.")
    return True


def _text(document: dict[str, Any], key: str, *, secret: bool) -> str | None:
    plain = (document.get("stringData") if secret else document.get("data")) or {}
    if isinstance(plain.get(key), str):
        return str(plain[key])
    coded = document.get("data") or {}
    if not secret or not isinstance(coded.get(key), str):
        return None
    try:
        return base64.b64decode(coded[key], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
