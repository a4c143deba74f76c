"""An API server that holds one ScheduledJob and its runs: resourceVersions, preconditions, uids, and nothing else."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from soloist.domain.instants import parse_time

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
Raw = dict[str, Any]


class Breach(AssertionError):
    """The promise is broken."""


def merge(before: Raw, patch: Raw) -> Raw:
    """A JSON merge patch of the flat kind that a status is."""
    return {key: value for key, value in {**before, **patch}.items() if value is not None}


@dataclass
class ApiServer:
    """``broken`` names what is wrong on purpose with the world itself (preconditions, clocks, stamps)."""

    spec: Raw
    broken: str = ""
    t: int = 0
    job: Raw = field(default_factory=dict)
    runs: dict[str, Raw] = field(default_factory=dict)
    version: int = 0
    serial: int = 0

    def __post_init__(self) -> None:
        meta = {"namespace": "shop", "name": "sweep", "uid": "job-uid", "generation": 1}
        self.job = {"metadata": meta | {"creationTimestamp": START.isoformat()}, "spec": self.spec, "status": {}}
        self.job = self.stand(self.job)

    def stand(self, obj: Raw, **changed: Any) -> Raw:
        """The object as it stands after a write. Objects are never altered in place, so whoever read one keeps it."""
        self.version += 1
        return {**obj, **changed, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}

    def edit(self, spec: Raw) -> None:
        """A person writes the spec."""
        meta = {**self.job["metadata"], "generation": self.job["metadata"]["generation"] + 1}
        self.job = self.stand({**self.job, "metadata": meta}, spec={**self.job["spec"], **spec})

    def write_job(self, seen: str, patch: Raw) -> Raw | None:
        """A conditional merge patch; None where somebody wrote in between."""
        if self.job["metadata"]["resourceVersion"] != seen and self.broken != "no precondition":
            return None
        merged = merge(self.job["status"], patch)
        old, new = parse_time(self.job["status"].get("watermark")), parse_time(merged.get("watermark"))
        if self.broken != "no precondition" and old is not None and (new is None or new < old):
            raise Breach("the watermark went back")
        self.job = self.stand(self.job, status=merged)
        return self.job

    def write_run(self, name: str, uid: str, seen: str, patch: Raw) -> Raw | None:
        run = self.runs.get(name)
        if run is None or run["metadata"]["uid"] != uid:
            return None
        if run["metadata"]["resourceVersion"] != seen and self.broken != "no precondition":
            return None
        self.runs[name] = self.stand(run, status=merge(run.get("status", {}), patch))
        return self.runs[name]

    def create(self, body: Raw) -> Raw | None:
        name = body["metadata"]["name"]
        if name in self.runs:
            return None
        self.serial += 1
        meta = body["metadata"] | {"uid": f"run-{self.serial}", "creationTimestamp": self.moment().isoformat()}
        self.runs[name] = self.stand({**body, "metadata": meta})
        return self.runs[name]

    def moment(self) -> datetime:
        return START + timedelta(milliseconds=self.t)
