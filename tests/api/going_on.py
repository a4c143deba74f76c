"""What is asked of a crew during and after a fault: that it says so, that it goes on, that the books are right, that it is at rest."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time
from tests.api.crew import Crew, audit
from tests.api.reasons import due_ticks, moment
from tests.api.tending import now
from tests.cluster.backend import Backend, Received
from tests.cluster.fixtures import Namespace

Raw = dict[str, Any]
SOON = 90.0


def let_pass(seconds: float) -> None:
    """What goes on lasts so long, a fault or a leadership: nothing is waited for."""
    time.sleep(seconds)


def tick(seen: Received) -> datetime:
    found = parse_time(seen.header("Soloist-Scheduled-Time"))
    assert found is not None
    return found


def fence(seen: Received) -> int:
    return int(seen.header("Soloist-Fence") or 0)


def epoch(crew: Crew) -> int:
    return int((crew.lease() or {}).get("metadata", {}).get("annotations", {}).get("soloist.dev/epoch", 0))


def goes_on(backend: Backend, path: str, count: int = 2, *, timeout: float = SOON, by: int = 0, after: int = 0) -> None:
    """So many more requests arrive from now on; ``by`` the term of that epoch, or by any ``after`` that, if given."""
    before = {seen.number for seen in backend.received(path)}

    def new(seen: Received) -> bool:
        return (
            seen.path == path
            and seen.number not in before
            and by in (0, fence(seen))
            and (not after or fence(seen) > after)
        )

    backend.wait(count, path=path, timeout=timeout, when=new)


def check(crew: Crew, backend: Backend, job: str, path: str) -> None:
    """The books, once all that is due by now is decided."""
    by = now()

    def caught_up() -> bool:
        watermark = parse_time(crew.status(job).get("watermark"))
        return watermark is not None and watermark > by - timedelta(seconds=1)

    crew.wait(caught_up, what=f"{job} has caught up", timeout=SOON)
    audit(crew, backend, job, path=path)


def decided_ticks(crew: Crew, job: str) -> list[datetime]:
    """The ticks of the schedule as it was last observed, from since to the watermark, once each that is due by now is decided."""
    by = now()

    def found() -> Raw | None:
        status = crew.status(job)
        return status if status.get("watermark") and all(at <= moment(status["watermark"]) for at in due_ticks(status, by)) else None  # fmt: skip

    status = crew.wait(found, what=f"the ticks of {job} are decided", timeout=SOON)
    return due_ticks(status, moment(status["watermark"]))


def at_rest(crew: Crew, job: str) -> Raw | None:
    """The status of a job that was suspended, once that is seen, all is accounted for and it stays as it is for a second."""
    status = crew.status(job)
    if status.get("active") or not status["observedSchedule"]["suspend"]:
        return None
    let_pass(1.0)
    return status if crew.status(job) == status else None


def told(namespace: Namespace, reason: str) -> Raw | None:
    """The first Event there with that reason."""
    events = namespace.api.items(namespace.path("events", group="events.k8s.io"))
    return next((event for event in events if event["reason"] == reason), None)
