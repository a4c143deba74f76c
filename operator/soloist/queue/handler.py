"""The port ``Deliverer`` by calling a function of the application's, which is a coroutine or runs in a thread of its own.

A thread cannot be ended from outside. So it is told (``ctx.cancelled``), and keeps its slot until it heeds that, or the
queue would start more threads than it has slots; the outcome of an attempt whose claim is lost is dropped by whoever holds
claims, and its fence could write nothing anyway. The threads are daemons: one that never ends does not keep a process that
is told to go. One that is over its time is given a moment to end, then its outcome is written without it.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from soloist.domain.claims import Claim, Done, Failed, Parked, Settled
from soloist.domain.delivery_key import delivery_key
from soloist.domain.delivery_outcome import wait_after
from soloist.domain.queue_spec import AfterCrash, QueueSpec
from soloist.queue.context import Context
from soloist.queue.errors import GiveUp, TryAgain

Handler = Callable[[Context], Any]
MOMENT = 1.0
"""Seconds for a handler to end that was told to."""

Ended = BaseException | None


class HandlerDeliverer:
    """``source`` says whose rows they are, as it does for deliveries over HTTP: a row's key is the same either way."""

    def __init__(
        self,
        spec: QueueSpec,
        handler: Handler,
        *,
        queue: str,
        source: str,
        seconds: float,
        boottime: Callable[[], float],
        drawn: Callable[[], float],
    ) -> None:
        self._spec, self._handler, self._queue, self._source = spec, handler, queue, source
        self._seconds, self._boottime, self._drawn = seconds, boottime, drawn
        self._awaited = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - an object whose __call__ is a coroutine function
        )

    async def deliver(self, claim: Claim) -> Settled:
        key = delivery_key(self._spec.idempotency_key, self._source, claim)
        context = Context(self._queue, claim, key, seconds=self._seconds, boottime=self._boottime)
        running = asyncio.ensure_future(self._awaiting(context)) if self._awaited else self._in_a_thread(context)
        try:
            while not running.done() and (left := context.left()) > 0:
                await asyncio.wait({running}, timeout=left)
        except asyncio.CancelledError:
            await self._told_to_stop(context, running, None)
            raise
        if running.done():
            return self._outcome(claim, running.result())
        await self._told_to_stop(context, running, MOMENT)
        return self._over_time(claim)

    async def _told_to_stop(self, context: Context, running: "asyncio.Future[Ended]", seconds: float | None) -> None:
        context.cancel()
        if self._awaited:
            running.cancel()
        await asyncio.wait({running}, timeout=seconds)

    async def _awaiting(self, context: Context) -> Ended:
        try:
            answer: Awaitable[Any] = self._handler(context)
            await answer
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its row's outcome
            return error
        return None

    def _in_a_thread(self, context: Context) -> "asyncio.Future[Ended]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Ended] = loop.create_future()
        around = contextvars.copy_context()

        def tell(ended: Ended) -> None:
            if not future.done():
                future.set_result(ended)

        def run() -> None:
            ended: Ended = None
            try:
                if inspect.isawaitable(around.run(self._handler, context)):
                    raise TypeError("the handler gave something to await: make it an async function itself")
            except BaseException as error:  # noqa: BLE001 - also SystemExit: it would end this thread and nothing else
                ended = error
            with suppress(RuntimeError):  # the loop is over, and nobody waits any more
                loop.call_soon_threadsafe(tell, ended)

        threading.Thread(target=run, name=f"{self._queue} {context.row}", daemon=True).start()
        return future

    def _outcome(self, claim: Claim, ended: Ended) -> Settled:
        if ended is None:
            return Done(claim=claim)
        text = f"{type(ended).__name__}: {ended}"
        if isinstance(ended, GiveUp):
            return Failed(claim=claim, error=text, retry_in=None)
        if isinstance(ended, TryAgain):
            return Failed(claim=claim, error=text, retry_in=self._wait(claim, ended.after))
        return self._unknown(claim, text)

    def _over_time(self, claim: Claim) -> Settled:
        return self._unknown(claim, f"The handler took longer than it may ({self._seconds:g} s, or ctx.extend()).")

    def _unknown(self, claim: Claim, text: str) -> Settled:
        """It may have done some of its work: the next attempt finds that by the key, or a person does."""
        if self._spec.after_crash is AfterCrash.HOLD:
            return Parked(claim=claim, error=text)
        return Failed(claim=claim, error=text, retry_in=self._wait(claim, None))

    def _wait(self, claim: Claim, after: timedelta | None) -> timedelta | None:
        planned = wait_after(claim, self._spec.retry, drawn=self._drawn())
        return planned if planned is None or after is None else after
