"""The ``job`` action: a ``Launcher`` whose effect is the start of a Job that exists already.

Why it is right: the Job has the run's name and is owned by the run, so two leaders meet at one object; to start it is to let
go of its ``suspend``, by uid, which may be repeated without starting anything twice; so a lost reply is answered by asking
again, as long as the term is trusted; and a Job that stands tells any later leader whether it was started, and what became
of it. A Job of another generation that was never started is made anew; a stranger's is left alone.

To cancel whoever waits here abandons the Job, it does not stop it: a leader that goes leaves its Jobs to the next.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from soloist.adapters.kube.answers import Clash, NotFound, Refusal
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.job_body import (
    build_job,
    is_going,
    is_left_over,
    is_of_generation,
    is_ours,
    outcome_of,
    start_patch,
    was_started,
)
from soloist.adapters.kube.job_watch import JobWatch, Seen, job_path
from soloist.adapters.kube.store import slim
from soloist.domain.actions import FailedKnown, JobAction, Order, Outcome, UnknownOutcome
from soloist.domain.errors import PermanentError, TransientError
from soloist.ports import Raw

FIRST_WAIT = 0.2
LONGEST_WAIT = 2.0
_TRIES = 5
_MOST_PREPARED = 10_000
_log = logging.getLogger(__name__)
T = TypeVar("T")


class JobLauncher:
    """The ``Launcher`` port for ``JobAction``. ``trusted``: may this process still act? Asked before each effect."""

    def __init__(self, api: KubeApi, watch: JobWatch, *, trusted: Callable[[], bool]) -> None:
        self._api = api
        self._watch = watch
        self._trusted = trusted
        self._prepared: OrderedDict[str, Raw] = OrderedDict()

    async def prepare(self, order: Order) -> None:
        """Create the suspended Job. A refusal is not raised here: ``launch`` meets it again and returns it."""
        made = await self._made(order)
        if isinstance(made, FailedKnown):
            _log.info("the Job cannot be made yet", extra={"run": order.run_name, "reason": made.reason})
            return
        self._prepared[order.run_uid] = made
        if len(self._prepared) > _MOST_PREPARED:
            self._prepared.popitem(last=False)

    async def launch(self, order: Order) -> Outcome:
        """Start the Job and wait for its end. ``TransientError``: the term ended before it was known to be started."""
        started = await self._while_trusted(lambda: self._started(order))
        return started if isinstance(started, FailedKnown) else await self._ended(started)

    async def found(self, order: Order) -> Outcome | None:
        job = await self._watch.read(order.namespace, order.run_name)
        if job is None:
            # A person may have deleted it after it had run, so its absence does not say that it never did.
            message = f"There is no Job {order.run_name}, and nobody saw how it ended."
            return UnknownOutcome(reason="JobGone", message=message)
        if not is_ours(job, order) or not was_started(job):
            return None
        return await self._ended(job)

    async def stop(self, order: Order) -> None:
        self._prepared.pop(order.run_uid, None)
        job = await self._watch.read(order.namespace, order.run_name)
        if job is not None and is_ours(job, order):
            await self._remove(job)

    async def _started(self, order: Order) -> Raw | FailedKnown:
        """The Job, started, by us or by whoever was before us."""
        for _ in range(_TRIES):
            job = self._prepared.pop(order.run_uid, None)
            if job is None or not is_of_generation(job, order):
                made = await self._made(order)
                if isinstance(made, FailedKnown):
                    return made
                job = made
            if was_started(job):
                return job
            answer = await self._start(order, job)
            if answer is not None:
                return answer
        raise TransientError(f"Job {order.namespace}/{order.run_name} changes under our hands", sent=False)

    async def _start(self, order: Order, job: Raw) -> Raw | FailedKnown | None:
        """None: it is not there any more, or another has its name; look again."""
        if not self._trusted():
            raise TransientError(f"Job {order.run_name} is not started: the term is over.", sent=False)
        path, uid = job_path(order.namespace, order.run_name), job["metadata"]["uid"]
        try:
            return await self._api.request("PATCH", path, start_patch(order, uid), content_type=MERGE_PATCH)
        except (NotFound, Clash):
            return None
        except Refusal as error:
            now = await self._watch.read(order.namespace, order.run_name)
            if now is None or now["metadata"]["uid"] != uid:
                return None
            return now if was_started(now) else _refused(error)

    async def _made(self, order: Order) -> Raw | FailedKnown:
        """A Job of this run that is of the order's generation, or that was started already."""
        if not isinstance(order.action, JobAction):
            raise PermanentError(f"{order.run_name}: the job launcher was given another kind of action.")
        body = build_job(order, order.action)
        for _ in range(_TRIES):
            try:
                return slim(await self._api.request("POST", job_path(order.namespace), body))
            except Clash as error:
                if error.reason != "AlreadyExists":
                    raise TransientError(str(error), sent=False) from error
            except Refusal as error:
                return _refused(error)
            there = await self._watch.read(order.namespace, order.run_name)
            if there is None:
                continue
            if is_ours(there, order):
                if was_started(there) or (is_of_generation(there, order) and not is_going(there)):
                    return there
            elif not is_left_over(there, order):
                return _name_taken(order)
            await self._remove(there)
        raise TransientError(f"Job {order.namespace}/{order.run_name} changes under our hands", sent=False)

    async def _ended(self, job: Raw) -> Outcome:
        """Wait for the end of a started Job."""
        metadata = job["metadata"]
        seen = Seen(job=job)
        if not _is_over(seen):
            seen = await self._watch.until(metadata["namespace"], metadata["name"], metadata["uid"], _is_over)
        name = metadata["name"]
        if seen.job is None:
            return UnknownOutcome(reason="JobGone", message=f"Job {name} was deleted, and nobody saw how it ended.")
        message = f"Job {name} was deleted before it ended."
        return outcome_of(seen.job) or FailedKnown(reason="JobDeleted", message=message, retryable=False)

    async def _remove(self, job: Raw) -> None:
        """Delete that very Job with its Pods, and wait until it is gone."""
        metadata = job["metadata"]
        options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Foreground"}
        try:
            await self._api.request("DELETE", job_path(metadata["namespace"], metadata["name"]), options)
        except (NotFound, Clash):
            return
        await self._watch.until(metadata["namespace"], metadata["name"], metadata["uid"], _is_gone, first=FIRST_WAIT)

    async def _while_trusted(self, step: Callable[[], Awaitable[T]]) -> T:
        """Again and again while the API server does not answer and the term is trusted."""
        wait, sent = FIRST_WAIT, False
        while True:
            try:
                return await step()
            except TransientError as error:
                sent = sent or error.sent
                if not self._trusted():
                    # A try before this one may have started it, though this one did not.
                    raise TransientError(str(error), sent=sent) from error
                _log.debug("the Job is not known to be started; asking again", extra={"error": str(error)})
                await asyncio.sleep(max(wait, min(LONGEST_WAIT, error.retry_after or 0.0)))
                wait = min(LONGEST_WAIT, wait * 2)
                if not self._trusted():
                    raise TransientError(str(error), sent=sent) from error


def _is_over(seen: Seen) -> bool:
    return seen.deleted or seen.missing or (seen.job is not None and outcome_of(seen.job) is not None)


def _is_gone(seen: Seen) -> bool:
    return seen.deleted or seen.missing


def _refused(error: Refusal) -> FailedKnown:
    return FailedKnown(reason="JobRefused", message=str(error), retryable=False)


def _name_taken(order: Order) -> FailedKnown:
    message = f"A Job named {order.run_name} is there already and does not belong to this run: delete it or rename it."
    return FailedKnown(reason="NameTaken", message=message, retryable=False)
