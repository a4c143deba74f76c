"""The world as one value, and how each recorded run counts in it.

``View`` is all that the rules may look at: one job, its runs, what this process remembers, the term, and the time.
``now`` is the *term clock* (renewTime of the last good renewal plus CLOCK_BOOTTIME since its send), so that a wall clock
which steps between two renewals neither launches early nor hides a launch. Durations are counted on ``boot``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from soloist.domain.actions import KINDS, FailedKnown, JobAction, UnknownOutcome, kind_of
from soloist.domain.gate import Occupant, Standing, blockers, closed, resumed_by, told_closed
from soloist.domain.instants import parse_time
from soloist.domain.names import run_name
from soloist.domain.retry import OnUnknown
from soloist.domain.runs import NOTHING, Entry, Job, Memory, Observed, Phase, Run
from soloist.domain.spec import ConcurrencyPolicy, Spec
from soloist.domain.ticks import Plan, Reason, base, observe, plan, tick_of
from soloist.domain.told import told

JOB = KINDS[JobAction]

OUTCOME_UNKNOWN = "OutcomeUnknown"
"""Reason of a run that waits for another attempt because nobody knows what became of the last one."""

NEXT_TERMS = 3_600_000_000
"""Epochs are microseconds since 1970, or one more than the last: a later term's lie at the most this far ahead of a clock."""


