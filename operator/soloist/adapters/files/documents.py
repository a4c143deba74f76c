"""The documents of one YAML file that are ours, by kind, namespace and name, in the form in which the API server has them.

A file is taken whole or not at all: half of an editor's save is no manifest. What is said of one that is refused repeats
none of its lines, since a Secret may stand there.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from soloist.domain.errors import ConfigError

QUEUES_AND_KEYS = frozenset({"WorkQueue", "Secret", "ConfigMap"})
JOBS_TOO = QUEUES_AND_KEYS | {"ScheduledJob"}
Place = tuple[str, str, str]
"""Kind, namespace and name."""


class _Loader(yaml.SafeLoader):
    """A date is text, as it is to kubectl."""

    yaml_implicit_resolvers = {
        letter: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
        for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_file(file: Path, kinds: Collection[str]) -> Mapping[Place, dict[str, Any]]:
    """All of those kinds in it. Raises ConfigError with a sentence."""
    found: dict[Place, dict[str, Any]] = {}
    for each in _documents(file, kinds):
        place = _place(file, each)
        if place in found:
            raise ConfigError(f"{file}: {place[0]} {place[1]}/{place[2]} is there twice: rename or remove one.")
        found[place] = each
    return found


def _documents(file: Path, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """What is of another kind is somebody else's."""
    try:
        text = file.read_text(encoding="utf-8")
        documents = [_as_json(each) for each in yaml.load_all(text, Loader=_Loader)]
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        where = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) is not None else ""
        raise ConfigError(f"{file}{where}: this cannot be read as YAML: mend it.") from error
    for each in documents:
        kept = each.get("items", []) if isinstance(each, dict) and each.get("kind") == "List" else [each]
        yield from (one for one in kept if isinstance(one, dict) and one.get("kind") in kinds)


def _place(file: Path, document: dict[str, Any]) -> Place:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ConfigError(f"{file}: a {document['kind']} has no metadata.name: give it one.")
    return document["kind"], str(metadata.get("namespace") or "default"), metadata["name"]


def _as_json(document: Any) -> Any:
    """As it is after kubectl has turned it into JSON; raises where it has no such form, or none that a database keeps."""
    text = json.dumps(document, allow_nan=False)
    if r"\u0000" in text:
        raise ValueError("a zero byte")
    return json.loads(text)
