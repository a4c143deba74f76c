"""What became of each queued row: from what the receiver got, and from what the database has accepted. Nobody is asked."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.cluster.backend import Received


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The books of one queue. ``again``: rows that were sent more than once, after their worker had been killed."""

    queue: str
    queued: int
    delivered: int
    accepted_twice: int
    again: int
    other_key: int
    lost: int

    def breaches(self) -> list[str]:
        kinds = {
            "rows accepted twice": self.accepted_twice,
            "rows sent again under another key": self.other_key,
            "rows neither delivered nor left in the queue": self.lost,
        }
        return [f"{self.queue}: {what}: {count}" for what, count in kinds.items() if count]


def rows_of(queue: str, queued: int, received: Iterable[Received], *, accepted: list[int], left: int) -> Rows:
    """``accepted``: the id of a row for each outcome that was accepted; payloads are ``{"n": 0}`` and so on."""
    requests: dict[int, list[str]] = defaultdict(list)
    for each in received:
        requests[json.loads(each.body)["n"]].append(each.header("Idempotency-Key") or "")
    delivered = len(set(accepted))
    return Rows(
        queue=queue,
        queued=queued,
        delivered=delivered,
        accepted_twice=len(accepted) - delivered,
        again=sum(len(keys) > 1 for keys in requests.values()),
        other_key=sum(len(set(keys)) > 1 for keys in requests.values()),
        lost=queued - delivered - left,
    )
