"""Pages that users see, made of fixed worlds. ``python -m tests.shells.cli_pages`` writes the golden files anew."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from soloist.domain.dead_letter import Letter
from soloist.domain.findings import Finding, error, note, warning
from soloist.ports import Raw
from soloist.shells.cli import cli
from soloist.shells.cli_preview import from_file, from_text, preview
from soloist.shells.cli_queue_check import page as check_page
from soloist.shells.cli_queue_dead import page as dead_page
from soloist.shells.cli_queue_list import overview as queues_page
from soloist.shells.cli_reading import Leases
from soloist.shells.cli_runs import runs_of, why_of
from soloist.shells.cli_status import overview
from tests.domain.why_world import at, entry, facts, job, lease, line, run
from tests.shells.queue_world import letter, place, queue

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
NOW = at("12:00:30")
COMMANDS = ("status", "runs", "why", "trigger", "pause", "resume", "preview", "migrate", "queue")
QUEUE_COMMANDS = ("list", "check", "register", "dead", "retry", "purge")
BERLIN = {"spec": {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}}

FINE = job("report", watermark=at("12:00"), lastScheduleTime="2026-10-15T12:00:00Z", lastResult="Succeeded")
TROUBLED = [
    FINE,
    job("asleep", spec={"suspend": True}, watermark=at("11:00")),
    job("emails", spec={"schedule": "*/5 * * * *"}, watermark=at("12:00"), lastScheduleTime="2026-10-15T12:00:00Z", lastResult="Unknown", consecutiveFailures=1, active=[entry(at("12:00"), of="emails")]),
    job("payroll", spec={"schedule": "0 2 31 2 *"}),
    job("sweep", watermark=at("12:00"), consecutiveFailures=5, lastResult="Failed", paused={"since": "2026-10-15T10:00:05Z", "reason": "TooManyFailures", "message": "…"}),
    job("stuck", watermark=at("09:00"), lastScheduleTime="2026-10-15T09:00:00Z", lastResult="Succeeded"),
]  # fmt: skip
HISTORY = facts(
    NOW,
    run(at("09:00"), "Succeeded", attempt=1, startTime="2026-10-15T09:00:00.012Z", completionTime="2026-10-15T09:00:00.052Z"),
    run(at("10:00"), "Failed", attempt=3, reason="ConnectionFailed", message="Nothing was sent to http://backend:80: the connection failed.", startTime="2026-10-15T10:00:40Z", completionTime="2026-10-15T10:00:45Z"),
    run(None, "Succeeded", created=at("10:30"), attempt=1, startTime="2026-10-15T10:30:00Z", completionTime="2026-10-15T10:31:40Z"),
    run(at("12:00"), "Running", attempt=1, startTime="2026-10-15T12:00:00Z"),
    active=[entry(at("12:00"))],
    watermark=at("12:00"),
    recent=[line("Succeeded", at("02:00"), at("09:00"), 8), line("Failed", at("10:00")), line("Blocked", at("11:00"), message="Run x was not over.")],
)  # fmt: skip

VALID = {"type": "Valid", "status": "True", "reason": "Accepted", "message": "The queue can be worked."}
SERVED = {
    "type": "Valid",
    "status": "False",
    "reason": "AlreadyServed",
    "message": 'The table public."WebhookDelivery" is already served by billing/webhooks: one WorkQueue works a table, so delete one of the two, or name another table in spec.table.name.',
}
MAPPED = {"table": {"name": 'public."WebhookDelivery"'}}
MEASURED = {
    "ready": 1200,
    "scheduled": 40,
    "inFlight": 64,
    "dead": 0,
    "oldestDueSeconds": 95,
    "measuredTime": "2026-10-15T12:00:20Z",
}
QUEUES = [
    queue("emails", conditions=[VALID], **{**MEASURED, "ready": 0, "oldestDueSeconds": 0}),
    queue("webhooks", MAPPED, conditions=[VALID], **{**MEASURED, "dead": 3}),
    queue("webhooks-again", MAPPED, conditions=[SERVED]),
    queue("export", {"suspend": True}, conditions=[VALID], **MEASURED),
    queue("funding", {"leaseSeconds": 1}),
    queue("new"),
]
DATABASE = "the database app at db.billing.svc"
FINDINGS = [
    error(
        "Grants",
        'The role worker lacks rights on public."WebhookDelivery". Run: GRANT UPDATE ("status") ON "public"."WebhookDelivery" TO "worker";',
    ),
    warning(
        "DueIndexMissing",
        'No index serves a claim. Run: CREATE INDEX CONCURRENTLY ON "public"."WebhookDelivery" ("status", "nextAttemptAt");',
        column="nextAttemptAt",
    ),
    note("Pooler", "A connection pooler is in front of the database. Transaction pooling is fine."),
]
LETTERS = [
    letter(41, at("09:00"), row=("ckv1",), error="HTTP 410: this endpoint is gone", attempt=2),
    letter(42, at("11:59:30"), row=("ckv2",), reason="Interrupted", attempt=3, reclaims=1),
]  # fmt: skip


def _queues(*objects: Raw, everywhere: bool = False) -> list[str]:
    where = "all namespaces" if everywhere else "namespace billing"
    return queues_page(objects, NOW, where=where, everywhere=everywhere)[1]


def _check(*findings: Finding, served: str = "", **spec: object) -> list[str]:
    return check_page(place("webhooks", MAPPED | spec, served=served), DATABASE, findings)[1]


def _dead(*letters: Letter, mapped: bool, more: bool = False) -> list[str]:
    at_place = place("webhooks", MAPPED if mapped else {})
    return dead_page(at_place, letters, now=NOW, more=more, mapped=mapped)[1]


def _overview(*jobs: object, leases: Leases, everywhere: bool = False) -> list[str]:
    where = "all namespaces" if everywhere else "namespace billing"
    return overview(jobs, leases, NOW, where=where, everywhere=everywhere)[1]  # type: ignore[arg-type]


def _nightly(day: datetime) -> Callable[[str], list[str]]:
    return lambda asked: why_of(facts(day, since=datetime(2026, 1, 1, tzinfo=UTC), watermark=day, **BERLIN), asked)[1]


def _preview(text: str, zone: str, policy: str) -> list[str]:
    return preview(from_text(text, zone, policy), start="2026-10-23", now=NOW, count=5)[1]


def _help(*command: str) -> list[str]:
    return CliRunner().invoke(cli, [*command, "--help"], terminal_width=110, prog_name="soloist").output.splitlines()


ONE = Leases(found=(lease(NOW),))
AUTUMN, SPRING = datetime(2026, 10, 25, 12, tzinfo=UTC), datetime(2026, 3, 29, 12, tzinfo=UTC)

PAGES: dict[str, Callable[[], Iterable[str]]] = {
    "status": lambda: _overview(FINE, leases=ONE),
    "status-problems": lambda: _overview(*TROUBLED, leases=ONE, everywhere=True),
    "status-no-leader": lambda: _overview(FINE, leases=Leases(found=(lease(NOW, renewed=300),))),
    "status-released": lambda: _overview(FINE, leases=Leases(found=(lease(NOW, holder=""),))),
    "status-fleet-paused": lambda: _overview(FINE, leases=Leases(found=(lease(NOW, paused="true: migration"),))),
    "status-leader-not-known": lambda: _overview(FINE, leases=Leases(found=(), unknown="you may not.")),
    "status-nothing": lambda: _overview(leases=Leases(found=())),
    "runs": lambda: runs_of(HISTORY)[1],
    "runs-none": lambda: runs_of(facts(NOW))[1],
    "why": lambda: why_of(HISTORY, None)[1],
    "why-invalid": lambda: why_of(facts(NOW, of=TROUBLED[3]), None)[1],
    "why-blocked": lambda: why_of(HISTORY, "11:00")[1],
    "why-failed": lambda: why_of(HISTORY, "2026-10-15 10:00")[1],
    "why-folded": lambda: why_of(HISTORY, "2026-10-15T05:00:00Z")[1],
    "why-not-a-tick": lambda: why_of(HISTORY, "10:30")[1],
    "why-ahead": lambda: why_of(HISTORY, "2026-10-15 13:00")[1],
    "why-no-leader": lambda: why_of(facts(NOW, watermark=at("11:00"), leading=False), "12:00")[1],
    "why-twice": lambda: _nightly(AUTUMN)("02:30"),
    "why-skipped-hour": lambda: _nightly(SPRING)("2026-03-29 02:30"),
    "preview-shift": lambda: _preview("30 2 * * *", "Europe/Berlin", "Shift"),
    "preview-wall-clock": lambda: _preview("30 2 * * *", "Europe/Berlin", "WallClock"),
    "preview-real-time": lambda: _preview("*/5 * * * *", "Europe/Berlin", "Shift"),
    "preview-example": lambda: preview(
        from_file(str(EXAMPLES / "http-catch-up.yaml"))[0], start=None, now=NOW, count=3
    )[1],
    "queue-list": lambda: _queues(*QUEUES[:1]),
    "queue-list-problems": lambda: _queues(*QUEUES, everywhere=True),
    "queue-list-nothing": lambda: _queues(),
    "queue-check": lambda: _check(),
    "queue-check-findings": lambda: _check(*FINDINGS, served=SERVED["message"]),
    "queue-check-suspended": lambda: _check(FINDINGS[2], suspend=True),
    "queue-dead": lambda: _dead(*LETTERS, mapped=False),
    "queue-dead-rows": lambda: _dead(*LETTERS, mapped=True, more=True),
    "help": lambda: _help(),
    **{f"help-{command}": lambda command=command: _help(command) for command in COMMANDS},  # type: ignore[misc]
    **{f"help-queue-{command}": lambda command=command: _help("queue", command) for command in QUEUE_COMMANDS},  # type: ignore[misc]
}


def page(name: str) -> str:
    return "\n".join(PAGES[name]()) + "\n"


if __name__ == "__main__":
    for name in PAGES:
        (GOLDEN / f"{name}.txt").write_text(page(name), encoding="utf-8")
