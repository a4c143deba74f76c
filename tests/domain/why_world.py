"""Objects as the API server would give them, for tests of what people are told. All of it happens on 15 October 2026."""

from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.instants import stamp
from soloist.domain.lease import LeaseRecord
from soloist.domain.lease import parse as parse_lease
from soloist.domain.names import run_name
from soloist.domain.parsing import parse_job
from soloist.domain.runs import Job
from soloist.domain.why import Facts, Seen

DAY = datetime(2026, 10, 15, tzinfo=UTC)
EPOCH = 1_792_000_000_000_000


def at(clock: str, *, day: int = 0) -> datetime:
    """at("02:00"), at("02:00:05", day=-1)."""
    parts = [int(part) for part in clock.split(":")]
    return DAY + timedelta(days=day, hours=parts[0], minutes=parts[1], seconds=parts[2] if len(parts) > 2 else 0)


def raw_job(
    name: str = "report",
    *,
    spec: dict[str, Any] | None = None,
    since: datetime | None = None,
    watermark: datetime | None = None,
    generation: int = 3,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    looked_at: bool = True,
    **status: Any,
) -> dict[str, Any]:
    """Hourly, Forbid, created on the first of the month; ``since`` is when its schedule was last changed."""
    whole = {"schedule": "0 * * * *", "http": {"url": "http://backend/run"}, **(spec or {})}
    seen = {
        "schedule": whole["schedule"],
        "timeZone": whole.get("timeZone", "UTC"),
        "daylightSaving": whole.get("daylightSaving", "Shift"),
        "suspend": whole.get("suspend", False),
        "since": stamp(since or datetime(2026, 10, 1, tzinfo=UTC)),
    }
    if looked_at:
        status = {"observedGeneration": generation, "observedSchedule": seen, **status}
    if watermark is not None:
        status["watermark"] = stamp(watermark)
    metadata: dict[str, Any] = {
        "namespace": "billing",
        "name": name,
        "uid": f"uid-of-{name}",
        "generation": generation,
        "resourceVersion": "7",
        "creationTimestamp": "2026-10-01T00:00:00Z",
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = stamp(DAY)
    return {"metadata": metadata, "spec": whole, "status": status}


def job(name: str = "report", **more: Any) -> Job:
    return parse_job(raw_job(name, **more))


def raw_run(
    tick: datetime | None, phase: str | None = None, *, of: str = "report", created: datetime | None = None, **status: Any
) -> dict[str, Any]:  # fmt: skip
    """A run of the schedule for ``tick``, or (None) one that a person started."""
    uid = f"uid-of-{of}"
    name = run_name(of, uid, tick) if tick is not None else f"{of}-manual-abcdefghij"
    spec: dict[str, Any] = {"scheduledJobName": of, "scheduledJobUID": uid, "trigger": "Manual"}
    if tick is not None:
        lease = {"namespace": "soloist", "name": "soloist", "uid": "l", "epoch": EPOCH}
        spec |= {"trigger": "Schedule", "scheduledTime": stamp(tick), "lease": lease}
    made = created or (tick or DAY) - timedelta(seconds=5)
    metadata = {"namespace": "billing", "name": name, "uid": f"uid-of-{name}", "resourceVersion": "8"}
    found = {"metadata": {**metadata, "creationTimestamp": stamp(made)}, "spec": spec}
    return found | ({"status": {"phase": phase, **status}} if phase is not None else {})


def run(tick: datetime | None, phase: str | None = None, **more: Any) -> Seen:
    return Seen.of(raw_run(tick, phase, **more))


def entry(tick: datetime, *, of: str = "report", **more: Any) -> dict[str, Any]:
    """A line of ``status.active``."""
    name = run_name(of, f"uid-of-{of}", tick)
    found = {
        "run": name,
        "uid": f"uid-of-{name}",
        "scheduledTime": stamp(tick),
        "epoch": EPOCH,
        "lease": "soloist/soloist",
    }
    return found | more


def line(result: str, first: datetime, last: datetime | None = None, count: int = 1, **more: str) -> dict[str, Any]:
    """A line of ``status.recent``."""
    return {"result": result, "first": stamp(first), "last": stamp(last or first), "count": count, **more}


def lease(
    now: datetime, *, renewed: float = 1.0, holder: str = "soloist-7d9f-x2k4z_p_n1", paused: str | None = None
) -> LeaseRecord:
    annotations = {"soloist.dev/epoch": str(EPOCH), "soloist.dev/nonce": "n1"}
    if paused is not None:
        annotations["soloist.dev/paused"] = paused
    moment = now - timedelta(seconds=renewed)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 10,
        "acquireTime": stamp(now - timedelta(hours=3)),
        "renewTime": stamp(moment),
    }
    metadata = {"namespace": "soloist", "name": "soloist", "uid": "l", "annotations": annotations}
    return parse_lease({"metadata": metadata, "spec": spec})


def facts(now: datetime, *runs: Seen, of: Job | None = None, leading: bool = True, **more: Any) -> Facts:
    """One job of ``job(**more)`` and its runs; ``leading``: a controller renewed the Lease a second ago."""
    held = lease(now, renewed=1.0 if leading else 300.0)
    return Facts(job=of or job(**more), runs=runs, lease=held, now=now)
