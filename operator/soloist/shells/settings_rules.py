"""What several kinds of settings must hold against each other, each rule in one place.

A rule is whether it holds, and the sentence for the person who wrote what it does not allow. Each kind of settings adds its
own; all are asked once, when the settings are made, and the first that does not hold is raised.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Protocol

from soloist.domain.errors import ConfigError
from soloist.domain.term import Timing

Rule = tuple[bool, str]
LEAST_STALENESS = 30.0
"""Seconds: twice what passes between two looks at rows, and more than a watch of kopf's lasts. A watch of ours ends and is
made again within half of the limit, since a server says nothing for a minute where nothing changes."""


class Checked(ABC):
    """Settings that raise ConfigError where one of their ``rules`` does not hold."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for holds, sentence in self.rules():
            if not holds:
                raise ConfigError(sentence)

    @abstractmethod
    def rules(self) -> Iterable[Rule]: ...


class Timed(Checked):
    """Settings of whoever stands for a Lease."""

    __slots__ = ()

    @property
    @abstractmethod
    def lease_duration(self) -> float: ...
    @property
    @abstractmethod
    def lease_retry_period(self) -> float: ...
    @property
    @abstractmethod
    def lease_margin(self) -> float: ...

    def __post_init__(self) -> None:
        _ = self.timing
        super().__post_init__()

    @property
    def timing(self) -> Timing:
        """The lease's times, held against each other."""
        return Timing(lease=self.lease_duration, period=self.lease_retry_period, margin=self.lease_margin)


class _Launches(Protocol):
    @property
    def claim_ahead(self) -> float: ...
    @property
    def record_ahead(self) -> float: ...
    @property
    def relist(self) -> float: ...
    @property
    def staleness_limit(self) -> float: ...


def launching(s: _Launches) -> Iterator[Rule]:
    """Of whoever launches jobs."""
    yield (
        0 < s.record_ahead <= min(2.0, s.claim_ahead),
        f"record-ahead is {s.record_ahead} s: write more than 0, at most 2 and at most claim-ahead ({s.claim_ahead} s).",
    )
    yield s.claim_ahead <= 60, f"claim-ahead is {s.claim_ahead} s: write at most 60."
    yield s.relist > 0, f"relist is {s.relist} s: write more than 0."
    yield (
        s.staleness_limit >= LEAST_STALENESS,
        f"staleness-limit is {s.staleness_limit} s: write {LEAST_STALENESS:g} or more;"
        " where nothing changes, nothing is heard for half of that.",
    )
    yield (
        s.staleness_limit > s.relist,
        f"staleness-limit is {s.staleness_limit} s, not longer than relist ({s.relist} s):"
        " every pause between two lists would stop all launches; write more.",
    )


class _Serves(Protocol):
    @property
    def grace(self) -> float: ...
    @property
    def health_port(self) -> int: ...


def serving(s: _Serves) -> Iterator[Rule]:
    """Of every long-running command."""
    yield s.grace >= 0, f"grace is {s.grace} s: write 0 or more."
    yield 0 <= s.health_port <= 65535, f"health-port is {s.health_port}: write 0 to 65535."
