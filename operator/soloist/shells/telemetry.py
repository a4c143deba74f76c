"""What a controller says of itself: one JSON object a line, and the names of its metrics.

A log message is constant; what varies are keys (``extra={…}``). No Secret gets out: keys that sound like one are hidden,
and so are passwords in URLs and bearer tokens anywhere in a line, tracebacks included. Metrics carry the namespace and
never the name of one job, so that their number does not grow with the jobs.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import islice
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from soloist.shells.settings import LogFormat, LogLevel

SKEW_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_BARE = logging.makeLogRecord({})
_OWN = set(vars(_BARE)) | {"message", "asctime", "taskName"}
_BEHIND = len(vars(_BARE))
_JSON = json.JSONEncoder(default=str).encode
_SECRET_KEY = re.compile(r"token|secret|password|authorization|credential", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)|(\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}", re.IGNORECASE)


_SIGNS = ("://", "bearer", "basic")


class JsonLines(logging.Formatter):
    """time, level, logger, message, then the keys of the record's ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{_second(int(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _hidden(_JSON(line))


class TextLines(logging.Formatter):
    """The same for a person at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        keys = "".join(f" {key}={value}" for key, value in _extra(record).items())
        return super().formatMessage(record) + keys

    def format(self, record: logging.LogRecord) -> str:
        return _hidden(super().format(record))


@lru_cache(maxsize=2)
def _second(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%S}"


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """It stands behind what every record has."""
    return {
        key: "(hidden)" if _sounds_secret(key) else value
        for key, value in islice(vars(record).items(), _BEHIND, None)
        if key not in _OWN and not key.startswith("_")
    }


@lru_cache(maxsize=1024)
def _sounds_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


def _hidden(line: str) -> str:
    folded = line.casefold()
    if not any(sign in folded for sign in _SIGNS):
        return line  # nearly every one, and thousands of them at a launch
    return _SECRET_TEXT.sub(lambda found: (found[1] or found[2]) + "***", line)


class _Worded(logging.Filter):
    def __init__(self, flags: str) -> None:
        super().__init__()
        self._flags = flags

    def filter(self, record: logging.LogRecord) -> bool:
        for key, value in _extra(record).items():
            if isinstance(value, str) and "kubectl" in value:
                from soloist.shells.cli_advice import without_a_cluster  # rare, and nothing for a process on a cluster

                setattr(record, key, without_a_cluster(value, self._flags))
        return True


def start_logging(level: LogLevel, form: LogFormat, stream: TextIO = sys.stderr, *, flags: str | None = None) -> None:
    """Every logger of the process through one formatter; libraries speak from warning on, unless debug is asked for.

    ``flags``: commands are advised to somebody without a cluster, who adds these.
    """
    output = logging.StreamHandler(stream)
    if flags is not None:
        output.addFilter(_Worded(flags))
    output.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines())
    logging.basicConfig(handlers=[output], level=level.upper(), force=True)
    # What no line of ours has need not be found out for each of thousands.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the library's documentation has it: not where in the code it was said, either
    quiet = logging.DEBUG if level is LogLevel.DEBUG else logging.WARNING
    for library in ("kopf", "kubernetes", "urllib3", "aiohttp", "asyncio"):
        logging.getLogger(library).setLevel(quiet)


class Metrics:
    """The metrics by name; the methods are what happens, in the words of the design."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        self._leader = Gauge("soloist_leader", "1 while this process leads.", registry=registry)
        self._epoch = Gauge(
            "soloist_term_epoch", "Epoch (fence) of the term that this process leads; 0: none.", registry=registry
        )
        self._due = Counter(
            "soloist_due",
            "Ticks that came due and are decided: recorded, a moment before their time, or let go with a reason.",
            ["namespace"],
            registry=registry,
        )
        self._launched = Counter(
            "soloist_launched", "Ticks that were launched, each at its first attempt.", ["namespace"], registry=registry
        )
        self._runs = Counter("soloist_runs", "Runs that ended, by phase.", ["namespace", "result"], registry=registry)
        self._missed = Counter(
            "soloist_ticks_missed",
            "Ticks decided without a launched run, by reason.",
            ["namespace", "reason"],
            registry=registry,
        )
        self._skew = Histogram(
            "soloist_launch_skew_seconds",
            "From a tick's nominal time (with its jitter) to the launch.",
            ["action"],
            buckets=SKEW_BUCKETS,
            registry=registry,
        )
        self._errors = Counter("soloist_errors", "Errors that were survived, by where.", ["where"], registry=registry)
        self._writes = Counter(
            "soloist_api_writes", "Creates and updates sent to the API server.", ["kind"], registry=registry
        )
        self._jobs = Gauge("soloist_jobs", "ScheduledJobs that this process knows.", registry=registry)
        self._handover = Histogram(
            "soloist_handover_seconds",
            "From the end of the term before (release, evidence, last change) to this process leading.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0),
            registry=registry,
        )

        # To find a child by its labels takes longer than to count one up.
        self._due_in, self._launched_in = cache(self._due.labels), cache(self._launched.labels)
        self._skew_of = cache(self._skew.labels)
        self._runs_of, self._writes_of = cache(self._runs.labels), cache(self._writes.labels)

    def leading(self, epoch: int | None) -> None:
        self._leader.set(0 if epoch is None else 1)
        self._epoch.set(epoch or 0)

    def due(self, namespace: str, count: int) -> None:
        self._due_in(namespace).inc(count)

    def run_ended(self, namespace: str, result: str) -> None:
        self._runs_of(namespace, result).inc()

    def tick_missed(self, namespace: str, reason: str, count: int = 1) -> None:
        self._missed.labels(namespace, reason).inc(count)

    def launched(self, namespace: str, action: str, skew: float) -> None:
        self._launched_in(namespace).inc()
        self._skew_of(action).observe(skew)

    def error(self, where: str) -> None:
        self._errors.labels(where).inc()

    def api_write(self, kind: str) -> None:
        self._writes_of(kind).inc()

    def jobs(self, count: int) -> None:
        self._jobs.set(count)

    def handover(self, seconds: float) -> None:
        self._handover.observe(seconds)
