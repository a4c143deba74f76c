"""The Job of a run as an object: made, suspended; taken by a later term; removed.

Why it is right: the name is the run's, so there is one at a time; what is not as it was read, started above all, is neither
taken nor removed for another, since both ask for its resourceVersion. A Job of another generation that was never started is
made anew; a stranger's is left alone.
"""

from collections.abc import Callable

from soloist.adapters.kube.answers import Clash, NotFound, Refusal
from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.job_body import (
    build_job,
    epoch_of,
    is_going,
    is_left_over,
    is_of_generation,
    is_ours,
    take_patch,
    was_started,
)
from soloist.adapters.kube.job_watch import JobWatch, Seen, job_path
from soloist.adapters.kube.store import slim
from soloist.domain.actions import FailedKnown, JobAction, Order
from soloist.domain.errors import PermanentError, TransientError
from soloist.ports import Raw

FIRST_WAIT = 0.2
TRIES = 5


class JobObjects:
    """``trusted``: may this process still act? Asked before one is taken."""

    def __init__(self, api: KubeApi, watch: JobWatch, *, trusted: Callable[[], bool]) -> None:
        self._api, self._watch, self._trusted = api, watch, trusted

    async def made(self, order: Order) -> Raw | FailedKnown:
        """A Job of this run that is of the order's generation, or that was started already."""
        if not isinstance(order.action, JobAction):
            raise PermanentError(f"{order.run_name}: the job launcher was given another kind of action.")
        body = build_job(order, order.action)
        for _ in range(TRIES):
            try:
                return slim(await self._api.request("POST", job_path(order.namespace), body))
            except Clash as error:
                if error.reason != "AlreadyExists":
                    raise TransientError(str(error), sent=False) from error
            except Refusal as error:
                return refused(error)
            there = await self._watch.read(order.namespace, order.run_name)
            if there is None:
                continue
            if is_ours(there, order):
                if was_started(there) or (is_of_generation(there, order) and not is_going(there)):
                    return there
            elif not is_left_over(there, order):
                return _name_taken(order)
            await self.remove(there, as_read=is_ours(there, order))
        raise changes(order)

    async def taken(self, order: Order, job: Raw) -> bool:
        """Taken for this term as it was read, so that nobody's start of before works any more. False: it is not so any more."""
        if not self._trusted() or epoch_of(job) > order.fence:
            raise TransientError(f"Job {order.run_name} is not taken: the term is over.", sent=False)
        try:
            path = job_path(order.namespace, order.run_name)
            await self._api.request("PATCH", path, take_patch(order, job), content_type=MERGE_PATCH)
        except (NotFound, Clash):
            return False
        return True

    async def remove(self, job: Raw, *, as_read: bool = False) -> None:
        """Delete that very Job with its Pods, and wait until it is gone. ``as_read``: not if it was started, or changed, since."""
        metadata = job["metadata"]
        seen = {name: metadata[name] for name in (("uid", "resourceVersion") if as_read else ("uid",))}
        options = {"preconditions": seen, "propagationPolicy": "Foreground"}
        try:
            await self._api.request("DELETE", job_path(metadata["namespace"], metadata["name"]), options)
        except (NotFound, Clash):
            return
        await self._watch.until(metadata["namespace"], metadata["name"], metadata["uid"], _is_gone, first=FIRST_WAIT)


def _is_gone(seen: Seen) -> bool:
    return seen.deleted or seen.missing


def changes(order: Order) -> TransientError:
    return TransientError(f"Job {order.namespace}/{order.run_name} changes under our hands", sent=False)


def refused(error: Refusal) -> FailedKnown:
    return FailedKnown(reason="JobRefused", message=str(error), retryable=False)


def _name_taken(order: Order) -> FailedKnown:
    message = f"A Job named {order.run_name} is there already and does not belong to this run: delete it or rename it."
    return FailedKnown(reason="NameTaken", message=message, retryable=False)
