"""Which WorkQueues of files are to be worked, by what the files say now and what was last good in them.

A change that cannot be used changes nothing, as an API server's refusal would: its queue goes on as it last was, and the
reason stands on it, in an annotation. A field that nobody reads is such a mistake: by the default in place of what was meant,
rows that are to be parked would be sent again. A queue that was never good is not worked, and stops no other. What was good
is this process's own memory, since each works the queues of its own files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from soloist.domain.manifest_plan import GOES_ON, REFUSED, Raw, Written
from soloist.domain.one_each import one_each
from soloist.domain.queue_name import FoundQueues, QueueName, name_of, queues_in
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.spec_fields import Invalid
from soloist.domain.unread import UNKNOWN, unread


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """``objects`` are for people to read; ``good`` is what the next plan goes back to; ``refused`` are sentences."""

    found: FoundQueues = field(default_factory=FoundQueues)
    objects: tuple[Raw, ...] = ()
    good: Mapping[QueueName, Mapping[str, Any]] = field(default_factory=dict)
    refused: Mapping[QueueName, str] = field(default_factory=dict)

    @property
    def kept(self) -> Mapping[QueueName, str]:
        """Of each queue that goes on as it was before: why."""
        return {name: sentence for name, sentence in self.refused.items() if name in self.good}


def plan_queues(queues: Iterable[Written], problems: Mapping[str, str], before: QueuePlan) -> QueuePlan:
    """``problems``: of files that cannot be read, by the last part of their path."""
    good: dict[QueueName, Mapping[str, Any]] = {}
    never: dict[QueueName, Invalid] = {}
    refused: dict[QueueName, str] = {}
    objects: list[Raw] = []
    for each in queues:
        name, wrong = name_of(each.raw["metadata"]), _mistake(each.raw)
        raw, told = each.raw, problems.get(each.file, "")
        if wrong is not None:
            refused[name] = f"{each.file}: {name}: {wrong.message}"
            if name not in before.good:
                never[name] = wrong
                # As it is it would seem to be one that can be worked.
                objects += [] if wrong.reason == UNKNOWN else [dict(raw)]
                continue
            raw, told = before.good[name], f"{refused[name]} {GOES_ON}"
        good[name] = raw
        objects.append(_told(raw, told) if told else dict(raw))
    found = one_each(good.values(), queues_in(good.values()))
    found = replace(found, invalid={**found.invalid, **never})
    return QueuePlan(found=found, objects=tuple(objects), good=good, refused=refused)


def _mistake(raw: Mapping[str, Any]) -> Invalid | None:
    spec = raw.get("spec") or {}
    parsed = parse_queue(spec)
    return parsed if isinstance(parsed, Invalid) else unread(spec, parse_queue)


def _told(raw: Mapping[str, Any], sentence: str) -> Raw:
    metadata = raw["metadata"]
    own = metadata.get("annotations")
    annotations = {**(own if isinstance(own, Mapping) else {}), REFUSED: sentence}
    return {**raw, "metadata": {**metadata, "annotations": annotations}}
