"""A PostgreSQL of this host's own, in one folder: whoever needs it and finds none running starts it, the others join.

Who starts, and who stops, is settled by locks on files in the folder, which the kernel lifts when their holder dies. The
server leads a session of its own and outlives whoever started it, so a process that is killed takes nobody's database along;
the last one to leave in order stops it. Every durability setting is at its default: what was committed is there after a
power cut. Only a socket in that folder leads to it, which only its owner may use, so no password is needed.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import psycopg

from soloist.adapters.clock import SystemClock
from soloist.adapters.postgres.wheel import Account, check_version, programs, within_reach
from soloist.domain.errors import ConfigError, TransientError

NAME = "soloist"
MARK = "cluster_name=soloist-embedded"
"""On the server's command line: how it is told from what a dead process left behind by mistake."""

START_SECONDS, STOP_SECONDS = 60.0, 30.0
LONGEST_FOLDER = 85
"""Letters: a socket's path has at most 107."""

_clock = SystemClock()


class Embedded:
    """``folder`` is made where it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        if len(os.fsencode(self.folder)) > LONGEST_FOLDER:
            raise ConfigError(
                f"The folder of --data is {str(self.folder)!r}: its path is too long for a socket; write one of {LONGEST_FOLDER} letters or less."
            )
        self._data, self._programs = self.folder / "pgdata", programs()
        self._account = Account.found(self._data)
        self._user: int | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For whoever may enter the folder."""
        return f"postgresql://{NAME}@/{NAME}?host={quote(str(self.folder), safe='')}"

    def join(self) -> bool:
        """Use it until ``leave``, or death. Whether it had to be started. Raises ConfigError or TransientError."""
        try:
            self._make_folder()
            with self._locked():
                if self._user is None:
                    self._user = os.open(self.folder / "users", os.O_CREAT | os.O_RDWR, 0o600)
                    fcntl.flock(self._user, fcntl.LOCK_SH)
                return self._start()
        except OSError as error:
            raise ConfigError(
                f"The folder of --data is {str(self.folder)!r}, and cannot be used ({error.strerror}): name a folder of yours."
            ) from error

    def runs(self) -> bool:
        """Whether the server is there; quick."""
        if self._server is not None:
            self._server.poll()
        return self._postmaster() is not None

    def leave(self) -> bool:
        """Whether nobody else uses it, and it was stopped."""
        if self._user is None:
            return False
        with self._locked():
            user, self._user = self._user, None
            try:
                fcntl.flock(user, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            finally:
                os.close(user)
            return self._stop()

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = {each.name for each in self.folder.iterdir()} - {"lost+found"}
        if there and "lock" not in there:
            raise ConfigError(
                f"The folder of --data is {str(self.folder)!r}, in which other things are ({min(there)}): name a folder of its own."
            )
        self._account.give(self.folder)
        if (shut := self._account.shut_out(self.folder)) is not None:
            raise ConfigError(
                f"The folder of --data is {str(self.folder)!r}, and {shut} lets only its owner in: PostgreSQL does not run as root, so name"
                " a folder that its account can reach, such as /var/lib/soloist."
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time starts or stops it."""
        fd = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _start(self) -> bool:
        if self._postmaster() is not None and self._answers() is None:
            return False
        self._programs = within_reach(self._programs, self._account, self.folder)
        if not self._data.exists():
            self._init()
        check_version(self._data, self._programs)
        place = [f"unix_socket_directories={self.folder}", "unix_socket_permissions=0700"]
        settings = [MARK, "listen_addresses=", *place, "max_connections=200"]
        argv: list[str | Path] = [
            self._programs / "postgres",
            "-D",
            self._data,
            *(part for each in settings for part in ("-c", each)),
        ]
        until, started = _clock.boottime() + START_SECONDS, False
        while (said := self._answers()) is not None:
            if _clock.boottime() >= until:
                raise TransientError(f"The embedded PostgreSQL does not start ({said}): see {self._log}.", sent=False)
            # One whose postmaster was killed refuses to start until the last of its processes has gone.
            if self._postmaster() is None and (self._server is None or self._server.poll() is not None):
                self._server, started = self._run(argv), True
            time.sleep(0.1)
        return started

    def _init(self) -> None:
        half = self.folder / "pgdata.half"
        self._wait(["rm", "-rf", half])
        options = ["-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        self._wait([self._programs / "initdb", "-D", half, *options])
        half.rename(self._data)

    def _wait(self, argv: Sequence[str | Path]) -> None:
        if self._run(argv).wait():
            raise ConfigError(f"{Path(argv[0]).name} failed: see {self._log}.")

    def _run(self, argv: Sequence[str | Path]) -> "subprocess.Popen[bytes]":
        with open(self._log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            try:
                return subprocess.Popen(
                    list(map(str, argv)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                    **self._account.options,
                )
            except OSError as error:
                raise ConfigError(f"{argv[0]} cannot be run: {error.strerror}.") from error

    def _answers(self) -> str | None:
        """None: it takes connections, and our database is there."""
        try:
            with psycopg.connect(self._dsn("postgres"), autocommit=True, connect_timeout=5) as connection:
                if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (NAME,)).rowcount:
                    connection.execute(f"CREATE DATABASE {NAME}")
        except psycopg.Error as error:
            return " ".join(str(error).split())[:200]
        return None

    def _dsn(self, name: str) -> str:
        return psycopg.conninfo.make_conninfo(host=str(self.folder), user=NAME, dbname=name)

    def _postmaster(self) -> int | None:
        """Its number, where the one of the pid file is still that server."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return None
        return pid if MARK.encode() in command and os.fsencode(self._data) in command else None

    def _stop(self) -> bool:
        pid = self._postmaster()
        if pid is None:
            return False
        os.kill(pid, signal.SIGINT)
        until = _clock.boottime() + STOP_SECONDS
        while self.runs() and _clock.boottime() < until:
            time.sleep(0.02)
        return True

    @property
    def _log(self) -> Path:
        return self.folder / "postgres.log"
