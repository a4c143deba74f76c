"""One database: its connections, what every statement on it is bound by, and its failures as errors of ours.

On the main path a statement is a transaction of its own, in one round trip. What it is bound by (``statement_timeout``,
and the search path where the URL names a schema) is the session's where that is known to be ours alone. Behind a pooler
it goes ahead of the statement in the same round trip and ends with it, so nothing is left in somebody else's session.
Should the server not answer at all, the socket is shut a little later, and the caller hears of that instead of waiting on.

Renewals have a connection of their own (unless the URL allows one in all), since a claim that is renewed too late is lost
for no reason. Databases share nothing, so one that is down stops its own queues only.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from soloist.adapters.postgres.connections import Connection, Connections, shut
from soloist.adapters.postgres.failures import READ_ONLY, WORK, translated, unreached
from soloist.adapters.postgres.url import DatabaseUrl
from soloist.domain.errors import TransientError

Values = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]

_BOUND = b"SELECT pg_catalog.set_config('statement_timeout', %s, %s)"
_BOUND_AND_PATH = _BOUND + b", pg_catalog.set_config('search_path', pg_catalog.quote_ident(%s), %s)"
# The server is to be the first to give up: it then says so, and the connection can be used again.
GRACE = 2.0


class Database:
    """``program`` is how connections call themselves unless the URL says otherwise; ``grant`` what they need of our schema."""

    def __init__(self, url: DatabaseUrl, *, program: str = "soloist", grant: str = WORK) -> None:
        self.url, self.name, self._program, self._grant, self._role = url, url.name, program, grant, "role"
        apart = 1 if url.connections > 1 else 0
        self._main = self._connections(url.connections - apart)
        self._renewals = self._connections(1) if apart else self._main

    async def fetch(
        self,
        query: bytes,
        values: Values = (),
        *,
        ahead: bytes | None = None,
        renewal: bool = False,
        most_seconds: float | None = None,
    ) -> list[Row]:
        """The rows of one statement, which has committed. Raises TransientError, PermanentError or RowRefused.

        ``ahead`` is a statement that goes before it in the same transaction and round trip: what its planner has to heed.
        """
        seconds = most_seconds or self.url.statement_timeout
        connections = self._renewals if renewal else self._main
        async with self._speaking(connections, seconds + GRACE) as connection:
            cursor = connection.cursor(binary=True)
            if connection.bound == seconds and ahead is None:
                await cursor.execute(query, values)
                return await cursor.fetchall()
            async with connection.one_trip():
                await self._bind(connection, seconds)
                if ahead is not None:
                    await connection.execute(ahead)
                await cursor.execute(query, values)
            return await cursor.fetchall()

    @asynccontextmanager
    async def transaction(self, *, most_seconds: float | None = None) -> AsyncIterator[Connection]:
        """Several statements that commit together when the block ends. Each has ``most_seconds``; all of them, twice that."""
        seconds = most_seconds or self.url.statement_timeout
        async with self._speaking(self._main, 2 * seconds + GRACE) as connection, connection.transaction():
            await self._bind(connection, seconds)
            yield connection

    @asynccontextmanager
    async def lent(self, *, seconds: float) -> AsyncIterator[Connection]:
        """A connection to whoever begins and commits by itself; nothing bounds its statements but that time."""
        async with self._speaking(self._main, seconds) as connection:
            yield connection

    async def apart(self) -> Connection:
        """One more connection, for what needs a session to itself; whoever asked for it closes it."""
        return await self._connect()

    async def close(self) -> None:
        await self._main.close()
        await self._renewals.close()

    async def _bind(self, connection: Connection, seconds: float, *, local: bool = True) -> None:
        """For the rest of the transaction, or of the session."""
        timeout = str(round(seconds * 1000))
        if self.url.schema is None:
            await connection.execute(_BOUND, (timeout, local))
        else:
            await connection.execute(_BOUND_AND_PATH, (timeout, local, self.url.schema, local))

    @asynccontextmanager
    async def _speaking(self, connections: Connections, seconds: float) -> AsyncIterator[Connection]:
        """A connection whose socket is shut after that time, and whose errors are ours.

        Cancelling instead would not do: psycopg then asks the server to stop, and waits for it ten seconds more.
        """
        async with connections.one() as connection:
            late = asyncio.get_running_loop().call_later(seconds, shut, connection)
            try:
                yield connection
            except psycopg.Error as error:
                if late.when() <= asyncio.get_running_loop().time():
                    raise TransientError(f"{self.name} did not answer within {seconds:g} s.", sent=True) from error
                # Read-only by a default of its session, or as a standby: another one may be neither.
                connection.stale = error.sqlstate == READ_ONLY
                raise translated(error, self.name, role=self._role, grant=self._grant) from error
            finally:
                late.cancel()

    def _connections(self, most: int) -> Connections:
        return Connections(
            self._connect,
            most=most,
            wait=self.url.pool_timeout,
            lifetime=self.url.lifetime,
            idle=self.url.idle,
            where=self.name,
        )

    async def _connect(self) -> Connection:
        settings: dict[str, Any] = {"application_name": self._program, **self.url.libpq}
        settings["connect_timeout"] = round(self.url.connect_timeout)
        # Whatever the database is kept in: our statements and its names are read and written in this.
        settings["client_encoding"] = "UTF8"
        hosts = settings.get("host", "").count(",") + 1
        try:
            # Around psycopg's own limit, which holds for each address and leaves out the look-up of names.
            async with asyncio.timeout(self.url.connect_timeout * hosts + GRACE):
                connection = await Connection.connect(autocommit=True, prepare_threshold=None, **settings)
                self._role = connection.info.user
                try:
                    await self._make_ours(connection)
                except BaseException:
                    await connection.close()
                    raise
                return connection
        except TimeoutError:
            raise TransientError(
                f"{self.name} cannot be reached: no answer in {self.url.connect_timeout:g} s.", sent=False
            ) from None
        except psycopg.Error as error:
            raise unreached(error, self.name) from error

    async def _make_ours(self, connection: Connection) -> None:
        """Sets up a session that nobody else can come by."""
        if self.url.pooler or not await _direct(connection):
            return
        await self._bind(connection, self.url.statement_timeout, local=False)
        connection.bound = self.url.statement_timeout
        if self.url.prepared:
            connection.prepare_threshold, connection.prepared_max = 5, self.url.prepared


async def _direct(connection: Connection) -> bool:
    """Whether no pooler lies in between, whatever the URL says: a pooler gives itself away by a process id of its own.

    What is prepared behind one may be another client's statement of the same name.
    """
    cursor = await connection.execute(b"SELECT pg_catalog.pg_backend_pid()")
    return await cursor.fetchone() == (connection.info.backend_pid,)
