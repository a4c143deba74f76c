"""A small world for the protocol: one ScheduledJob, its runs, a Lease, three processes, and everything that goes wrong.

It holds what the rules do not: an API server (``api_server``), what goes on outside (``outside``), so that two at once can be
seen, a network that loses and delays, and processes that crash with or without their parents, freeze, and have clocks that
step. The rules under test are the ones that run in production; nothing of them is written again.

Milliseconds throughout; ``t`` is the true time and also CLOCK_BOOTTIME of every process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from soloist.domain import documents, memory, status
from soloist.domain.actions import FailedKnown, JobAction, Outcome, Succeeded, UnknownOutcome, ledger_of
from soloist.domain.instants import parse_time
from soloist.domain.parsing import parse_job, parse_run
from soloist.domain.protocol import decide
from soloist.domain.runs import NOTHING, Entry, Memory, Phase, Run
from soloist.domain.spec import Spec
from soloist.domain.steps import (
    Cancel,
    CreateRun,
    DeleteRun,
    Inspect,
    Launch,
    Prepare,
    Step,
    Stop,
    TakeOver,
    Wait,
    WriteAttempt,
    WriteJob,
    WriteRun,
)
from soloist.domain.term import Term
from soloist.domain.ticks import Reason
from soloist.domain.view import OUTCOME_UNKNOWN, View, a_job_tells, the_ledger_tells
from tests.domain.api_server import Breach, Raw
from tests.domain.outside import Action, Job, Outside, Transaction

LEASE, TRUST = 3_000, 2_600
LEASE_NAME = "soloist/soloist"
GONE = UnknownOutcome(reason="JobGone", message="nobody saw how it ended")


def told(step: Step) -> str:
    """A step in one short line."""
    match step:
        case WriteRun(run=run):
            return f"{run.name[-15:]} ({run.uid}) := {step.phase} {step.reason} attempt {step.attempt}"
        case WriteJob():
            add = [(entry.uid, entry.epoch) for entry in step.add]
            return f"record to {step.watermark} add {add} drop {step.drop} count {step.count} decided {step.decided}"
        case WriteAttempt(run=run) | Launch(run=run) | DeleteRun(run=run) | TakeOver(run=run):
            return f"{type(step).__name__} {run.name[-15:]} ({run.uid})"
    return str(step)


@dataclass
class Process:
    """One controller: a parent, a child, and what the child believes. ``starting``: Jobs that it does not know to be started."""

    name: str
    wall: int = 0
    parent: bool = True
    alive: bool = True
    frozen: bool = False
    term: Term | None = None
    job: Raw | None = None
    runs: dict[str, Raw] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    starting: dict[str, Job] = field(default_factory=dict)
    taken: dict[datetime, Reason] = field(default_factory=dict)
    starts: int = 0


@dataclass
class LeaseRecord:
    """Who holds it, and when it last changed for whoever watches."""

    holder: str | None = None
    epoch: int = 0
    renew_time: datetime | None = None
    changed: int = -LEASE
    released_end: datetime | None = None
    ends: tuple[tuple[int, datetime], ...] = ()


@dataclass
class World(Outside):
    """All of it; what is wrong on purpose with it is named by ``broken``. ``ends``: of all terms, as their successors wrote them.

    ``doubtful``: runs whose Job somebody asked to start, or of whose record or Job an answer was lost.
    """

    lease: LeaseRecord = field(default_factory=LeaseRecord)
    processes: list[Process] = field(default_factory=list)
    late: list[Callable[[], Any]] = field(default_factory=list)
    ends: dict[int, datetime] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    parsed: dict[tuple[str, str], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.processes = [Process(name=name) for name in "abc"]

    # ---- leadership ------------------------------------------------------------------------------------------------

    def wall(self, process: Process) -> datetime:
        return self.moment() + timedelta(milliseconds=process.wall)

    def now(self, process: Process) -> datetime:
        assert process.term is not None
        return self.wall(process) if self.broken == "wall clock" else process.term.now(self.t / 1000)

    def leads(self, process: Process) -> bool:
        able = process.alive and not process.frozen and process.term is not None
        return able and process.term is not None and process.term.trusted(self.t / 1000)

    def may_take(self, process: Process, evidence: bool) -> bool:
        if not process.alive or process.frozen or process.term is not None:
            return False
        holder = next((p for p in self.processes if self.lease.holder == self.identity(p)), None)
        free = self.lease.holder is None or self.t >= self.lease.changed + LEASE
        return free or (evidence and holder is None and self.lease.holder is not None)

    @staticmethod
    def identity(process: Process) -> str:
        return f"{process.name}{process.starts}"

    def take(self, process: Process, *, evidence: bool = False, reply: bool = True) -> None:
        lease = self.lease
        end = lease.released_end
        if end is None and lease.renew_time is not None:
            end = lease.renew_time + timedelta(milliseconds=TRUST)
            if self.broken == "kubelet's stamp" and evidence:
                end = self.moment().replace(microsecond=0)
        ends = lease.ends
        if lease.epoch and end is not None:
            ends = (*ends, (lease.epoch, end))[-1 if self.broken == "one predecessor" else -200 :]
            self.ends[lease.epoch] = end
        wall = self.wall(process)
        epoch = max(lease.epoch + 1, int(wall.timestamp() * 1e6))
        self.lease = LeaseRecord(holder=self.identity(process), epoch=epoch, renew_time=wall, changed=self.t, ends=ends)
        boot = self.t / 1000
        process.term = Term(
            identity=self.identity(process),
            epoch=epoch,
            lease_namespace="soloist",
            lease_name="soloist",
            lease_uid="lease-uid",
            started_boot=boot,
            trusted_until=boot + TRUST / 1000,
            renew_time=wall,
            renew_sent_boot=boot,
            past_ends=dict(ends),
        )
        self.log.append(f"{self.t} {process.name} leads as {epoch}")
        self.sync(process)

    def renew(self, process: Process) -> None:
        if not self.leads(process) or process.term is None or self.lease.holder != process.term.identity:
            return
        before = process.term
        renew_time = max(self.wall(process), before.now(self.t / 1000))
        self.lease.renew_time, self.lease.changed = renew_time, self.t
        process.term = Term(
            **{name: getattr(before, name) for name in Term.__dataclass_fields__}
            | {"renew_time": renew_time, "renew_sent_boot": self.t / 1000, "trusted_until": (self.t + TRUST) / 1000}
        )

    def crash(self, process: Process, *, with_parent: bool) -> None:
        """The child dies. A parent that lives has seen it dead: it stamps the end on the term clock and releases."""
        if process.term is not None and not with_parent and self.lease.holder == process.term.identity:
            self.lease.holder = None
            self.lease.released_end = process.term.now(self.t / 1000)
            self.lease.changed = self.t
        self.log.append(f"{self.t} {process.name} dies{' with its parent' if with_parent else ''}")
        process.term, process.job, process.alive, process.frozen = None, None, False, False
        process.runs, process.memory, process.taken, process.starting = {}, {}, {}, {}
        process.starts += 1

    def start(self, process: Process) -> None:
        process.alive = True

    # ---- time ------------------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        """Trust that runs out kills: the dead-man timer, on waking at the latest."""
        target = self.t + milliseconds
        while self.t < target:
            self.t = min(target, min((at for at in self._moments() if at > self.t), default=target))
            for process in self.processes:
                if process.alive and process.term is not None and self.t / 1000 >= process.term.trusted_until:
                    self.crash(process, with_parent=process.frozen)
            self._end_actions()

    def _moments(self) -> Iterator[int]:
        for action in self.actions:
            yield action.end
            yield action.start + action.limit
        for process in self.processes:
            if process.term is not None:
                yield round(process.term.trusted_until * 1000)

    def _end_actions(self) -> None:
        for action in self.actions:
            timed_out = isinstance(action.outcome, UnknownOutcome) and self.t >= action.start + action.limit
            if action.seen or not (
                timed_out or (self.t >= action.end and not isinstance(action.outcome, UnknownOutcome))
            ):
                continue
            action.seen = True
            if isinstance(action, Transaction):
                self.commit(action)
            for process in self.processes:
                known = process.memory.get(action.uid, NOTHING)
                own = not isinstance(action, Transaction) or (process.term and process.term.epoch == action.epoch)
                if known.running and known.launched == action.attempt and own:
                    process.memory[action.uid] = memory.ended(known, action.outcome, self.t / 1000)
                elif known.inspecting and isinstance(action, Job):
                    process.memory[action.uid] = memory.inspected(known, action.outcome, self.t / 1000)
        self.collect_garbage()

    # ---- one step of one process -----------------------------------------------------------------------------------

    def sync(self, process: Process) -> None:
        process.job, process.runs = self.job, dict(self.runs)

    def view(self, process: Process) -> View:
        assert process.job is not None
        assert process.term is not None
        job = self._parsed(process.job, parse_job)
        assert isinstance(job.spec, Spec)
        return View(
            job=job,
            spec=job.spec,
            runs=tuple(self._parsed(run, parse_run) for run in process.runs.values()),
            memory=process.memory,
            epoch=process.term.epoch,
            lease=LEASE_NAME,
            term_started=process.term.started_boot,
            past_ends=process.term.past_ends,
            fleet_paused=False,
            now=self.now(process),
            boot=self.t / 1000,
            claim_ahead=timedelta(milliseconds=800),
            record_ahead=timedelta(milliseconds=100),
            taken=process.taken,
        )

    def _decided(self, view: View, step: WriteJob, patch: Raw) -> Raw | None:
        """Every tick that the watermark passes must have a run or a reason in that very write."""
        since = parse_time(self.job["status"].get("watermark")) or view.observed.since
        written = self.write_job(view.job.resource_version, patch)
        if written is not None and step.watermark is not None and self.broken != "no precondition":
            named = {entry.tick for entry in step.add} | {tick for tick, _ in step.decided}
            passed = view.spec.schedule.newest(after=since, until=step.watermark, limit=1000)
            if lost := [tick for tick in passed if tick not in named]:
                raise Breach(f"decided without a run or a reason: {lost}")
        return written

    def _parsed(self, raw: Raw, parse: Callable[[Raw], Any]) -> Any:
        """Parsed once per resourceVersion, as in production."""
        key = (parse.__name__, raw["metadata"]["resourceVersion"])
        if key not in self.parsed:
            self.parsed[key] = parse(raw)
        return self.parsed[key]

    def step(self, process: Process, fate: int = 0, duration: int = 300, outcome: int = 0) -> Step | None:
        """``fate`` of a write: 0 done; 1 done, reply lost; 2 lost; 3 arrives late."""
        if not self.leads(process):
            return None
        for wanted in list(process.starting.values()):
            self._start(process, wanted, fate)
        view = self.view(process)
        step = decide(view)
        match step:
            case WriteJob():
                patch = status.compose(view, step)
                self.doubtful |= {entry.uid for entry in step.add if fate == 3}
                self._write(process, fate, lambda: self._decided(view, step, patch))
            case CreateRun():
                self._create(process, fate, view, step)
            case WriteRun() | WriteAttempt() | TakeOver():
                self._write_run(process, fate, view, step)
            case Launch():
                self._launch(process, view, step, fate, duration, outcome)
            case Cancel():
                self._cancel(process, view, step, fate)
            case DeleteRun():
                if self.runs.get(step.run.name, {}).get("metadata", {}).get("uid") == step.run.uid:
                    del self.runs[step.run.name]
                process.runs.pop(step.run.name, None)
            case Stop():
                self.crash(process, with_parent=True)
            case Inspect(run=run):
                self._inspect(process, view, run, fate)
            case Prepare(run=run):
                self._prepare(process, self._wanted(view, run, duration, outcome), fate)
            case Wait():
                pass
        if not isinstance(step, Wait):
            self.log.append(f"{self.t} {process.name} fate {fate}: {told(step)}")
        return step

    def _write(self, process: Process, fate: int, write: Callable[[], Raw | None]) -> bool:
        """Whatever comes back that is not the written object, the process reads again."""
        done = None
        if fate in (0, 1):
            done = write()
        elif fate == 3:
            self.late.append(write)
        self.sync(process)
        return done is not None and fate == 0

    def _create(self, process: Process, fate: int, view: View, step: CreateRun) -> None:
        body = documents.claimed(view, step.tick, "lease-uid")
        self._write(process, fate, lambda: self.create(body))

    def _write_run(self, process: Process, fate: int, view: View, step: WriteRun | WriteAttempt | TakeOver) -> None:
        match step:
            case WriteAttempt():
                patch = documents.attempt_ahead(view, step)
            case TakeOver():
                patch = documents.taken_over(view)
            case WriteRun():
                patch = documents.run_status(view, step, view.remembered(step.run.uid))
        name, uid, seen = step.run.name, step.run.uid, step.run.resource_version
        known = view.remembered(uid)
        if isinstance(step, WriteRun) and uid in process.memory:
            known = process.memory[uid] = memory.offered(known, self.t / 1000)

        def write() -> Raw | None:
            written = self.write_run(name, uid, seen, patch)
            if written is not None and isinstance(step, WriteRun):
                self._check_given_up(view, step)
                self._check_told(step)
            return written

        done = self._write(process, fate, write)
        if fate:
            process.memory[uid] = memory.doubted(known)
        elif done and isinstance(step, WriteRun) and uid in process.memory:
            process.memory[uid] = memory.written(known, step.phase)
        elif done and uid in process.memory:
            process.memory[uid] = memory.certain(known)
        left = self.jobs.get(name)
        entry = view.job.entry(uid)
        ready = known.prepared or (entry is not None and entry.prepared)
        unwanted = done and isinstance(step, WriteRun) and step.phase is Phase.SKIPPED and ready
        if unwanted and left is not None and left.uid == uid:
            self.remove(left)

    def _check_told(self, step: WriteRun) -> None:
        job = self.jobs.get(step.run.name)
        if step.phase.held and job is not None and job.uid == step.run.uid and job.started:
            raise Breach(f"{job.uid} ends {step.phase}, though its Job is there and was started")

    def _check_given_up(self, view: View, step: WriteRun) -> None:
        """Nobody may be said not to know of a run whose instant lies behind the end of the term that recorded it.

        Nor of a Job's, where nobody asked to start that, and every answer came.
        """
        entry, run = view.job.entry(step.run.uid), step.run
        unknown = step.phase.held or (step.phase is Phase.RETRYING and step.reason == OUTCOME_UNKNOWN)
        if unknown and entry is not None and a_job_tells(entry) and run.uid not in self.doubtful:
            raise Breach(f"given up, though nobody asked to start its Job: {run.tick} {run.uid}")
        if entry is None or entry.launch_at is None or run.phase is not Phase.PENDING:
            return
        end = self.ends.get(entry.epoch)
        if unknown and run.scheduled and end is not None and entry.launch_at > end:
            raise Breach(f"given up, though it was certainly not launched: {run.tick}")

    def _cancel(self, process: Process, view: View, step: Cancel, fate: int) -> None:
        """A Job is stopped first. Where no answer comes nothing is remembered, and the rules ask again.

        Nor is a start given up then that is still asked for.
        """
        entry = view.job.entry(step.uid)
        if entry is not None and a_job_tells(entry):
            job = self.jobs.get(entry.run)
            if job is not None and job.uid == step.uid and fate != 2:
                stop = partial(self.remove, job)
                if fate == 3:
                    self.late.append(stop)
                else:
                    stop()
            if fate:
                return
        process.starting.pop(step.uid, None)
        process.memory[step.uid] = memory.cancelled(view.remembered(step.uid), step.reason, self.t / 1000)
        for action in self.actions:
            if action.uid == step.uid and not action.seen:
                action.seen = True

    def _launch(self, process: Process, view: View, step: Launch, fate: int, duration: int, outcome: int) -> None:
        run = step.run
        process.memory[run.uid] = memory.launching(view.remembered(run.uid), step, self.t / 1000)
        if isinstance(view.spec.action, JobAction):
            self._start(process, self._wanted(view, run, duration, outcome), fate)
            return
        if ledger_of(view.spec.action):
            self._transact(process, view, step, duration, outcome)
            return
        outcomes: tuple[Outcome, ...] = (
            Succeeded(),
            FailedKnown(reason="Http", message="503", retryable=True),
            UnknownOutcome(reason="TimedOut", message="no reply"),
        )
        what = outcomes[outcome % 3]
        limit = round(view.spec.timeout.total_seconds() * 1000)
        action = Action(run.uid, run.tick, step.attempt, self.t, self.t + min(duration, limit), what, limit)
        self.check(view, action, scheduled=run.scheduled)
        self.actions.append(action)
        self.log.append(f"{self.t} LAUNCH by {process.name}: {run.tick} {run.uid} attempt {step.attempt}")

    def _transact(self, process: Process, view: View, step: Launch, duration: int, outcome: int) -> None:
        """What the launcher does: shut out earlier epochs, look at the ledger, and only then begin."""
        run, order = step.run, documents.order(view, step.run, step.attempt)
        limit = round(view.spec.timeout.total_seconds() * 1000)
        what: Outcome = Succeeded()
        if outcome % 3 == 1:
            what = FailedKnown(reason="23514", message="rolled back", retryable=True)
        elif outcome % 3 == 2:
            duration, what = limit, FailedKnown(reason="57014", message="rolled back in the end", retryable=True)
        end = self.t + min(duration, limit)
        action = Transaction(
            uid=run.uid,
            tick=run.tick,
            attempt=step.attempt,
            start=self.t,
            end=end,
            outcome=what,
            limit=limit,
            ledger=ledger_of(order.action),
            key=order.key,
            epoch=view.epoch,
        )
        self.check(view, action, scheduled=run.scheduled)
        database = self.databases[action.ledger]
        if database.epoch > view.epoch:
            over = FailedKnown(reason="NotSent", message="another leader took over", retryable=True)
            process.memory[run.uid] = memory.ended(process.memory[run.uid], over, self.t / 1000)
            return
        database.epoch = view.epoch
        if action.key in database.rows:
            process.memory[run.uid] = memory.ended(process.memory[run.uid], Succeeded(), self.t / 1000)
            return
        self.actions.append(action)

    def _inspect(self, process: Process, view: View, run: Run, fate: int) -> None:
        """Ask the Job, or the ledger that is recorded once no earlier epoch can commit; where no answer comes, it is asked again."""
        entry = view.job.entry(run.uid)
        if fate == 2 or entry is None:
            return
        if a_job_tells(entry):
            told = self._told_by_the_job(view.remembered(run.uid), entry, view.epoch)
            process.memory[run.uid] = told if fate != 1 else process.memory.get(run.uid, NOTHING)
            return
        if not the_ledger_tells(entry):
            return
        order = documents.order_for(view, entry)
        database = self.databases[ledger_of(order.action)]
        if database.epoch > view.epoch:
            return
        if self.broken != "no shutting out":
            database.epoch = view.epoch
        found = Succeeded() if order.key in database.rows else None
        process.memory[run.uid] = memory.inspected(view.remembered(run.uid), found, self.t / 1000)

    # ---- Jobs: what the launcher asks of the API server -------------------------------------------------------------

    @staticmethod
    def _wanted(view: View, run: Run, duration: int, outcome: int) -> Job:
        """The Job as it would be made by now. It runs into its deadline at the latest."""
        limit = round(view.spec.timeout.total_seconds() * 1000)
        what: Outcome = Succeeded()
        if outcome % 3:
            what = FailedKnown(reason="BackoffLimitExceeded", message="its Pod failed", retryable=False)
        return Job(
            uid=run.uid,
            tick=run.tick if run.scheduled else None,
            attempt=1,
            start=0,
            end=limit if outcome % 3 == 2 else min(duration, limit),
            outcome=what,
            limit=limit,
            name=run.name,
            generation=view.job.generation,
            epoch=view.epoch,
        )

    def _made(self, wanted: Job) -> Job:
        """The run's Job as it stands, if it was started or is of this generation; else another in its place."""
        there = self.jobs.get(wanted.name)
        if there is not None:
            usable = there.uid == wanted.uid and (there.started or there.generation == wanted.generation)
            if usable and self.broken != "always another Job":
                return there
            self.remove(there)
        return self.make(wanted)

    def _prepare(self, process: Process, wanted: Job, fate: int) -> None:
        """To start it is to find it, or to make it; where an answer came, the record names what stands ready."""
        made = self._made(wanted).made if fate in (0, 1) else ""
        if fate == 3:
            self.late.append(partial(self.make, wanted))
        if fate:
            self.doubtful.add(wanted.uid)
        process.memory[wanted.uid] = memory.prepared(process.memory.get(wanted.uid, NOTHING), "" if fate else made)

    def _start(self, process: Process, wanted: Job, fate: int) -> None:
        """Find the run's Job, or make it, and start it by its uid; again and again until an answer comes.

        Once that was sent no other Job will do: the one it was sent for may have been started, and be gone.
        """
        process.starting.pop(wanted.uid, None)
        known = process.memory.get(wanted.uid, NOTHING)
        if not known.running:
            return
        self.doubtful.add(wanted.uid)
        if fate == 2:
            process.starting[wanted.uid] = wanted
            return
        forgetful = self.broken in ("another Job for a start that was sent", "always another Job")
        asked = None if forgetful else wanted.asked
        if asked is not None and self.jobs.get(wanted.name) is not asked:
            process.memory[wanted.uid] = memory.ended(known, GONE, self.t / 1000)
            return
        job = asked or self._made(wanted)
        if fate:
            process.starting[wanted.uid] = replace(wanted, asked=job)
        begin = partial(self.begin, job, held=job.epoch, epoch=wanted.epoch)
        if fate == 3:
            self.late.append(begin)
            return
        begin()
        if job.seen:
            process.memory[wanted.uid] = memory.ended(known, job.outcome, self.t / 1000)

    def _told_by_the_job(self, known: Memory, entry: Entry, epoch: int) -> Memory:
        """Whether it was started, and, once it is over, how it ended. Where it is gone nobody saw that.

        One that was not started is taken for this term, so that nobody else starts it from now on.
        """
        job = self.jobs.get(entry.run)
        if job is not None and job.uid == entry.uid and job.started:
            return memory.inspected(known, job.outcome, self.t / 1000) if job.seen else memory.inspecting(known)
        if self.broken == "what is gone was not started" and job is None:
            return memory.inspected(known, None, self.t / 1000)
        if job is None or job.uid != entry.uid:
            return memory.inspected(known, GONE, self.t / 1000)
        if self.broken != "a Job is not taken":
            job.epoch = epoch
        named = job.made == entry.prepared or self.broken == "any Job tells"
        return memory.inspected(known, None if named else GONE, self.t / 1000)
