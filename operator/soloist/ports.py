"""The few Protocols between the loops and the world. Raw objects are dictionaries as the API server gives them.

A write is conditional: ``resource_version`` is a precondition, and what came of it is a value. ``TransientError`` with
``sent=True`` means that the write may have happened; the caller re-reads. A fake of a port passes the same contract
suite as the adapter (``tests/contracts``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from soloist.domain.actions import Order, Outcome
from soloist.domain.runs import Job, Run
from soloist.domain.spec import Invalid
from soloist.domain.steps import Launch, WriteJob, WriteRun
from soloist.domain.view import View

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The write happened; ``obj`` is the object as it now stands."""

    obj: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Somebody wrote in between, or the object now has another uid; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """No such object (or it lies in a namespace that is going away); nothing was written."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyExists:
    """Another object has the name; ``obj`` is that object, None where it vanished again."""

    obj: Raw | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The server will not have it (quota, admission, validation): a sentence for the person who can change that."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A consistent list (not from a watch cache) and the resourceVersion it was taken at."""

    items: list[Raw]
    resource_version: str


class Store(Protocol):
    """ScheduledJobs and JobRuns. Deletes and status writes carry the uid as a precondition where the caller knows it."""

    async def list_jobs(self) -> Listing: ...

    async def list_runs(self) -> Listing: ...

    async def read_job(self, namespace: str, name: str) -> Raw | None: ...

    async def read_run(self, namespace: str, name: str) -> Raw | None: ...

    async def create_run(self, body: Raw) -> Written | AlreadyExists | Gone | Refused: ...

    async def write_job_status(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str,
        status: Mapping[str, Any],
        before: Mapping[str, Any],
    ) -> Written | Conflict | Gone:
        """Merge ``status`` (a JSON merge patch: null removes) into the status subresource, if nothing was written since.

        ``before``: the whole status as it stood at that resourceVersion.
        """

    async def write_run_status(
        self, namespace: str, name: str, *, uid: str, resource_version: str, status: Mapping[str, Any]
    ) -> Written | Conflict | Gone: ...

    async def delete_run(self, namespace: str, name: str, *, uid: str) -> None:
        """Delete that very run, with what it owns; one that is gone already is no error."""


class Launcher(Protocol):
    """Runs one attempt of an action to its end. Cancelling the awaiting task abandons it: a Job goes on, ``stop`` ends it."""

    async def prepare(self, order: Order) -> str:
        """Make ready ahead of the time whatever does nothing by itself: for ``job``, the suspended Job, of which this is the uid.

        Empty where nothing is made ready, or it cannot be yet.
        """

    async def launch(self, order: Order) -> Outcome:
        """The effect itself, now. The caller has the right to it (a recorded run, a trusted term)."""

    async def found(self, order: Order) -> Outcome | None:
        """What became of an attempt that another process launched, waiting for its end; None: it was certainly not launched.

        Nor can it be any more by whoever had the right to it then: ``order.fence`` has taken what was made ready.
        For an action that cannot tell (``http``) raises ``PermanentError``: the caller decides by the end of the term.
        """

    async def stop(self, order: Order) -> None:
        """End what the run still has going (a Job is deleted, in the foreground); returns when it is gone."""


class Recorder(Protocol):
    """Events on objects: rare, aggregated, never awaited for."""

    def event(self, regarding: Raw, *, reason: str, message: str, warning: bool = False) -> None: ...


class Clock(Protocol):
    """The only source of time. ``boottime`` is CLOCK_BOOTTIME in seconds."""

    def boottime(self) -> float: ...


class Report(Protocol):
    """Where the loops say what happened: logs, metrics and Events are made of it elsewhere."""

    def wrote(self, kind: str) -> None:
        """One create or update was sent to the API server."""

    def launched(self, view: View, step: Launch) -> None: ...

    def decided(self, view: View, step: WriteJob) -> None:
        """Written: ticks without a run, and runs that are accounted for."""

    def settled(self, view: View, step: WriteRun) -> None:
        """Written: where a run stands."""

    def orphaned(self, run: Run) -> None:
        """Written: the end of a run whose ScheduledJob is not there."""

    def invalid(self, job: Job, invalid: Invalid) -> None:
        """Written: the spec cannot be run."""

    def stands_in_the_way(self, job: Job, reason: str, message: str) -> None:
        """Something that a person must change, or should know, about one job."""

    def failed(self, where: str, error: BaseException) -> None:
        """An error that was survived."""
