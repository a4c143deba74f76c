"""What works queues, wired: the parts of a worker that are the same wherever its queues come from."""

import random
from contextlib import AsyncExitStack
from typing import Protocol

from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.deliver import World
from soloist.adapters.http.endpoints import Endpoints
from soloist.adapters.http.exchanges import Exchanges
from soloist.adapters.http.trust import TrustStore
from soloist.adapters.sealed import ReadKey
from soloist.domain.addresses import AddressRules
from soloist.domain.public_addresses import rules_for_data
from soloist.domain.queue_name import FoundQueues, QueueName
from soloist.loops.queues import Queues
from soloist.shells.own_pod import pod_name
from soloist.shells.parsing import Network
from soloist.shells.queue_opener import Opener, ReadUrl
from soloist.shells.queue_telemetry import QueueMetrics, QueueReporter

HUNG = 30.0
"""Seconds without a turn of a claim loop after which the process is unwell; or a lease, if that is longer."""

UNLISTED = "the first list is not through"
MOST_TOLD = 20
"""Queues of which /readyz says what is in their way."""


class Deliveries(Protocol):
    """What settings say of where rows may be delivered to."""

    @property
    def http_allow(self) -> tuple[Network, ...]: ...
    @property
    def http_deny(self) -> tuple[Network, ...]: ...
    @property
    def data_allow(self) -> tuple[Network, ...]: ...
    @property
    def data_deny(self) -> tuple[Network, ...]: ...


class QueueWork:
    """All queues of a process. ``follow`` is told of them; ``close`` drains them."""

    def __init__(
        self,
        settings: Deliveries,
        clock: SystemClock,
        stack: AsyncExitStack,
        registry: CollectorRegistry,
        *,
        read_key: ReadKey,
        read_url: ReadUrl,
    ) -> None:
        self._clock, self._found = clock, False
        self._report = QueueReporter(QueueMetrics(registry), self._running)
        exchanges = Exchanges(
            for_specs=AddressRules(allowed=settings.http_allow, denied=settings.http_deny),
            for_data=rules_for_data(allowed=settings.data_allow, denied=settings.data_deny),
        )
        stack.push_async_callback(exchanges.close)
        world = World(
            endpoints=Endpoints(boottime=clock.boottime),
            read_key=read_key,
            trust=TrustStore(),
            now=clock.now,
            drawn=random.random,
        )
        opener = Opener(
            read_url=read_url,
            world=world,
            exchanges=exchanges,
            clock=clock,
            worker=pod_name(),
            report=self._report,
        )
        self._queues = Queues(opener, clock=clock, report=self._report, drawn=random.random)

    async def close(self, grace: float) -> None:
        """Drain all within ``grace`` seconds; nothing starts any more."""
        await self._queues.close(grace)

    def follow(self, found: FoundQueues) -> None:
        """These are all queues there are."""
        self._found = True
        self._report.unusable(dict(found.invalid))
        self._queues.follow(found.valid)

    def worked(self) -> int:
        """How many queues are worked now, or are being opened."""
        return len(self._queues.units)

    def in_hand(self) -> int:
        """Claims of all queues whose outcome is not written yet."""
        return sum(unit.in_hand for unit in self._queues.units.values())

    def loops_turn(self) -> tuple[bool, str]:
        """For /healthz."""
        now = self._clock.boottime()
        silent = {name: now - unit.progressed for name, unit in self._queues.units.items()}
        limits = {name: max(HUNG, unit.spec.lease.total_seconds()) for name, unit in self._queues.units.items()}
        hung = [f"{name} for {silent[name]:.0f} s" for name in silent if silent[name] > limits[name]]
        return not hung, f"these have not gone round: {', '.join(hung)}" if hung else f"{len(silent)} queues go round"

    def are_known(self) -> tuple[bool, str]:
        """For /readyz of a process that has more to do than queues; it says of each that cannot be worked why."""
        if not self._found:
            return False, UNLISTED
        if not self.worked():
            return True, "there are no queues to work"
        troubles = self._troubles()
        worked = f"{self.worked() - len(troubles)} of {self.worked()} queues are worked"
        more = [f"and {len(troubles) - MOST_TOLD} more"] if len(troubles) > MOST_TOLD else []
        return True, "; ".join([worked, *troubles[:MOST_TOLD], *more])

    def can_work(self) -> tuple[bool, str]:
        """For /readyz of a process that has nothing else to do: of the queues that there are it must be able to work one."""
        known, sentence = self.are_known()
        return known and (not self.worked() or len(self._troubles()) < self.worked()), sentence

    def _troubles(self) -> list[str]:
        units = sorted(self._queues.units.items(), key=lambda each: str(each[0]))
        return [f"{name}: {unit.trouble}" for name, unit in units if unit.trouble]

    def _running(self, name: QueueName) -> int:
        unit = self._queues.units.get(name)
        return unit.running if unit is not None else 0