@dataclass(frozen=True, kw_only=True)
class View:
    """One job, read once. ``taken``: ticks whose run could not be created, and why; ``refused``: why the server makes none.

    What several rules ask for is worked out once (hence no slots).
    """

    job: Job
    spec: Spec
    runs: tuple[Run, ...]
    memory: Mapping[str, Memory]
    epoch: int
    lease: str
    term_started: float
    past_ends: Mapping[int, datetime]
    fleet_paused: bool
    now: datetime
    boot: float
    claim_ahead: timedelta
    record_ahead: timedelta
    taken: Mapping[datetime, Reason] = field(default_factory=dict)
    refused: str = ""

    @cached_property
    def observed(self) -> Observed:
        return observe(self.job, self.spec, self.now)

    @cached_property
    def occupants(self) -> tuple[Occupant, ...]:
        """All of ``active``, and how each counts for the others."""
        return tuple(
            Occupant(
                uid=entry.uid,
                run=(run := self.run(entry.uid)),
                standing=standing(self, entry, run),
                mine=self.remembered(entry.uid).running or self.remembered(entry.uid).inspecting,
            )
            for entry in self.job.active
        )

    @cached_property
    def shut(self) -> Reason | None:
        """Why no tick may be launched at all."""
        return closed(self.job, self.spec, self.fleet_paused, self.now)

    @cached_property
    def paused_until(self) -> tuple[datetime, Reason] | None:
        """Ticks up to here passed in a pause of which the status still tells though it is over: let go, not missed.

        A pause ended when a person says so (resumed-at); else, its annotation being gone without a date, when that is seen.
        """
        reason = told_closed(self.job, self.lease)
        if self.shut is not None:
            return None
        if reason is None:
            # Nobody led while it was paused, or the pause was shorter than a write: the resume alone tells.
            resumed = resumed_by(self.job, self.now)
            late = resumed is not None and resumed > base(self.job, self.observed)
            return (min(resumed, self.now), Reason.PAUSED) if late and resumed is not None else None
        said, resumed = told(self.job.status, "Scheduled"), resumed_by(self.job, self.now)
        began = parse_time(said.get("lastTransitionTime"))
        dated = reason is Reason.PAUSED and began is not None and resumed is not None and resumed >= began
        return (min(resumed, self.now) if dated and resumed is not None else self.now), reason

    @cached_property
    def planned(self) -> Plan:
        decided = self.job.watermark or datetime.min.replace(tzinfo=self.now.tzinfo)
        ready = {
            run.tick
            for run in self.runs
            if run.tick is not None
            and run.tick > decided
            and run.epoch == self.epoch
            and self.expected(run)
            and run.created < launch_at(self, run)
        }
        queue = self.spec.concurrency is ConcurrencyPolicy.QUEUE
        return plan(
            self.job,
            self.spec,
            self.observed,
            self.now,
            claimed=ready,
            waiting=queue and bool(blockers(self.occupants, None)),
            queued_after=self.now - timedelta(seconds=self.boot - self.term_started) if queue else None,
            closed=self.shut,
            after=self.paused_until[0] if self.paused_until is not None else None,
        )

    def remembered(self, uid: str) -> Memory:
        return self.memory.get(uid, NOTHING)

    def run(self, uid: str) -> Run | None:
        return self._by_uid.get(uid)

    @cached_property
    def _by_uid(self) -> Mapping[str, Run]:
        return {run.uid: run for run in self.runs}

    def mine(self, entry: Entry) -> bool:
        return entry.lease == self.lease and entry.epoch == self.epoch

    def inherited(self, entry: Entry) -> bool:
        """Recorded by an earlier term of this Lease, whatever has become of that object since: its uid is not asked for.

        Of terms before a Lease that was made anew no end is known, so nothing of theirs is taken for not launched; but that
        they are over is sure, and nobody else would settle what they left.
        """
        return entry.lease == self.lease and (entry.epoch < self.epoch or self.invented(entry))

    def invented(self, entry: Entry) -> bool:
        """An epoch that no term can have by now. Somebody wrote it by hand, and it must not end the term of this leader."""
        return entry.epoch > max(self.epoch, int(self.now.timestamp() * 1_000_000)) + NEXT_TERMS

    def expected(self, run: Run) -> bool:
        """A run of this schedule under the name that its tick gives it, made by this installation."""
        ours = run.lease == self.lease and run.epoch is not None and run.epoch <= self.epoch
        return ours and self._named_as_its_tick(run)

    def _named_as_its_tick(self, run: Run) -> bool:
        return (
            run.scheduled
            and run.tick is not None
            and run.job_uid == self.job.uid
            and run.job_name == self.job.name
            and run.name == run_name(self.job.name, self.job.uid, run.tick)
        )

    def neighbour_of(self, tick: datetime) -> Run | None:
        """The unfinished run of this very tick that another installation has made."""
        return next((run for run in self.runs if run.tick == tick and self.of_neighbour(run)), None)

    def of_neighbour(self, run: Run) -> bool:
        """A run of this schedule under the name that its tick gives it, made by another installation, and unfinished."""
        foreign = run.lease not in (None, self.lease)
        return foreign and not run.phase.final and not run.deleting and self._named_as_its_tick(run)

    @property
    def neighbours(self) -> set[str]:
        """Leases of other installations that have unfinished runs of this job."""
        leases = {run.lease for run in self.runs if run.lease is not None and not run.phase.final}
        return (leases | {entry.lease for entry in self.job.active if entry.lease}) - {self.lease}


def ours_alone(view: View, run: Run) -> bool:
    """No write of anybody else's, nor one of our own in doubt, can still reach this run: we made it, or took it over."""
    made = run.lease == view.lease and run.epoch == view.epoch
    return (made or run.taken_by == view.epoch) and not view.remembered(run.uid).in_doubt


def launch_at(view: View, run: Run) -> datetime:
    """The instant before which a run is never launched, fixed by its record; for one that a person made, its creation."""
    entry = view.job.entry(run.uid)
    if entry is not None and entry.launch_at is not None:
        return entry.launch_at
    if run.scheduled and run.tick is not None:
        return tick_of(view.job, view.spec, run.tick).launch_at
    return run.created


def held_until(view: View, uid: str) -> float:
    """On ``boot``: until when an action whose end nobody saw may still be going on.

    Since the send where this process made it, else since this process took the Lease: the sender can have acted no later.
    """
    known = view.remembered(uid)
    since = known.sent_boot if known.launched else view.term_started
    entry, run = view.job.entry(uid), view.run(uid)
    written = [it.timeout for it in (entry, run) if it is not None and it.timeout is not None]
    return since + max([view.spec.timeout, *written]).total_seconds()


