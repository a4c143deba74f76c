"""Which ScheduledJobs are to be in effect, by what files say now and what is in effect already.

A change that cannot be used changes nothing, as an API server's refusal would: its job goes on as it last was, and the
reason stands on the job, in an annotation. A job of a file that cannot be read at all stays as well, which is why each job
carries the name of its file. The outcome is a function of files and store alone, so two processes with the same files make
the same of them. One that was never good is put in as it is: the rules then say ``Valid=False`` and why. One with a field
that nobody reads could be run, but not as it was meant, so it is not put in at all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from soloist.domain.places import Refused, fits
from soloist.domain.spec import Invalid, parse_spec
from soloist.domain.unread import unread

FILE, REFUSED = "soloist.dev/file", "soloist.dev/refused"
GOES_ON = "What was in effect before goes on."
KIND = "ScheduledJob"
Raw = dict[str, Any]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A job as a file has it; ``file`` is the last part of its path, the same on every host."""

    raw: Mapping[str, Any]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``objects`` are all that there are to be; ``refused`` says, in sentences, what was not taken from the files."""

    objects: Sequence[Raw]
    refused: Sequence[str]


def plan(
    jobs: Iterable[Written],
    problems: Mapping[str, str],
    stored: Iterable[Raw],
    refused: Refused,
    lacking: Sequence[str] = (),
) -> Plan:
    """``problems``: of files that cannot be read, by the last part of their path; ``refused``: actions that are not for here.

    ``lacking``: of folders of which nobody can say what they hold; while there is one, nothing is removed.
    """
    before = {_place(raw): raw for raw in stored}
    objects: dict[tuple[str, str], Raw] = {}
    sentences = list(dict.fromkeys([*problems.values(), *lacking]))
    for job in jobs:
        place = _place(job.raw)
        wrong = next((f"{job.file}: {part!r} is no name: write a-z, 0-9, '-' and '.'." for part in place if not _NAME.fullmatch(part)), "")  # fmt: skip
        if wrong:
            sentences.append(wrong)
            continue
        known, spec = before.get(place), fits(_spec(job.raw), refused)
        mistake = spec if isinstance(spec, Invalid) else unread(job.raw["spec"], parse_spec)
        if mistake is not None:
            sentence = f"{job.file}: {'/'.join(place)}: {mistake.message}"
            sentences.append(sentence)
            if known is not None and not isinstance(fits(_spec(known), refused), Invalid):
                objects[place] = _stored(known, job.file, f"{sentence} {GOES_ON}")
                continue
            if not isinstance(spec, Invalid):
                continue
        own, labels = _texts(job.raw, "annotations"), _texts(job.raw, "labels")
        objects[place] = _object(job.raw, job.file, problems.get(job.file, ""), own=own, labels=labels)
    for place, raw in before.items():
        file = _texts(raw, "annotations").get(FILE, "")
        if place not in objects and (file in problems or lacking):
            objects[place] = _stored(raw, file, problems.get(file) or lacking[0])
    return Plan(objects=list(objects.values()), refused=sentences)


def _spec(raw: Mapping[str, Any]) -> Any:
    spec = raw.get("spec")
    return parse_spec(spec if isinstance(spec, Mapping) else {})


def _place(raw: Mapping[str, Any]) -> tuple[str, str]:
    metadata = raw["metadata"]
    return str(metadata.get("namespace") or "default"), str(metadata["name"])


def _texts(raw: Mapping[str, Any], named: str) -> Mapping[str, str]:
    """Labels or annotations; a number among them is text."""
    found = raw["metadata"].get(named)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def _stored(raw: Mapping[str, Any], file: str, refused: str) -> Raw:
    """What was written on the stored object is a person's, and stays without being named here."""
    return _object(raw, file, refused, own={}, labels={})


def _object(
    raw: Mapping[str, Any], file: str, refused: str, *, own: Mapping[str, str], labels: Mapping[str, str]
) -> Raw:
    namespace, name = _place(raw)
    annotations = {**own, FILE: file} | ({REFUSED: refused} if refused else {})
    spec = raw.get("spec")
    return {
        "kind": KIND,
        "metadata": {"namespace": namespace, "name": name, "labels": dict(labels), "annotations": annotations},
        "spec": spec if isinstance(spec, Mapping) else {},
    }
