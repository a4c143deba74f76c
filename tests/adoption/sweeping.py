"""Three instances of the example sweeps on one road, what is done to them, and the books of what they did.

A road says who sweeps now and how whoever it is gets lost; the story is the same on both. Books are the lines that the instances
logged, the requests that the receiver of the webhooks saw, and what the API server has on record.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.adoption.backend_process import BackendProcess
from tests.adoption.valkey import command
from tests.api.slot_books import moment
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.cluster.proxy import TcpProxy

PERIOD = timedelta(seconds=2)
SWEEPS = ("expire", "remind")
CALL = 0.12
"""Seconds that the receiver takes for each webhook, so that a sweep can be lost in the middle of an item."""
PATIENCE = 240.0
LATER = datetime.max.replace(tzinfo=UTC)
Undo = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """One sweep of one slot, as the instance that began it logged it."""

    at: datetime
    sweep: str
    slot: datetime
    by: str


class Road(ABC):
    """The instances, by name, behind a wire of their own to the API server. Each fault returns what puts it right again."""

    name: str

    def __init__(self, wire: TcpProxy, instances: dict[str, BackendProcess]) -> None:
        self.wire, self.instances = wire, instances

    def passed(self) -> list[tuple[datetime, str]]:
        """When instances said that they do not sweep, and for what reason."""
        lines = [line for each in self.instances.values() for line in each.said('"passed":') if line.endswith("}")]
        said = [json.loads(line) for line in lines]
        return [(datetime.fromisoformat(each["at"]), each["passed"].split(":")[0]) for each in said]

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def terminated(self, instance: str) -> Undo: ...

    @abstractmethod
    def killed(self, instance: str) -> Undo: ...

    @abstractmethod
    def frozen(self, instance: str) -> Undo: ...

    def application_killed(self, instance: str) -> Undo:
        self.instances[instance].kill()
        return self.instances[instance].start

    @abstractmethod
    def note(self) -> None:
        """The latest reasons only are kept on record: those that are there now are written down."""

    @abstractmethod
    def without_reason(self, swept: dict[str, set[datetime]], faults: Sequence[datetime]) -> list[str]:
        """Slots that nobody swept and for which no reason is on record."""


@dataclass
class Story:
    """``steps`` of the page were done, and at its end the reader ``looked`` at this. What is to be swept is in ``redis``.

    ``hard`` are the moments at which somebody was killed or frozen, or went on; ``faults`` are all of them."""

    road: Road
    receiver: Backend
    redis: str
    fed: list[str] = field(default_factory=list)
    faults: list[datetime] = field(default_factory=list)
    hard: list[datetime] = field(default_factory=list)
    gone: datetime = LATER
    back: datetime = LATER
    without_reason: list[str] = field(default_factory=list)
    noted: float = 0.0
    steps: list[int] = field(default_factory=list)
    looked: str = ""

    def run(self, outage: float) -> None:
        road = self.road
        self.receiver.rule(f"/{road.name}/", delay=CALL)
        self.wait_for(2)
        self.lose(road.terminated, hard=False)
        self.lose(road.killed)
        self.lose(road.frozen)
        self.lose(road.application_killed)
        self.away(outage)
        self._until(lambda: self._slots() >= 20, "20 slots of each sweep")
        self._until(lambda: not any(map(self._left, SWEEPS)), "nothing is left to sweep")
        road.note()
        swept = {sweep: {each.slot for each in self.began() if each.sweep == sweep} for sweep in SWEEPS}
        self.without_reason = road.without_reason(swept, self.faults)

    def lose(self, fault: Callable[[str], Callable[[], None]], *, hard: bool = True) -> None:
        """Whoever sweeps is lost in the middle of it; the others go on; then it is put right."""
        instance = self.under_way()
        self._now(hard)
        put_right = fault(instance)
        self.wait_for(2, without=instance)
        self._now(hard)
        put_right()

    def away(self, outage: float) -> None:
        """The API server is, for so many seconds."""
        self.under_way()
        self._now(hard=False)
        self.gone = self.faults[-1]
        self.road.wire.refuse()
        self.road.wire.cut()
        self._until(lambda: datetime.now(UTC) > self.gone + timedelta(seconds=outage), "it was away")
        self.road.wire.forward()
        self._now(hard=False)
        self.back = self.faults[-1]
        self.wait_for(2)

    def under_way(self) -> str:
        """Feed some items; the instance that sends the next webhook has it in hand when this returns."""
        before = len(self.webhooks("expire"))
        for _ in range(8):
            self.feed()
        self._until(lambda: len(self.webhooks("expire")) > before, "it sweeps")
        return str(json.loads(self.webhooks("expire")[-1].body)["by"])

    def feed(self) -> None:
        item = f"g{len(self.fed)}"
        due = int(datetime.now(UTC).timestamp() * 1000)
        for sweep in SWEEPS:
            command(self.redis, "ZADD", f"{{{sweep}}}:due", str(due), item)
        self.fed.append(item)

    def wait_for(self, more: int, *, without: str = "") -> None:
        """So many slots more of each sweep, by others than ``without``."""
        now = datetime.now(UTC)

        def enough() -> bool:
            new = [each.sweep for each in self.began() if each.at > now and each.by != without]
            return all(new.count(sweep) >= more for sweep in SWEEPS)

        self._until(enough, f"{more} slots more, without {without or 'loss'}")

    def began(self) -> list[Began]:
        """In the order of their slots."""
        found = []
        for name, instance in self.road.instances.items():
            for line in instance.said('"event":"began"'):
                if line.endswith("}"):
                    said = json.loads(line)
                    at, slot = datetime.fromisoformat(said["at"]), moment(said["slot"])
                    found.append(Began(at=at, sweep=said["sweep"], slot=slot, by=name))
        return sorted(found, key=lambda each: each.slot)

    def passed(self) -> set[str]:
        """The reasons for which instances did not sweep, as they logged them."""
        return {reason for _, reason in self.road.passed()}

    def webhooks(self, sweep: str) -> list[Received]:
        return self.receiver.received(f"/{self.road.name}/{sweep}")

    def _until(self, probe: Callable[[], bool], what: str) -> None:
        """Meanwhile reasons are written down every two seconds."""

        def noting() -> bool:
            if time.monotonic() > self.noted + 2:
                self.noted = time.monotonic()
                self.road.note()
            return probe()

        until(noting, what=f"{self.road.name}: {what}", timeout=PATIENCE)

    def _left(self, sweep: str) -> int:
        return int(command(self.redis, "ZCARD", f"{{{sweep}}}:due"))

    def _slots(self) -> int:
        return min(len({each.slot for each in self.began() if each.sweep == sweep}) for sweep in SWEEPS)

    def _now(self, hard: bool) -> None:
        self.faults.append(datetime.now(UTC))
        if hard:
            self.hard.append(self.faults[-1])
