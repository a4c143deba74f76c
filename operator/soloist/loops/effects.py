"""Taking the steps: one write or one launch each, launches and what leads to them before the rest.

A write whose reply is lost raises ``TransientError``, one that is refused for now ``NotNow``; the caller reads again, or comes
back, and the rules decide anew.
"""

from soloist.domain import launching
from soloist.domain.steps import (
    Cancel,
    CreateRun,
    DeleteRun,
    Inspect,
    Launch,
    Prepare,
    Step,
    TakeOver,
    WriteAttempt,
    WriteJob,
    WriteRun,
)
from soloist.domain.view import View
from soloist.loops.acting import Acting
from soloist.loops.job_writes import JobWrites
from soloist.loops.lanes import Lanes
from soloist.loops.run_writes import RunWrites


class Effects:
    """``acting`` does what is not a write, and remembers."""

    def __init__(self, acting: Acting, lanes: Lanes, jobs: JobWrites, runs: RunWrites) -> None:
        self._acting, self._lanes, self._jobs, self._runs = acting, lanes, jobs, runs

    async def take(self, view: View, step: Step, lease_uid: str) -> None:
        """Whatever the rules asked for."""
        match step:
            case Launch():
                self._acting.launch(view, step)
            case CreateRun():
                with self._lanes.urgent():
                    await self._runs.create(view, step, lease_uid)
            case WriteJob(add=()):
                async with self._lanes.patient(hurry=launching.is_imminent(view)):
                    await self._jobs.write(view, step)
            case WriteJob():
                with self._lanes.urgent():
                    await self._jobs.write(view, step)
            case WriteAttempt():
                with self._lanes.urgent():
                    await self._runs.write_ahead(view, step)
            case TakeOver():
                with self._lanes.urgent():
                    await self._runs.take_over(view, step.run)
            case WriteRun():
                async with self._lanes.patient(hurry=launching.is_imminent(view)):
                    await self._runs.settle(view, step)
            case Prepare():
                await self._runs.prepare(view, step.run)
            case Cancel():
                await self._acting.cancel(view, step)
            case Inspect():
                self._acting.inspect(view, step.run)
            case DeleteRun():
                async with self._lanes.patient(hurry=launching.is_imminent(view)):
                    await self._runs.delete(view, step.run)
