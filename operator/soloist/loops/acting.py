"""What goes on in the world on behalf of runs, and what this process remembers of it.

A launch counts as launched from the moment before it, whatever happens; what came of it is remembered until it stands on
the run. A Job outlives whoever started it, an HTTP call does not.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any

from soloist.domain import documents, memory
from soloist.domain.actions import FailedKnown, Outcome, UnknownOutcome
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.runs import NOTHING, Entry, Memory, Run
from soloist.domain.steps import Cancel, Launch
from soloist.domain.ticks import Reason
from soloist.domain.view import View, a_job_tells, the_ledger_tells
from soloist.loops.cache import Key
from soloist.loops.lanes import Lanes
from soloist.ports import Clock, Launcher, Report

STOPS_WITHIN = 20.0
"""Seconds that stopping an action may take in one go; a Pod on a lost node may take for ever, and is asked for again."""

RunTask = asyncio.Task[None]
Stage = Callable[[str], None]


class Acting:
    """``memory`` by uid of the run. By uid of the job: ``taken``, ticks whose run cannot be made; ``refused``, why the server has none.

    ``ended`` is told of a job of which an action is over; ``stage`` of each stage that a run has passed; tests that kill a process there are its only user.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        report: Report,
        clock: Clock,
        ended: Callable[[Key], None],
        lanes: Lanes,
        stage: Stage,
    ) -> None:
        self._launcher, self._report, self._clock = launcher, report, clock
        self._ended, self._lanes, self._stage = ended, lanes, stage
        self.memory: dict[str, Memory] = {}
        self.taken: dict[str, dict[datetime, Reason]] = {}
        self.refused: dict[str, str] = {}
        self.going: dict[str, RunTask] = {}
        self._outliving: set[str] = set()

    def known(self, uid: str) -> Memory:
        return self.memory.get(uid, NOTHING)

    def launch(self, view: View, step: Launch) -> None:
        """From here on the attempt counts as launched, whatever happens."""
        run = step.run
        self.memory[run.uid] = memory.launching(view.remembered(run.uid), step, self._clock.boottime())
        self._report.launched(view, step)
        order = documents.order(view, run, step.attempt)

        async def act() -> None:
            asyncio.get_running_loop().call_soon(self._stage, "launched")  # once the effect is on its way
            outcome = await self._ending(self._launcher.launch(order))
            self._stage("answered")
            self.memory[run.uid] = memory.ended(self.known(run.uid), outcome, self._clock.boottime())

        self._lanes.launching(self._run_task(view, run, act))

    def inspect(self, view: View, run: Run) -> None:
        self.memory[run.uid] = memory.inspecting(view.remembered(run.uid))
        entry = view.job.entry(run.uid)
        order = documents.order_for(view, entry) if entry is not None else documents.order(view, run, 1)

        async def look() -> None:
            try:
                outcome = await self._launcher.found(order)
            except SoloistError as error:
                self._report.failed("inspect", error)
                if entry is not None and the_ledger_tells(entry):
                    words = f"Whether run {run.name} was committed is not known yet: {error} It is asked again until the database answers; to give the run up, delete it."
                    self._report.stands_in_the_way(view.job, "LedgerUnreadable", words)
                await asyncio.sleep(1.0)
                self.memory[run.uid] = memory.uninspected(self.known(run.uid))
                return
            self.memory[run.uid] = memory.inspected(self.known(run.uid), outcome, self._clock.boottime())

        self._run_task(view, run, look)

    def _run_task(self, view: View, run: Run, coroutine: Callable[[], Coroutine[Any, Any, None]]) -> RunTask:
        key = (view.job.namespace, view.job.name)
        entry = view.job.entry(run.uid)
        if entry is not None and a_job_tells(entry):
            self._outliving.add(run.uid)
        task: RunTask = asyncio.create_task(coroutine(), name=f"run {run.name}")
        self.going[run.uid] = task

        def over(done: RunTask) -> None:
            self._outliving.discard(run.uid)
            if self.going.get(run.uid) is done:
                del self.going[run.uid]
            if not done.cancelled() and (error := done.exception()) is not None:
                self._report.failed("action", error)
                unknown = UnknownOutcome(
                    reason="LauncherFailed", message="The launcher failed; see the controller's log."
                )
                self.memory[run.uid] = memory.ended(self.known(run.uid), unknown, self._clock.boottime())
            self._ended(key)

        task.add_done_callback(over)
        return task

    def forget(self, job: str, runs: Iterable[str]) -> None:
        """Of a ScheduledJob that is gone nothing need be remembered, but of runs that are still going on. All by uid."""
        self.taken.pop(job, None)
        self.refused.pop(job, None)
        for uid in runs:
            if uid not in self.going:
                self.memory.pop(uid, None)

    def leave_jobs(self) -> None:
        """A Job outlives its launcher: stop watching it, the next leader asks it."""
        for uid in list(self._outliving):
            if (task := self.going.get(uid)) is not None:
                task.cancel()

    @staticmethod
    async def _ending(effect: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            return await effect
        except TransientError as error:
            if error.sent:
                return UnknownOutcome(reason="NoAnswer", message=str(error))
            return FailedKnown(reason="NotSent", message=str(error), retryable=True)
        except PermanentError as error:
            return FailedKnown(reason="Refused", message=str(error), retryable=False)

    async def cancel(self, view: View, step: Cancel) -> None:
        """End what is going on here. A Job is stopped, and seen gone, before whoever watches it is told to look away."""
        entry = view.job.entry(step.uid)
        if entry is not None and a_job_tells(entry):
            await self._stop_job(view, entry)
        task = self.going.pop(step.uid, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=5.0)
        self.memory[step.uid] = memory.cancelled(self.known(step.uid), step.reason, self._clock.boottime())

    async def _stop_job(self, view: View, entry: Entry) -> None:
        try:
            async with asyncio.timeout(STOPS_WITHIN):
                await self._launcher.stop(documents.order_for(view, entry))
        except TimeoutError as error:
            message = f"What run {entry.run} started is still there {STOPS_WITHIN:g} s after it was stopped."
            raise TransientError(message) from error
