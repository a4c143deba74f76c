"""What a run does, and what came of one attempt, as values.

The action is always taken from the ScheduledJob, never from the JobRun: whoever may create JobRuns may trigger a job,
but not choose what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRef:
    """One key of a Secret or ConfigMap in the ScheduledJob's own namespace."""

    kind: str
    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A request header: either ``value`` (a template) or ``ref`` (a Secret's key), never both."""

    name: str
    value: str | None = None
    ref: KeyRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAction:
    """One HTTP request. ``expected`` are inclusive ranges of status codes; ``ca`` a PEM bundle to verify the server by."""

    url: str
    method: str = "POST"
    headers: tuple[Header, ...] = ()
    body: str | None = None
    expected: tuple[tuple[int, int], ...] = ((200, 299),)
    follow_redirects: bool = False
    verify: bool = True
    ca: KeyRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction:
    """A batch/v1 Job made from ``template`` (a JobTemplateSpec as the API server gave it)."""

    template: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAction:
    """One statement in the database whose URI ``database`` holds; ``$n`` in it is the n-th of ``values``, texts are templates."""

    database: KeyRef
    statement: str
    values: tuple[str | int | float | bool | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueAction:
    """One row for a queue: that of a WorkQueue in the job's namespace, or else ``queue`` in the database of ``database``.

    ``due_in`` counts on the database's clock. Texts in ``payload``, and ``unique_key``, are templates.
    """

    work_queue: str = ""
    database: KeyRef | None = None
    queue: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    due_in: timedelta = timedelta(0)
    priority: int = 1
    unique_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecAction:
    """A command on the leader's own host, without a shell; where there is a cluster, ``job`` is there for that."""

    command: tuple[str, ...]


Action = HttpAction | JobAction | SqlAction | EnqueueAction | ExecAction

KINDS: Mapping[type[Action], str] = {
    HttpAction: "http",
    JobAction: "job",
    SqlAction: "sql",
    EnqueueAction: "enqueue",
    ExecAction: "exec",
}


def kind_of(action: Action) -> str:
    """The field of the spec that holds it."""
    return KINDS[type(action)]


def ledger_of(action: Action) -> str:
    """Where the ledger of a run with this action is; empty where there is none."""
    match action:
        case SqlAction(database=ref) | EnqueueAction(database=KeyRef() as ref):
            return f"secret/{ref.name}/{ref.key}"
        case EnqueueAction(work_queue=name):
            return f"workqueue/{name}"
    return ""


def asking(ledger: str) -> Action:
    """An action of no effect, to ask that ledger of a run whatever its job does by now."""
    kind, _, rest = ledger.partition("/")
    name, _, key = rest.partition("/")
    return (
        SqlAction(database=KeyRef(kind="Secret", name=name, key=key), statement="")
        if kind == "secret"
        else EnqueueAction(work_queue=name)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that one attempt needs to know. ``key`` is the same for all attempts of a run; ``fence`` is the term's epoch.

    ``prepared``: what its record says was made ready for it, by uid; to find what became of it.
    """

    namespace: str
    job_name: str
    job_uid: str
    generation: int
    run_name: str
    run_uid: str
    scheduled_time: datetime | None
    attempt: int
    key: str
    fence: int
    timeout: timedelta
    action: Action
    prepared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a person may want to see of the answer; ``excerpt`` is at most 1 KiB of text."""

    status_code: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The action did what was asked."""

    message: str = ""
    response: Response | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedKnown:
    """It is certain that the action did not succeed. ``retryable``: nothing was sent, or 408, 425, 429, 5xx."""

    reason: str
    message: str
    retryable: bool
    response: Response | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOutcome:
    """Something was sent and nobody can say what became of it: a time-out or a reset after sending."""

    reason: str
    message: str


Outcome = Succeeded | FailedKnown | UnknownOutcome