def not_launched(view: View, entry: Entry, run: Run) -> bool:
    """Its instant lies strictly after the end of the term that recorded it, and launchers are never early.

    Not known for a run without a tick, nor where the end of that term, or the instant, is not remembered.
    """
    end = view.past_ends.get(entry.epoch)
    if end is None or entry.launch_at is None or not run.scheduled:
        return False
    return run.attempt <= 1 and entry.launch_at > end


def attempts_left(view: View, uid: str, attempt: int) -> bool:
    """Whether the spec, as it is now, allows that run one more attempt of what it was recorded for."""
    entry, kind = view.job.entry(uid), kind_of(view.spec.action)
    same = entry is None or entry.action == kind
    return same and kind != JOB and attempt < view.spec.retry.max_attempts


def retries_unknown(view: View, uid: str, attempt: int) -> bool:
    return view.spec.retry.on_unknown is OnUnknown.RETRY and attempts_left(view, uid, attempt)


def standing(view: View, entry: Entry, run: Run | None) -> Standing:
    """How one recorded run counts for the others."""
    known = view.remembered(entry.uid)
    if run is None:
        return _deleted(view, entry, _held(view, entry))
    if known.running:
        return Standing.GOING
    if run.phase.final:
        return _held(view, entry) if run.phase.held and not a_job_tells(entry) else Standing.OVER
    if entry.lease != view.lease:
        going = view.now < launch_at(view, run) + view.spec.timeout
        return Standing.HELD if going else Standing.OVER
    if known.cancelled is not None:
        return Standing.OVER
    if known.outcome is not None:
        return _ended(view, entry.uid, known, _held(view, entry))
    if run.phase is Phase.RETRYING:
        unknown = run.reason == OUTCOME_UNKNOWN and _held(view, entry) is Standing.HELD
        return Standing.HELD if unknown else Standing.WAITING
    if view.mine(entry) and not known.launched:
        return Standing.UNLAUNCHED
    return Standing.HELD


def _held(view: View, entry: Entry) -> Standing:
    """While its action may still be going on it counts as running, and then as over."""
    return Standing.HELD if view.boot < held_until(view, entry.uid) else Standing.OVER


def a_job_tells(entry: Entry) -> bool:
    """Whether something is going on need not be guessed by time: there is a Job, or there is none."""
    return entry.action == JOB


def the_ledger_tells(entry: Entry) -> bool:
    """Whether it was done is not guessed either: its effect and its row in the ledger commit together, or neither does.

    What may still be going on is nevertheless counted by time: the ledger knows of no transaction that is under way.
    """
    return bool(entry.ledger)


def _deleted(view: View, entry: Entry, held: Standing) -> Standing:
    """A person deleted the run. What it started counts until it must be over, or, for a Job, until that is gone."""
    known = view.remembered(entry.uid)
    seen = known.outcome is not None and not isinstance(known.outcome, UnknownOutcome)
    over = seen or (known.settled is not None and not known.settled.held)
    if over or (view.mine(entry) and not known.launched):
        return Standing.OVER
    if the_ledger_tells(entry) and known.launched and known.cancelled is not None:
        return Standing.OVER  # a transaction of our own, which was ended with its connection
    if a_job_tells(entry) and entry.lease == view.lease:
        return Standing.OVER if known.cancelled is not None else Standing.HELD
    return held


def _ended(view: View, uid: str, known: Memory, held: Standing) -> Standing:
    """An outcome that is seen but not yet written counts at once."""
    match known.outcome:
        case FailedKnown(retryable=True) if attempts_left(view, uid, known.launched):
            return Standing.WAITING
        case UnknownOutcome():
            return Standing.WAITING if held is Standing.OVER and retries_unknown(view, uid, known.launched) else held
    return Standing.OVER
