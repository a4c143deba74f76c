"""What the elector needs of the world, and what it says to the rest of its process."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from soloist.domain.holder_pod import HolderPod
from soloist.domain.lease import Answer, Clash, Raw
from soloist.domain.term import Term


class LeaseApi(Protocol):
    """One Lease on an API server; ``TransientError`` or ``PermanentError`` where there is no answer to be had in time."""

    def read(self, *, timeout: float) -> Answer: ...

    def create(self, body: Raw, *, timeout: float) -> Answer | Clash: ...

    def replace(self, body: Raw, *, timeout: float) -> Answer | Clash: ...

    def read_pod(self, pod_namespace: str, pod_name: str, *, timeout: float) -> Raw | None: ...


class Clocks(Protocol):
    """The wall clock, and CLOCK_BOOTTIME in seconds."""

    def now(self) -> datetime: ...

    def boottime(self) -> float: ...


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Called in the elector's thread, and waited for: keep them short. One that raises ends the term.

    ``renewed``: after each good renewal, the first included, before its term is handed on. ``elected``: once, after the
    first. ``lost``: once, with a sentence. ``released``: a stop is through and nothing is held. ``noticed``: a reason and a
    sentence for an Event. ``follow``: the Pod to be watched. ``needed_epochs``: those of runs that may be unfinished, None
    where that is not known; the ends of other terms are forgotten.
    """

    renewed: Callable[[Term], None] = _nothing
    elected: Callable[[Term], None] = _nothing
    lost: Callable[[str], None] = _nothing
    released: Callable[[], None] = _nothing
    noticed: Callable[[str, str], None] = _nothing
    follow: Callable[[HolderPod | None], None] = _nothing
    needed_epochs: Callable[[], Collection[int] | None] = _nothing
