"""What ``why`` and ``status`` look at: one job, its runs and its installation's Lease, as they stand recorded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from soloist.domain.conditions import DECIDED_AHEAD, RUN_REFUSED, decided_ahead_words
from soloist.domain.gate import closed, still_auto_paused
from soloist.domain.holder_pod import published
from soloist.domain.instants import parse_time
from soloist.domain.lease import HOLDER_POD, LeaseRecord
from soloist.domain.parsing import parse_run
from soloist.domain.runs import Job, Observed, Run
from soloist.domain.spec import Invalid, Spec
from soloist.domain.ticks import Reason, decided_ahead, observe
from soloist.domain.told import told
from soloist.domain.wall_time import away, span

DOUBT = timedelta(seconds=5)
"""How far the clock of whoever asks may be from the leader's before a good Lease looks run out."""

UTC_ZONE = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run, and what its status says for people."""

    run: Run
    message: str
    started: datetime | None
    status_code: int | None
    excerpt: str

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Seen":
        status = raw.get("status") or {}
        response = status.get("response") or {}
        return cls(
            run=parse_run(raw),
            message=str(status.get("message") or ""),
            started=parse_time(status.get("startTime")),
            status_code=response.get("statusCode"),
            excerpt=str(response.get("excerpt") or ""),
        )

    @property
    def took(self) -> timedelta | None:
        """From the send of the last attempt to the end."""
        ended = self.run.completed
        return ended - self.started if ended is not None and self.started is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything an answer is made of. ``lease`` None: there is none, or (``lease_unknown`` says why) nobody could read it."""

    job: Job
    runs: tuple[Seen, ...] = ()
    lease: LeaseRecord | None = None
    lease_unknown: str = ""
    now: datetime

    @property
    def spec(self) -> Spec | None:
        return self.job.spec if isinstance(self.job.spec, Spec) else None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.spec.time_zone) if self.spec is not None else UTC_ZONE

    @property
    def observed(self) -> Observed | None:
        return observe(self.job, self.spec, self.now) if self.spec is not None else None

    @property
    def named(self) -> str:
        """The job as the command line takes it."""
        return f"{self.job.name} -n {self.job.namespace}"


def refusal(job: Job) -> Invalid | None:
    """Why this spec is not run at all, as the controller says, which knows where it is, or as this program does."""
    said = told(job.status, "Valid")
    if (said.get("status"), said.get("observedGeneration")) == ("False", job.generation):
        return Invalid(field="spec", reason=str(said.get("reason")), message=str(said.get("message")))
    return job.spec if isinstance(job.spec, Invalid) else None


def pause_words(annotation: str) -> str:
    """What a person wrote beside a pause: "true: deploying" and "deploying" are the same."""
    first, _, rest = annotation.strip().partition(":")
    words = rest.strip() if first.strip().lower() == "true" else annotation.strip()
    return f" ({words})" if words else ""


def leader_absence(lease: LeaseRecord | None, now: datetime) -> str | None:
    """A sentence where nobody leads, as far as the Lease says."""
    if lease is None:
        return "No Lease of Soloist was found: no controller has led yet, or its Lease has another name (--lease-name)."
    if not lease.holder:
        ended = f" since {away(lease.released_end, now)}" if lease.released_end is not None else ""
        return f"No controller leads{ended}: the Lease has no holder."
    if lease.renew_time is None or now - lease.renew_time > timedelta(seconds=lease.duration) + DOUBT:
        renewed = f"renewed it {away(lease.renew_time, now)}" if lease.renew_time is not None else "never renewed it"
        return f"No controller leads: {holder_name(lease)} last {renewed}, and it lasts {lease.duration:g} s."
    return None


def holder_name(lease: LeaseRecord) -> str:
    """The Pod that holds the Lease, else whatever its holder calls itself."""
    metadata = lease.raw.get("metadata") or {}
    pod = published((metadata.get("annotations") or {}).get(HOLDER_POD))
    return pod.name if pod is not None else lease.holder.partition("_")[0]


ABSENCE_REMEDY = "Look at the controllers: kubectl get pods -A -l app.kubernetes.io/name=soloist."


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something that stands in the way of launches: ``reason`` in a word, a sentence, and what to do."""

    reason: str
    what: str
    do: str = ""


def obstacles(facts: Facts) -> Iterator[Obstacle]:
    """All that keeps the job's next tick from being launched, the gravest first; runs in the way are not among them."""
    job = facts.job
    if job.deleting:
        yield Obstacle(reason="Deleting", what="The job is being deleted and starts nothing more.")
    refused = refusal(job)
    if refused is not None:
        yield Obstacle(reason="Invalid", what=refused.message, do="Nothing is launched until the spec is mended.")
    yield from pauses(facts)
    if (ahead := decided_ahead(job, facts.now)) is not None:
        yield Obstacle(reason=DECIDED_AHEAD, what=decided_ahead_words(job, ahead))
    if (said := told(job.status, "Scheduled")).get("reason") == RUN_REFUSED:
        yield Obstacle(
            reason=RUN_REFUSED,
            what=str(said.get("message")),
            do="See what refuses it (a quota, a policy, an admission webhook).",
        )
    if facts.lease_unknown:
        yield Obstacle(reason="LeaderNotKnown", what=f"Whether a controller leads is not known: {facts.lease_unknown}")
    elif absence := leader_absence(facts.lease, facts.now):
        yield Obstacle(reason="NoLeader", what=absence, do=ABSENCE_REMEDY)
    seen = job.status.get("observedGeneration")
    if seen is not None and seen < job.generation:
        what = f"No controller has looked at the present spec yet: it is of generation {job.generation}, the one looked at {seen}."
        yield Obstacle(reason="NotLookedAt", what=what)


def pauses(facts: Facts) -> Iterator[Obstacle]:
    """Suspended, paused by a person, by itself, or with everything else."""
    job, spec = facts.job, facts.spec
    if facts.lease is not None and facts.lease.fleet_paused is not None:
        words = pause_words(facts.lease.fleet_paused)
        what = f"The whole installation is paused{words}."
        yield Obstacle(reason="FleetPaused", what=what, do="To go on: kubectl soloist resume --all.")
    if spec is not None and spec.suspend:
        what = "The job is suspended: spec.suspend is true."
        yield Obstacle(reason="Suspended", what=what, do="Write suspend: false in its manifest.")
    if job.paused is not None:
        what = f"The job is paused by a person{pause_words(job.paused)}."
        yield Obstacle(reason="Paused", what=what, do=f"To go on: kubectl soloist resume {facts.named}.")
    if still_auto_paused(job, facts.now) and job.auto_paused is not None:
        failures = int(job.status.get("consecutiveFailures") or 0)
        what = f"The job paused itself {span(facts.now - job.auto_paused)} ago, after {failures} failed runs in a row."
        do = f"Mend the cause (kubectl soloist runs {facts.named}), then: kubectl soloist resume {facts.named}."
        yield Obstacle(reason="Paused", what=what, do=do)


def shut(facts: Facts) -> Reason | None:
    """The reason with which ticks are let go at present."""
    if facts.spec is None:
        return None
    fleet = facts.lease is not None and facts.lease.fleet_paused is not None
    return closed(facts.job, facts.spec, fleet, facts.now)
