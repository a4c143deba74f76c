"""A second server on a copy of the first one's data: a backup to go back to, or a standby that streams until it is promoted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.children import until
from tests.postgres.account import as_account, give
from tests.postgres.server import Postgres, make_folder

STREAMS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn = pg_current_wal_lsn()"


def copy_of(server: Postgres, *options: str) -> Postgres:
    """Not started, with the data as they are now; `options` of pg_basebackup."""
    folder = make_folder()
    folder.chmod(0o711)
    other = Postgres(directory=folder, programs=server.programs)
    other.data.mkdir()
    give(other.data)
    take = [server.programs / "pg_basebackup", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"]
    subprocess.run(as_account([*take, "-D", other.data, "-c", "fast", *options], tied=True), check=True, cwd="/")
    other.data.chmod(0o700)
    return other


@contextmanager
def standby_of(server: Postgres, *, synchronous: bool) -> Iterator[Postgres]:
    """One that streams, and has all there is; `synchronous`: from now on no commit is answered before it is there too."""
    standby = copy_of(server, "-R", "-C", "-S", "standby")
    try:
        standby.start()
        until(lambda: streams(server), what="the standby streams", timeout=60)
        if synchronous:
            with server.connect() as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            mode = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            until(lambda: _number(server, mode), what="the standby is synchronous", timeout=60)
        yield standby
    finally:
        standby.down()


def streams(server: Postgres) -> bool:
    """Whether the standby has, and has replayed, everything."""
    return _number(server, STREAMS) == 1


def promote(standby: Postgres) -> None:
    with standby.connect() as connection:
        connection.execute("SELECT pg_promote()")


def _number(server: Postgres, query: str) -> int:
    with server.connect() as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
