"""Statements of a thread of its own, each bounded as a whole: for whoever keeps the lease.

libpq's time-outs are per step (an address, a read), and the look-up of a name has none. So a statement runs in a thread of
its own; when its time is over the socket is shut under it and the caller goes on. One that has not been sent by then never
is: that is settled under a lock. A connection is kept for the next statement, and is the elector's alone. It holds no
state, so a transaction pooler may lie in between.
"""

import threading
from concurrent.futures import Future
from typing import Any

import psycopg

from soloist.adapters.postgres.connections import shut, spoken_to
from soloist.adapters.postgres.database import Row, Values
from soloist.adapters.postgres.failures import OPTION, STANDALONE, translated, unreached
from soloist.adapters.postgres.url import DatabaseUrl
from soloist.domain.errors import TransientError

_Connection = psycopg.Connection[Any]
LEAST_CONNECT = 2
"""Seconds; libpq takes a lesser time to connect for this one."""


class BoundedDatabase:
    """One connection at a time, opened when it is first wanted. ``fetch`` is for one thread."""

    def __init__(self, url: DatabaseUrl, *, program: str = "soloist") -> None:
        self.name = url.name
        self._settings = settings_of(url, program)
        self._kept: _Connection | None = None

    def fetch(self, query: bytes, values: Values, *, timeout: float) -> list[Row]:
        """The rows of one statement, which has committed, within ``timeout`` seconds; else TransientError or PermanentError."""
        kept, self._kept = self._kept, None
        attempt = _Attempt(self.name, self._settings, kept)
        outcome: Future[list[Row]] = Future()

        def run() -> None:
            try:
                outcome.set_result(attempt.fetch(query, values, timeout))
            except BaseException as error:  # noqa: BLE001 - handed to the caller, or to nobody once it has given up
                outcome.set_exception(error)

        threading.Thread(target=run, name="lease-request", daemon=True).start()
        try:
            rows = outcome.result(timeout)
        except TimeoutError as error:
            sent = attempt.give_up()
            raise TransientError(f"{self.name}: no answer within {timeout:g} s", sent=sent) from error
        except psycopg.Error as error:
            attempt.give_up()
            raise translated(error, self.name, role=attempt.role, grant=STANDALONE) from error
        self._kept = attempt.connection
        return rows

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def settings_of(url: DatabaseUrl, program: str = "soloist") -> dict[str, Any]:
    """For libpq: of several hosts the one that takes writes, unless the URL says otherwise."""
    several = {"target_session_attrs": "read-write"} if "," in url.libpq.get("host", "") else {}
    return {"application_name": program, **several, **url.libpq, "client_encoding": "UTF8"}


class _Attempt:
    """One statement, in its thread. ``connection`` is the one it used, for the next; it is closed where it is given up."""

    def __init__(self, name: str, settings: dict[str, Any], kept: _Connection | None) -> None:
        self._name, self._settings, self.connection = name, settings, kept
        self._lock, self._given_up, self._sent = threading.Lock(), False, False
        self.role = "role"

    def fetch(self, query: bytes, values: Values, timeout: float) -> list[Row]:
        connection = self._connected(timeout)
        with self._lock:
            if self._given_up:
                connection.close()
                raise TransientError(f"{self._name}: connected too late", sent=False)
            self.connection, self._sent, self.role = connection, True, connection.info.user
        try:
            return connection.execute(query, values).fetchall()
        except psycopg.Error:
            connection.close()
            raise

    def give_up(self) -> bool:
        """Whether the statement may have been sent."""
        with self._lock:
            self._given_up = True
            if self._sent and self.connection is not None:
                shut(self.connection)
            return self._sent

    def _connected(self, timeout: float) -> _Connection:
        if self.connection is not None and not spoken_to(self.connection):
            return self.connection
        if self.connection is not None:
            self.connection.close()
        seconds = max(LEAST_CONNECT, round(timeout))
        try:
            return psycopg.connect(
                autocommit=True, prepare_threshold=None, **{"connect_timeout": seconds, **self._settings}
            )
        except psycopg.Error as error:
            raise unreached(error, self._name, url=OPTION) from error
