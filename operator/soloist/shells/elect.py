"""``soloist elect``: who leads, and slots, for the timers of an application that runs beside it. Wiring and nothing else.

A sidecar in each replica's Pod, which is to outlive the application at shutdown. SIGTERM ends the command in good time and
gives back whatever is held. What it answers is in ``elect_api``, what it holds in ``seat`` and ``bid``.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from soloist.adapters.clock import SystemClock
from soloist.shells.application import STARTING, Application
from soloist.shells.child import Beat, ExitCode
from soloist.shells.elect_api import ElectApi
from soloist.shells.elect_settings import ElectSettings
from soloist.shells.elect_telemetry import ElectMetrics
from soloist.shells.garbage import collect
from soloist.shells.health import Check, health_server
from soloist.shells.own_pod import pod_name
from soloist.shells.seat import Seat
from soloist.shells.stand import Ground, kube_ground, row_ground
from soloist.shells.telemetry import start_logging
from soloist.shells.variables import warn

_log = logging.getLogger("soloist.elect")

Grounds = Callable[[str], Ground]


def run(settings: ElectSettings, command: Sequence[str]) -> int:
    """Until SIGTERM; the exit code."""
    start_logging(settings.log_level, settings.log_format)
    warn(os.environ, _log)
    collect()
    return asyncio.run(Sidecar(settings, command).main())


class Sidecar:
    """All the parts of one process."""

    def __init__(self, settings: ElectSettings, command: Sequence[str]) -> None:
        self._settings, self._command = settings, command
        self._clock = SystemClock()
        self._metrics = ElectMetrics(CollectorRegistry())
        self._stopping = asyncio.Event()

    async def main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        seats = self._seats()
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(
                ElectApi(seats, self._clock, self._metrics).serve(self._settings.api_port)
            )
            health_port = await stack.enter_async_context(
                health_server(
                    address=self._settings.health_address,
                    port=self._settings.health_port,
                    alive={name: seat.lives for name, seat in seats.items()},
                    ready={name: self._read_lately(seat) for name, seat in seats.items()},
                    registry=self._metrics.registry,
                )
            )
            _log.info("started", extra={"port": port, "health_port": health_port, "replica": pod_name()})
            tasks = [loop.create_task(seat.run()) for seat in seats.values()]
            if self._settings.health:
                tasks.append(loop.create_task(self._application(seats).run()))
            for task in tasks:
                task.add_done_callback(self._ended)
            await self._stopping.wait()
            _log.info("going away")
            await asyncio.gather(*(seat.close("this sidecar is going away") for seat in seats.values()))
            for task in tasks:
                task.cancel()
        return ExitCode.DONE

    def _seats(self) -> dict[str, Seat]:
        settings, beat, ground = self._settings, Beat.inherited(), self._grounds()
        seats = {
            name: Seat(
                ground(name),
                self._clock,
                beat=beat,
                command=self._command,
                grace=settings.grace,
                away=STARTING if settings.health else "",
            )
            for name in settings.leases
        }
        for name, seat in seats.items():
            self._metrics.follow(name, lambda seat=seat: term.epoch if (term := seat.view().term) is not None else 0)  # type: ignore[misc]
        return seats

    def _grounds(self) -> Grounds:
        settings = self._settings
        if settings.database:
            return lambda name: row_ground(
                settings.database, namespace=settings.lease_namespace, name=name, timing=settings.timing
            )
        from soloist.adapters.kube.config import Access

        access = Access.found(settings.kubeconfig or None, settings.context or None)
        return lambda name: kube_ground(access, namespace=settings.lease_namespace, name=name, timing=settings.timing)

    def _application(self, seats: dict[str, Seat]) -> Application:
        settings = self._settings

        def changed(unwell: str) -> None:
            self._metrics.well(not unwell)
            for seat in seats.values():
                seat.hold_back(unwell)

        self._metrics.well(False)
        return Application(
            settings.health, period=settings.health_period, failures=settings.health_failures, changed=changed
        )

    def _read_lately(self, seat: Seat) -> Check:
        limit = 2 * self._settings.lease_duration

        def check() -> tuple[bool, str]:
            view = seat.view()
            if view.away:
                return True, view.away
            if view.refused:
                return False, view.refused
            known = view.age < limit
            return known, f"read {view.age:.0f} s ago" if known else view.notice or "not read yet"

        return check

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Nothing that runs for ever may end by itself."""
        if not self._stopping.is_set() and not task.cancelled():
            _log.error("a loop ended; this process ends", exc_info=task.exception())
            logging.shutdown()
            os._exit(ExitCode.FAILED)
