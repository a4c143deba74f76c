"""Settings of ``soloist standalone``: the same kind of table, with the controller's and the worker's names where they mean the same."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soloist.domain.errors import ConfigError
from soloist.domain.term import Timing
from soloist.shells.parsing import Network, Row, gathered, setting, table
from soloist.shells.settings import LogFormat, LogLevel, is_name
from soloist.shells.settings_rules import Rule, Timed, launching, serving

# ruff: noqa: RUF009 - setting() makes a dataclass field
_TIMING = Timing()
NEITHER = (
    "Name a database: --database postgresql://user@host/name for processes on any number of hosts, or --embedded for a"
    " PostgreSQL of this host's own (pip install 'soloist[embedded]'). Without one nobody could say which of two leads."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneSettings(Timed):
    """What one process is told at its start. Times are seconds."""

    files: tuple[str, ...] = setting(
        (), "manifest with ScheduledJobs and WorkQueues, or a folder of such; followed", flag="--file"
    )
    secrets: str = setting("", "folder with a folder for each Secret and a file for each key: NAME/KEY")
    database: str = setting("", "database URL; every process with the same one is a replica of one installation")
    embedded: bool = setting(False, "a PostgreSQL of this host's own, shared by its processes; one host only")
    data: str = setting("", "with --embedded: its folder; default: ~/.local/share/soloist")
    allow_exec: bool = setting(False, "run exec actions: commands on this host, with this process's rights")
    single_process: bool = setting(
        False, "hold no election, since there is one process; one that is started by mistake ends the other"
    )

    lease_name: str = setting("soloist", "name of the installation; two in one database need two names")
    lease_namespace: str = setting("standalone", "the first half of that name, for more of them", flag=None)
    lease_duration: float = setting(
        _TIMING.lease, "seconds that a silent leader keeps the lease: the longest hand-over"
    )
    lease_retry_period: float = setting(_TIMING.period, "seconds between renewals, and between a follower's polls")
    lease_margin: float = setting(_TIMING.margin, "seconds a leader stops early: covers clocks of unlike rates")

    health_address: str = setting("127.0.0.1", "address for /healthz, /readyz and /metrics")
    health_port: int = setting(0, "port for /healthz, /readyz and /metrics; 0 takes a free one, and says which")

    claim_ahead: float = setting(10.0, "seconds before its time that a run's row is written, to spread a burst")
    record_ahead: float = setting(
        2.0,
        "seconds before its time that a run may be recorded, at the most 2, and for each thousand that are due at once",
    )
    relist: float = setting(120.0, "seconds between whole looks at the rows of jobs and runs")
    staleness_limit: float = setting(300.0, "seconds since the database last answered, after which nothing is launched")
    grace: float = setting(25.0, "seconds that running actions and deliveries get at SIGTERM")

    http_allow: tuple[Network, ...] = setting(
        (), "network (CIDR) that http actions and urls in specs may lead to in spite of the refused ones"
    )
    http_deny: tuple[Network, ...] = setting((), "network (CIDR) that they may not lead to, on top of link-local")
    data_allow: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url out of a table may lead to in spite of the refused ones"
    )
    data_deny: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url out of a table may not lead to, on top of all that is not public"
    )
    max_http_runs: int = setting(1000, "http actions at one time: each holds a socket")

    log_level: LogLevel = setting(LogLevel.INFO, "debug, info, warning or error")
    log_format: LogFormat = setting(LogFormat.JSON, "json (one object a line) or text")
    crash_at: str = setting("", "for tests only: STAGE:child or STAGE:both is killed there", flag=None)

    def rules(self) -> Iterable[Rule]:
        return (*_rules(self), *launching(self), *serving(self))

    @property
    def folder(self) -> Path:
        """Of the embedded database."""
        return folder_of(self.data)

    @property
    def flags(self) -> str:
        """What names the database to a command. A URL is never repeated: it may hold a password."""
        data = f" --data {shlex.quote(self.data)}" if self.data else ""
        return f" --embedded{data}" if self.embedded else " --database URL"


def folder_of(data: str) -> Path:
    """Of an embedded database; empty: the default."""
    try:
        return Path(data or "~/.local/share/soloist").expanduser()
    except RuntimeError as error:
        raise ConfigError("data is missing, and this account has no home folder: write --data DIR.") from error


def rows() -> list[Row]:
    """The table of settings, in the order of the fields."""
    return table(StandaloneSettings)


def load(flags: Mapping[str, Any], env: Mapping[str, str]) -> StandaloneSettings:
    """``flags`` by field name, None or () where not given. Raises ConfigError with a sentence for the first that is wrong."""
    return StandaloneSettings(**gathered(rows(), flags, env))


def _rules(s: StandaloneSettings) -> list[Rule]:
    return [
        (bool(s.files), "file is missing: write -f DIR or -f FILE, a folder or a manifest with ScheduledJobs and WorkQueues."),
        (bool(s.database) or s.embedded, NEITHER),
        (not (s.database and s.embedded), "database and embedded are two databases: write one of the two."),
        (not s.data or s.embedded, "data is the folder of an embedded database: write --embedded too, or leave it out."),
        (s.max_http_runs >= 1, f"max-http-runs is {s.max_http_runs}: write 1 or more."),
        *((is_name(name), f"lease-name is {name!r}: write a name of a-z, 0-9, '-' and '.'.") for name in (s.lease_name, s.lease_namespace)),
    ]  # fmt: skip
