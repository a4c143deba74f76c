"""The metrics of a sidecar, by name. Leases are few and named at its start, so they may be labels; timers may not."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector


class ElectMetrics:
    """The methods are what happens."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        self._holds = Gauge(
            "soloist_elect_holds", "1 while this replica holds the Lease and may use it.", ["lease"], registry=registry
        )
        self._epoch = Gauge(
            "soloist_elect_epoch", "Epoch (fence) of the term that is held; 0: none.", ["lease"], registry=registry
        )
        self._asked = Counter(
            "soloist_elect_slots",
            "What applications asked for, by what came of it: Granted, or the reason why not.",
            ["lease", "result"],
            registry=registry,
        )
        self._well = Gauge(
            "soloist_elect_application_well", "1 while the application is well, or is not looked at.", registry=registry
        )
        self.well(True)

    def follow(self, lease: str, epoch: Callable[[], int]) -> None:
        """``epoch`` is asked at each scrape; 0 where the Lease is not held."""
        self._holds.labels(lease).set_function(lambda: float(epoch() > 0))
        self._epoch.labels(lease).set_function(lambda: float(epoch()))

    def asked(self, lease: str, result: str) -> None:
        self._asked.labels(lease, result).inc()

    def well(self, well: bool) -> None:
        self._well.set(1 if well else 0)
