"""Rows to do, for applications in Python: enqueue them in a transaction of your own, and work them with a handler.

A room beside ``shells``: applications import this one, so it needs psycopg and nothing of the operator's (no kopf, no
Kubernetes, no web framework). The calls are a thin hand on the SQL functions, in whatever transaction the connection is in;
nothing here commits. ``soloist.queue.aio`` has the same calls for connections that are awaited.
"""

from soloist.queue.calls import (
    cancel,
    cancel_key,
    checkpoint,
    complete,
    enqueue,
    enqueue_many,
    once,
    read_checkpoint,
)
from soloist.queue.context import Context
from soloist.queue.errors import ClaimLost, GiveUp, StaleFence, TryAgain
from soloist.queue.worker import work, work_async

__all__ = [
    "ClaimLost",
    "Context",
    "GiveUp",
    "StaleFence",
    "TryAgain",
    "cancel",
    "cancel_key",
    "checkpoint",
    "complete",
    "enqueue",
    "enqueue_many",
    "once",
    "read_checkpoint",
    "work",
    "work_async",
]
