"""What a claim needs to know of its queue, beside the table that its rows are in."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from soloist.domain.queue_spec import AfterCrash, OnDead, QueueSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """``name`` is the queue's; ``worker`` is for people who look at the table, and no rule reads it."""

    name: str
    worker: str
    lease: timedelta = timedelta(seconds=60)
    hold: bool = False
    max_reclaims: int = 5
    on_dead: OnDead | None = None
    poll: timedelta = timedelta(milliseconds=250)

    @classmethod
    def of(cls, name: str, spec: QueueSpec, *, worker: str) -> Self:
        """As the spec has them."""
        return cls(
            name=name,
            worker=worker,
            lease=spec.lease,
            hold=spec.after_crash is AfterCrash.HOLD,
            max_reclaims=spec.max_reclaims,
            on_dead=spec.on_dead,
            poll=spec.poll.most,
        )
