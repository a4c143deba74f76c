"""What goes on outside on behalf of runs: actions for as long as they take, transactions, which commit at their end, and Jobs.

A transaction goes on whatever becomes of whoever began it, unless its epoch is over; a Job in any case, until it is removed.
What breaks the promise is a breach as soon as it is begun, or committed.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from soloist.domain.actions import FailedKnown, Outcome, Succeeded
from soloist.domain.view import View
from tests.domain.api_server import ApiServer, Breach


@dataclass
class Action:
    """Something that goes on in the outside world from ``start`` to ``end``."""

    uid: str
    tick: datetime | None
    attempt: int
    start: int
    end: int
    outcome: Outcome
    limit: int
    seen: bool = False


@dataclass
class Transaction(Action):
    """An action whose effect is in a database, together with its row in the ledger."""

    ledger: str = ""
    key: str = ""
    epoch: int = 0


@dataclass
class Job(Action):
    """An object that its run owns, suspended until somebody starts it. Until then ``start`` is 0 and ``end`` how long it takes.

    ``epoch``: the term that may start it. ``asked``: the Job that may have been started by what its sender has no answer to.
    """

    name: str = ""
    generation: int = 0
    made: str = ""
    epoch: int = 0
    started: bool = False
    asked: "Job | None" = None


@dataclass
class Database:
    """What its ledger holds, and the epoch that may still commit."""

    epoch: int = 0
    rows: dict[str, Transaction] = field(default_factory=dict)


@dataclass
class Outside(ApiServer):
    """Actions, Jobs (by name) and databases, and which launches there were; ``begun``: the Job of each run that was started."""

    actions: list[Action] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    made: int = 0
    begun: dict[str, Job] = field(default_factory=dict)
    databases: dict[str, Database] = field(default_factory=lambda: defaultdict(Database))
    launched: dict[datetime, str] = field(default_factory=dict)
    attempts: set[tuple[str, int]] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def commit(self, action: Transaction) -> None:
        """At its end, whatever became of its client meanwhile: the words to commit may be under way already."""
        if not isinstance(action.outcome, Succeeded):
            return
        database = self.databases[action.ledger]
        if database.epoch != action.epoch and self.broken != "no check of the epoch":
            action.outcome = FailedKnown(reason="NotSent", message="another leader took over", retryable=True)
            return
        effects = [there for other in self.databases.values() for there in other.rows.values()]
        if any(there.key == action.key for there in effects):
            raise Breach(f"two effects of {action.key}")
        for run in self.runs.values():
            phase = run.get("status", {}).get("phase")
            if run["metadata"]["uid"] == action.uid and phase in ("Skipped", "Superseded", "Failed"):
                raise Breach(f"an effect of {action.uid}, which ended {phase}")
        at_once = [there for there in effects if there.start < self.t and action.start < there.end]
        if at_once and self.job["spec"]["concurrencyPolicy"] == "Forbid":
            raise Breach(f"two effects at once under Forbid: {at_once[0]} and {action}")
        action.end = self.t
        database.rows[action.key] = action
        self.log.append(f"{self.t} COMMIT of {action.uid} in {action.ledger}")

    def check(self, view: View, action: Action, *, scheduled: bool) -> None:
        transaction = isinstance(action, Transaction)
        if (action.uid, action.attempt) in self.attempts and not transaction:
            raise Breach(f"attempt {action.attempt} of {action.uid} is launched twice")
        self.attempts.add((action.uid, action.attempt))
        if scheduled:
            self.check_tick(action)
        if action.attempt > view.spec.retry.max_attempts:
            raise Breach("more attempts than maxAttempts")
        going = [a for a in self.actions if a.start <= self.t < a.end]
        if going and view.spec.concurrency == "Forbid" and not transaction:
            raise Breach(f"two actions at once under Forbid: {going[0]} and {action}")

    def check_tick(self, action: Action) -> None:
        if action.tick is None:
            return
        if self.launched.setdefault(action.tick, action.uid) != action.uid:
            raise Breach(f"two runs of tick {action.tick} are launched")
        if self.moment() < action.tick - timedelta(seconds=2):
            raise Breach("launched more than two seconds early")

    def make(self, wanted: Job) -> Job:
        """A Job of that name, suspended; the one that is there, where there is one."""
        self.made += 1
        return self.jobs.setdefault(wanted.name, replace(wanted, made=f"job-{self.made}", asked=None))

    def begin(self, job: Job, *, held: int, epoch: int) -> None:
        """Start that very Job for ``epoch``. One that is gone, was started before, or is not ``held`` any more, is none to start."""
        if self.jobs.get(job.name) is not job or job.started or job.epoch != held:
            return
        if self.begun.setdefault(job.uid, job) is not job:
            raise Breach(f"two Jobs of {job.uid} are started")
        for run in self.runs.values():
            phase = run.get("status", {}).get("phase", "Pending")
            if run["metadata"]["uid"] == job.uid and phase not in ("Pending", "Running"):
                raise Breach(f"the Job of {job.uid} is started, which ended {phase}")
        self.check_tick(job)
        at_once = [a for a in self.actions if a.start <= self.t < a.end]
        if at_once and self.job["spec"]["concurrencyPolicy"] == "Forbid":
            raise Breach(f"two Jobs at once under Forbid: {at_once[0]} and {job}")
        job.started, job.epoch, job.start, job.end = True, epoch, self.t, self.t + job.end
        self.actions.append(job)
        self.log.append(f"{self.t} START of the Job of {job.uid}")

    def remove(self, job: Job) -> None:
        """Delete that very Job with its Pods. Whoever waits for its end sees that it is gone."""
        if self.jobs.get(job.name) is not job:
            return
        del self.jobs[job.name]
        if job.started and self.t < job.end:
            job.end, job.outcome = self.t, FailedKnown(reason="JobDeleted", message="deleted", retryable=False)

    def collect_garbage(self) -> None:
        """Jobs whose run is gone, but nothing that goes on: to stop that is left to the leader."""
        if not self.jobs:
            return
        owners = {run["metadata"]["uid"] for run in self.runs.values()}
        for job in list(self.jobs.values()):
            if job.uid not in owners and (job.seen or not job.started):
                self.remove(job)
