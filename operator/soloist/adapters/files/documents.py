"""The documents of one YAML file that are ours, by kind, namespace and name, in the form in which the API server has them.

A file is taken whole or not at all: half of an editor's save is no manifest. What is said of one that is refused repeats
none of its lines, since a Secret may stand there. What a file can cost is bounded: its bytes, and what its aliases make of
them; and only what lies on a disk is read, since a pipe would be waited for.
"""

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from soloist.domain.errors import ConfigError
from soloist.domain.manifest_kinds import LIST, is_used, mistake

QUEUES_AND_KEYS = frozenset({"WorkQueue", "Secret", "ConfigMap"})
JOBS_TOO = QUEUES_AND_KEYS | {"ScheduledJob"}
Place = tuple[str, str, str]
"""Kind, namespace and name."""

MOST_BYTES, DEEPEST = 16 << 20, 100
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, where PyYAML was built with it, reads a file in a seventh of the time."""


class _Loader(_Base):  # type: ignore[misc]
    """A date is text, and a key that is there twice is a mistake, as they are to kubectl."""

    yaml_implicit_resolvers = {
        letter: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(problem="a key is there twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_file(file: Path, kinds: Collection[str]) -> Mapping[Place, dict[str, Any]]:
    """All of those kinds in it. Raises ConfigError with a sentence, and OSError where it cannot be read at all."""
    found: dict[Place, dict[str, Any]] = {}
    for each in _documents(file, kinds):
        place = _place(file, each)
        if place in found:
            raise ConfigError(f"{file}: {place[0]} {place[1]}/{place[2]} is there twice: rename or remove one.")
        found[place] = each
    return found


def _documents(file: Path, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """What is of another kind is somebody else's; where it was meant to be ours, the whole file is refused."""
    try:
        text = _bytes(file).decode("utf-8-sig")
        _is_shallow(text)
        documents = [_as_json(each) for each in yaml.load_all(text, Loader=_Loader)]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: this is not text in UTF-8: save it as such.") from error
    except (ValueError, TypeError, RecursionError, MemoryError, yaml.YAMLError) as error:
        where = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) is not None else ""
        twice = getattr(error, "problem", "") == "a key is there twice"
        said = "a key is there twice: remove one." if twice else "this cannot be read as YAML: mend it."
        raise ConfigError(f"{file}{where}: {said}") from error
    for number, each in enumerate(documents, 1):
        for place, one in _with_items(each, f"document {number}"):
            if (wrong := mistake(one, kinds)) is not None:
                raise ConfigError(f"{file}: {place}{_named(one)}: {wrong}")
            if is_used(one, kinds):
                yield one


def _with_items(document: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A document and where it is; of a list what is in it, lists again among it."""
    if not isinstance(document, dict):
        return
    if document.get("kind") != LIST:
        yield place, document
        return
    items = document.get("items")
    for number, each in enumerate(items if isinstance(items, list) else [], 1):
        yield from _with_items(each, f"{place}, item {number}")


def _is_shallow(text: str) -> None:
    """The parser in C goes down one call a level, and where its stack ends it takes the process with it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")


def _bytes(file: Path) -> bytes:
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ConfigError(f"{file} is no file: remove it, or name a manifest.")
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{file} is longer than {MOST_BYTES >> 20} MiB: make several files of it.")
    return content


def _named(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f' ("{name[:60]}")' if isinstance(name, str) else ""


def _place(file: Path, document: dict[str, Any]) -> Place:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ConfigError(f"{file}: a {document['kind']} has no metadata.name: give it one.")
    return document["kind"], str(metadata.get("namespace") or "default"), metadata["name"]


def _as_json(document: Any) -> Any:
    """As it is after kubectl has turned it into JSON; raises where it has no such form, or none that a database keeps."""
    if _length(document, {}) > MOST_BYTES:
        raise ValueError("its aliases make too much of it")
    text = json.dumps(document, allow_nan=False)
    if r"\u0000" in text:
        raise ValueError("a zero byte")
    return json.loads(text)


def _length(value: Any, known: dict[int, int]) -> int:
    """About how long it is once its aliases are written out; one that holds itself is endless."""
    if isinstance(value, str):
        return len(value) + 1
    if not isinstance(value, dict | list):
        return 8
    if id(value) not in known:
        known[id(value)] = MOST_BYTES
        parts = (*value, *value.values()) if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_length(each, known) for each in parts)
    return known[id(value)]
