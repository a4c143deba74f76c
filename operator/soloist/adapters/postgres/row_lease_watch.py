"""Wakes an elector when its row changes hands: one connection that listens, in a thread of its own.

Nothing that it hears is believed, and nothing waits for it: the elector reads each period anyway. So a connection that is
cut, dead without a word, or behind a pooler in transaction mode costs at most that period. It says nothing while it waits,
so it costs the database no statement.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from soloist.adapters.postgres.bounded import settings_of
from soloist.adapters.postgres.connections import shut
from soloist.adapters.postgres.row_changes import CHANNEL, concerns
from soloist.adapters.postgres.url import DatabaseUrl
from soloist.domain.holder_pod import HolderPod

logger = logging.getLogger(__name__)

_CONNECT_SECONDS, _PAUSE, _LONG = 5, 1.0, 3600.0
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class RowLeaseWatch:
    """``seen`` is called, in that thread, whenever the lease of ``shard`` may have changed hands."""

    def __init__(self, url: DatabaseUrl, *, shard: str, seen: Callable[[], None]) -> None:
        self._settings = {"connect_timeout": _CONNECT_SECONDS, **_ALIVE, **settings_of(url)}
        self._shard, self._seen = shard, seen
        self._ended = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="lease-watch", daemon=True)

    def start(self) -> None:
        """From now on, until the process ends or ``stop``."""
        self._thread.start()

    def follow(self, holder: HolderPod | None) -> None:
        """There are no Pods to be watched."""

    def stop(self) -> None:
        """End the thread soon."""
        self._ended.set()
        if self._connection is not None:
            shut(self._connection)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                logger.debug("watch ended", extra={"shard": self._shard, "error": str(error)})
            self._ended.wait(_PAUSE)

    def _listen(self) -> None:
        with psycopg.connect(autocommit=True, prepare_threshold=None, **self._settings) as connection:
            self._connection = connection
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self._seen()
            while not self._ended.is_set():
                for notice in connection.notifies(timeout=_LONG):
                    if concerns(notice.payload, self._shard) == "lease":
                        self._seen()
