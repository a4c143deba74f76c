"""Counts requests where they cannot be hidden: at the API server, from its own `apiserver_request_total`.

The counters begin again at zero when the API server restarts. Take a snapshot before and one after, and subtract.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    verb: str
    group: str
    resource: str
    subresource: str
    code: str


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """How many requests the API server has answered, by kind."""

    by_kind: Counter[Counted]

    def __sub__(self, earlier: RequestCounts) -> RequestCounts:
        return RequestCounts(self.by_kind - earlier.by_kind)

    def total(
        self,
        verb: str | tuple[str, ...] | None = None,
        resource: str | None = None,
        subresource: str | None = None,
        *,
        group: str | None = None,
        code: str | None = None,
    ) -> int:
        """`subresource=""` is the object itself, None is any. Verbs are POST, PUT, PATCH, APPLY, DELETE, GET, LIST, WATCH."""
        verbs = (verb,) if isinstance(verb, str) else verb
        return sum(
            count
            for kind, count in self.by_kind.items()
            if (verbs is None or kind.verb in verbs)
            and resource in (None, kind.resource)
            and subresource in (None, kind.subresource)
            and group in (None, kind.group)
            and code in (None, kind.code)
        )


def read_counts(metrics: str) -> RequestCounts:
    counted: Counter[Counted] = Counter()
    for sample in SAMPLE.finditer(metrics):
        labels = dict(LABEL.findall(sample["labels"]))
        kind = Counted(**{name: labels.get(name, "") for name in ("verb", "group", "resource", "subresource", "code")})
        counted[kind] += int(float(sample["value"]))
    return RequestCounts(counted)
