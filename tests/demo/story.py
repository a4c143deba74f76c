"""What happens in the demonstration, in order, and how long each hand-over of the Lease took."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any

from tests.api.crew import Controller, Crew
from tests.cluster.backend import Backend
from tests.cluster.children import until
from tests.cluster.free_ports import free_ports
from tests.demo.books import Page, page, settled

JOBS: dict[str, dict[str, Any]] = {
    "every-second": {"schedule": "@every 1s", "missedRunPolicy": "RunAll", "maxMissedRuns": 100, "timeoutSeconds": 2},
    "every-2-seconds": {"schedule": "@every 2s", "timeoutSeconds": 2},
    "every-3-seconds": {"schedule": "@every 3s", "missedRunPolicy": "Skip", "timeoutSeconds": 2},
    "slow-handler": {"schedule": "@every 2s", "timeoutSeconds": 5},
}
CONTROLLERS = ("controller-a", "controller-b")
SLOW_SECONDS = 3
PLAIN_SECONDS = 7.0
LAST_SECONDS = 4.0
SOON = 180.0
"""Seconds, on a machine that is slow or has much else to do."""


@dataclass(frozen=True, kw_only=True)
class HandOver:
    """From what was done to the leader until the other one had the Lease."""

    what: str
    before: str
    after: str
    seconds: float


@dataclass(kw_only=True)
class Story:
    """``say`` prints one line of progress."""

    crew: Crew
    backend: Backend
    say: Callable[[str], None]
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(CONTROLLERS, free_ports(2), strict=True)))
    hand_overs: list[HandOver] = field(default_factory=list)

    def begin(self) -> None:
        self.backend.rule("/slow-handler", delay=SLOW_SECONDS)
        kept = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100}
        for name, spec in JOBS.items():
            self.crew.job(name, **spec, **kept, http={"url": self.backend.url(f"/{name}")})
        self.say(f"{len(JOBS)} ScheduledJobs, every 1 to 3 s; starting two controllers")
        for name in self.ports:
            self.start(name)
        leader = self.crew.leader(timeout=SOON)
        self.say(f"{leader.name} leads")
        self.requests(PLAIN_SECONDS)

    def start(self, name: str) -> None:
        """Returns when /readyz says yes: a standby that has not even started cannot take over."""
        port = self.ports[name]
        member = self.crew.start(name, SOLOIST_HEALTH_ADDRESS="127.0.0.1", SOLOIST_HEALTH_PORT=str(port))
        until(lambda: _ready(port), what=f"{name} is ready", timeout=SOON, needs=[member.process])

    def requests(self, seconds: float) -> None:
        """Let some ticks come due, and show that they arrive."""
        before = len(self.backend.received())
        time.sleep(seconds)
        self.say(f"{len(self.backend.received()) - before} requests received in {seconds:.0f} s")

    def kill(self) -> None:
        """SIGKILL to parent and child at once: nobody is left to give the Lease back, so it has to run out."""
        leader = self.crew.leader(timeout=SOON)
        self.say(f"SIGKILL to {leader.name}, parent and child: nothing tells the other one, so the Lease must run out")
        self.hand_over("SIGKILL to parent and child", leader, leader.kill_both)
        self.start(leader.name)
        self.say(f"{leader.name} is started again, as the kubelet would, and stands by")

    def end_one(self) -> None:
        """SIGTERM, as at every rollout: what runs is ended, then the Lease is given back."""
        leader = self.crew.leader(timeout=SOON)
        self.say(f"SIGTERM to {leader.name}: it ends what it has going, then gives the Lease back")
        self.hand_over("SIGTERM", leader, leader.terminate)

    def hand_over(self, what: str, leader: Controller, act: Callable[[], None]) -> None:
        began = time.monotonic()
        act()
        successor = self.crew.leader(other_than=leader.name, timeout=SOON)
        took = time.monotonic() - began
        self.hand_overs.append(HandOver(what=what, before=leader.name, after=successor.name, seconds=took))
        self.say(f"{successor.name} leads, {took:.1f} s later")

    def end(self) -> list[Page]:
        """Wait until all that was due is settled, then draw up the books."""
        self.requests(LAST_SECONDS)
        last = datetime.now(UTC) - timedelta(seconds=1)
        for name in JOBS:
            self.crew.wait(
                lambda name=name: settled(self.job(name), self.crew.runs(name), last),
                what=f"all ticks of {name} up to {last:%H:%M:%S} are settled",
                timeout=SOON,
            )
        self.say("all that was due is settled")
        return [page(self.job(name), self.crew.runs(name), self.backend.received(f"/{name}"), last) for name in JOBS]

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.crew.cluster.api().get(self.crew.namespace.ours("scheduledjobs", name))
        return found


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False
