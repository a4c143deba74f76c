"""The ``job`` action: a ``Launcher`` whose effect is the start of a Job that exists already.

Why it is right: the Job has the run's name and is owned by the run, so two leaders meet at one object; to start it is to let
go of its ``suspend``, by uid, which may be repeated without starting anything twice; so a lost reply is answered by asking
again of that very Job, as long as the term is trusted: once a start was sent, no other Job is made. A Job that stands tells
any later leader whether it was started, and what became of it. To say that it was not is to take it first: the start that a
dead leader sent fails from then on. Only the Job that the record names tells that; another may have come after one that was
started and is gone.

To cancel whoever waits here abandons the Job, it does not stop it: a leader that goes leaves its Jobs to the next.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from soloist.adapters.kube.answers import Clash, NotFound, Refusal
from soloist.adapters.kube.api import JSON_PATCH, KubeApi
from soloist.adapters.kube.job_body import epoch_of, is_of_generation, is_ours, outcome_of, start_patch, was_started
from soloist.adapters.kube.job_objects import FIRST_WAIT, TRIES, JobObjects, changes, refused
from soloist.adapters.kube.job_watch import JobWatch, Seen, job_path
from soloist.domain.actions import FailedKnown, Order, Outcome, UnknownOutcome
from soloist.domain.errors import TransientError
from soloist.ports import Raw

LONGEST_WAIT = 2.0
_MOST_PREPARED = 10_000
_log = logging.getLogger(__name__)
T = TypeVar("T")


class JobLauncher:
    """The ``Launcher`` port for ``JobAction``. ``trusted``: may this process still act? Asked before each effect."""

    def __init__(self, api: KubeApi, watch: JobWatch, *, trusted: Callable[[], bool]) -> None:
        self._api = api
        self._watch = watch
        self._trusted = trusted
        self._objects = JobObjects(api, watch, trusted=trusted)
        self._prepared: OrderedDict[str, Raw] = OrderedDict()
        self._stopping: set[str] = set()

    async def prepare(self, order: Order) -> str:
        """Create the suspended Job. A refusal is not raised here: ``launch`` meets it again and returns it."""
        made = await self._objects.made(order)
        if isinstance(made, FailedKnown):
            _log.info("the Job cannot be made yet", extra={"run": order.run_name, "reason": made.reason})
            return ""
        self._prepared[order.run_uid] = made
        if len(self._prepared) > _MOST_PREPARED:
            self._prepared.popitem(last=False)
        return str(made["metadata"]["uid"])

    async def launch(self, order: Order) -> Outcome:
        """Start the Job and wait for its end. ``TransientError``: the term ended before it was known to be started."""
        asked: set[str] = set()
        started = await self._while_trusted(lambda: self._started(order, asked))
        return started if isinstance(started, FailedKnown | UnknownOutcome) else await self._ended(started)

    async def found(self, order: Order) -> Outcome | None:
        for _ in range(TRIES):
            job = await self._watch.read(order.namespace, order.run_name)
            if job is None or not is_ours(job, order):
                return _gone(order)
            if was_started(job):
                return await self._ended(job)
            if await self._objects.taken(order, job):
                # One may have run before it was deleted, so neither its absence nor another Job says that none ever did.
                return None if job["metadata"]["uid"] == order.prepared else _gone(order)
        raise changes(order)

    async def stop(self, order: Order) -> None:
        self._prepared.pop(order.run_uid, None)
        self._stopping.add(order.run_uid)
        try:
            job = await self._watch.read(order.namespace, order.run_name)
            if job is not None and is_ours(job, order):
                await self._objects.remove(job)
        finally:
            self._stopping.discard(order.run_uid)

    async def _started(self, order: Order, asked: set[str]) -> Raw | FailedKnown | UnknownOutcome:
        """The Job, started, by us or by whoever was before us. ``asked``: Jobs that may have been started by what we sent."""
        for _ in range(TRIES):
            job = await self._startable(order, asked)
            if isinstance(job, FailedKnown | UnknownOutcome) or was_started(job):
                return job
            answer = await self._start(order, job, asked)
            if answer is not None:
                return answer
        raise changes(order)

    async def _startable(self, order: Order, asked: set[str]) -> Raw | FailedKnown | UnknownOutcome:
        if asked:
            there = await self._watch.read(order.namespace, order.run_name)
            return there if there is not None and there["metadata"]["uid"] in asked else _gone(order)
        job = self._prepared.pop(order.run_uid, None)
        return job if job is not None and is_of_generation(job, order) else await self._objects.made(order)

    async def _start(self, order: Order, job: Raw, asked: set[str]) -> Raw | FailedKnown | None:
        """None: it is not as it was read; look again."""
        if not self._trusted() or epoch_of(job) > order.fence:
            raise TransientError(f"Job {order.run_name} is not started: the term is over.", sent=False)
        if order.run_uid in self._stopping:
            raise TransientError(f"Job {order.run_name} is not started: it is being stopped.", sent=False)
        path, uid = job_path(order.namespace, order.run_name), job["metadata"]["uid"]
        try:
            return await self._api.request("PATCH", path, start_patch(order, job), content_type=JSON_PATCH)
        except TransientError as error:
            if error.sent:
                asked.add(uid)
            raise
        except (NotFound, Clash):
            return None
        except Refusal as error:
            now = await self._watch.read(order.namespace, order.run_name)
            if now is None or now["metadata"]["uid"] != uid or epoch_of(now) != epoch_of(job):
                return None
            return now if was_started(now) else refused(error)

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


def _gone(order: Order) -> UnknownOutcome:
    message = f"There is no Job {order.run_name} that was made ready for this run, and nobody saw how it ended."
    return UnknownOutcome(reason="JobGone", message=message)
