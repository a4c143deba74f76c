"""Each example that is one file does what its comment says to expect. (Those in folders are followed in tests/adoption.)

All are applied before any controller is up; what is known of the past is written down by hand where a comment speaks of it.
A schedule of minutes or hours is waited for where that is a minute; else the run is asked for, as the comments say too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from standardwebhooks import Webhook

from soloist.domain.instants import stamp
from soloist.domain.schedule import parse_schedule
from tests.api.crew import Raw
from tests.api.examples import FOLDER, Example, Stand
from tests.api.reasons import moment
from tests.api.tending import now, phase_of
from tests.api.test_job_action import end, jobs_of
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import install_crds
from tests.postgres.server import Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.long]

SOON = 120.0
ELSEWHERE = {"elect.yaml": "tests/e2e/scene_2_sidecars.py"}
"""It is a Pod with a sidecar: what it says to expect is seen on a node."""
SECRET = "whsec_" + "c2VjcmV0" * 4
WEBHOOKS = f"""
CREATE TYPE "DeliveryStatus" AS ENUM ('pending', 'delivered', 'failed');
CREATE TABLE "Webhook" (id text PRIMARY KEY, url text, secret text DEFAULT '{SECRET}', "isActive" boolean DEFAULT true);
CREATE TABLE "WebhookDelivery" (
  id text PRIMARY KEY, "webhookId" text NOT NULL REFERENCES "Webhook" (id), "eventType" text NOT NULL DEFAULT 'gig.expired',
  payload jsonb NOT NULL DEFAULT '{{"gig": 7}}', status "DeliveryStatus" NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0,
  "nextAttemptAt" timestamp(3) DEFAULT (now() AT TIME ZONE 'UTC'), "lastAttemptAt" timestamp(3), "deliveredAt" timestamp(3), error text,
  "updatedAt" timestamp(3) NOT NULL DEFAULT '2026-01-01'
);
CREATE INDEX ON "WebhookDelivery" (status, "nextAttemptAt");
CREATE TABLE audit_log (event text, subject text, detail text);
"""
SCHEDULES = """
CREATE TABLE schedules (
  id serial PRIMARY KEY, status varchar(20) NOT NULL, next_run_timestamp timestamp NOT NULL, updated_at timestamp NOT NULL
);
CREATE INDEX ON schedules (status, next_run_timestamp);
"""
GIGS = """
CREATE TABLE gigs (id int PRIMARY KEY, status text DEFAULT 'open', expires_at timestamptz, expired_by text);
INSERT INTO gigs (id, expires_at) SELECT n, now() - make_interval(days => 28 + n) FROM generate_series(0, 4) AS n;
"""


@dataclass
class Shelf:
    stand: Stand
    found: dict[str, Example]

    @property
    def backend(self) -> Backend:
        return self.stand.backend


@pytest.fixture(scope="module")
def shelf(
    cluster_binaries: None, postgres: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("examples")
    with ControlPlane() as cluster, Backend(folder) as backend:
        install_crds(cluster)
        stand = Stand(cluster, backend, postgres, migrated_template, folder)
        try:
            made = Shelf(stand, dict(applied(stand)))
            backend.rule("msg=report", hang=True, times=1)
            stand.start("a", "b")
            stand.start_worker()
            yield made
        finally:
            stand.stop()


def applied(stand: Stand) -> Iterator[tuple[str, Example]]:
    server = f"https://kubernetes.default.svc/ => {stand.cluster.server}/"
    plain = {
        "minute": "http-every-minute.yaml",
        "nightly": "http-nightly.yaml",
        "digest": "enqueue-digest.yaml",
        "emails": "queue-emails.yaml",
        "exports": "queue-external.yaml",
    }
    for space, file in plain.items():
        yield space, stand.put(file, space)
    yield "half-minute", stand.put("http-every-30-seconds.yaml", "half-minute", server=server)
    yield "hourly", missed(stand.put("http-catch-up.yaml", "hourly"), "hourly-report", hours=30)
    yield "alone", stand.put("http-nightly.yaml", "alone", as_it_is=True)
    # A quarter of a minute where the example has five.
    yield "report", stand.put("job.yaml", "report", sooner='"*/5 * * * *" => "@every 15s"')
    for space, file, tables in (
        ("gigs", "sql-expire-gigs.yaml", GIGS),
        ("payroll", "queue-payroll-schedules.yaml", SCHEDULES),
        ("webhooks", "queue-webhooks-prisma.yaml", WEBHOOKS),
    ):
        made = stand.put(file, space)
        made.database.psql(tables)
        yield space, made
    yield "no-database", stand.put("sql-expire-gigs.yaml", "no-database", as_it_is=True)


def missed(example: Example, job: str, *, hours: int) -> Example:
    """As it was left when the last controller went."""
    then = stamp(now() - timedelta(hours=hours))
    schedule = example.crew.cluster.api().get(example.namespace.ours("scheduledjobs", job))["spec"]["schedule"]
    observed = {"schedule": schedule, "timeZone": "UTC", "daylightSaving": "Shift", "suspend": False, "since": then}
    status = {"observedGeneration": 1, "watermark": then, "observedSchedule": observed}
    example.namespace.api.patch(example.namespace.ours("scheduledjobs", job) + "/status", {"status": status})
    return example


def test_every_example_is_run_here_or_where_it_is_said(shelf: Shelf) -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    for file in FOLDER.glob("*.yaml"):
        where = ELSEWHERE.get(file.name)
        text = here if where is None else (FOLDER.parents[1] / where).read_text(encoding="utf-8")
        assert f'"{file.name}"' in text, file.name


# HTTP


def test_the_nightly_sweep_without_a_backend_fails_after_three_attempts_and_says_why(shelf: Shelf) -> None:
    code, said = shelf.found["alone"].soloist("trigger", "overdue-invoices", "--wait")
    assert code == 1, said
    (run,) = shelf.found["alone"].runs()
    assert (run["status"]["phase"], run["status"]["attempt"]) == ("Failed", 3)
    assert "NameNotResolved" in (run["status"]["reason"], *said.split()), run


def test_the_nightly_sweep_with_one_sends_its_token_and_pauses_itself_after_five_failures(shelf: Shelf) -> None:
    nightly, path = shelf.found["nightly"], "/internal/jobs/overdue-invoices"
    code, said = nightly.soloist("trigger", "overdue-invoices", "--wait")
    assert code == 0, said
    (seen,) = shelf.backend.received(path)
    assert (seen.method, seen.header("Authorization")) == ("POST", "Bearer replace-me")
    shelf.backend.rule(path, status=403)
    for _ in range(5):
        code, said = nightly.soloist("trigger", "overdue-invoices", "--wait")
        assert code == 1, said
    paused = until(lambda: nightly.crew.status("overdue-invoices").get("paused"), what="it is paused", timeout=SOON)
    assert paused["reason"]
    assert len(shelf.backend.received(path)) == 6, "a 403 is not tried again"


def test_the_nightly_sweep_is_due_once_in_the_nights_in_which_the_clocks_change() -> None:
    spec = next(yaml.safe_load_all((FOLDER / "http-nightly.yaml").read_text(encoding="utf-8")))["spec"]
    schedule = parse_schedule(spec["schedule"], spec["timeZone"], spec["daylightSaving"])
    found = {}
    for day in (datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)):
        night = day - timedelta(hours=6)
        found[day.month] = schedule.newest(after=night, until=night + timedelta(hours=12), limit=9)
    spring = datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert found[3] == [spring], "at 03:00, for 02:00 does not exist"
    assert len(found[10]) == 1


def test_a_report_for_each_hour_makes_up_for_24_oldest_first_and_sends_a_lost_one_again(shelf: Shelf) -> None:
    """The first request of all is never answered; the rule is there before the controllers are."""
    hourly = shelf.found["hourly"]
    wanted = partial(reports, shelf.backend)
    until(lambda: len({tick(seen) for seen in wanted()}) >= 24, what="24 hours are made up for", timeout=SOON * 2)
    seen, status = wanted(), hourly.crew.status("hourly-report")
    ticks = [tick(each) for each in seen]
    assert ticks == sorted(ticks)
    assert [b - a for a, b in zip(sorted({*ticks}), sorted({*ticks})[1:], strict=False)][:23] == [
        timedelta(hours=1)
    ] * 23
    assert len(ticks) == len({*ticks}) + 1
    lost, again = [each for each in seen if tick(each) == ticks[0]]
    assert lost.header("Idempotency-Key") == again.header("Idempotency-Key")
    assert (lost.header("Soloist-Attempt"), again.header("Soloist-Attempt")) == ("1", "2")
    assert again.at - lost.at >= timedelta(seconds=59)
    assert json.loads(again.body)["hour"] == again.header("Soloist-Scheduled-Time")
    shown = json.loads(hourly.kubectl("get", "sj", "hourly-report", "-o", "jsonpath={.status.recent}"))
    assert sum(line["count"] for line in shown if line["result"] == "TooManyMissed") in (5, 6), status


def reports(backend: Backend) -> list[Received]:
    return [seen for seen in backend.received("/echo") if "msg=report" in seen.path]


def tick(seen: Received) -> datetime:
    return moment(seen.header("Soloist-Scheduled-Time"))


def test_the_version_of_the_api_server_is_asked_for_twice_a_minute_and_shown(shelf: Shelf) -> None:
    example = shelf.found["half-minute"]
    until(lambda: len(example.runs()) >= 2, what="two runs are over", timeout=SOON)
    for run in example.runs()[:2]:
        assert run["status"]["phase"] == "Succeeded", run
        assert moment(run["spec"]["scheduledTime"]).second in (0, 30)
        name = run["metadata"]["name"]
        shown = json.loads(example.kubectl("get", "jr", name, "-o", "jsonpath={.status.response}"))
        assert shown["statusCode"] == 200
        assert "gitVersion" in shown["excerpt"]


# Jobs


def test_a_report_is_a_job_that_starts_at_its_time_and_blocks_the_next_and_a_run_by_hand(shelf: Shelf) -> None:
    example, crew = shelf.found["report"], shelf.found["report"].crew
    first = until(lambda: going(example), what="a Job is started", timeout=SOON)
    assert moment(first["status"]["startTime"]) >= scheduled(example, first["metadata"]["name"])
    (container,) = first["spec"]["template"]["spec"]["containers"]
    told = {each["name"] for each in container["env"]}
    assert told >= set(re.findall(r"\$(SOLOIST_\w+)", container["command"][2])) != set()

    example.namespace.kubectl("create", "-f", FOLDER / "run-now.yaml")
    blocked = until(lambda: example.runs("Manual"), what="the run by hand is over", timeout=SOON)
    assert (blocked[0]["status"]["phase"], blocked[0]["status"]["reason"]) == ("Skipped", "Blocked")
    assert blocked[0]["metadata"]["name"].startswith("report-manual-")
    recent = until(lambda: told_of(crew.status("report"), "Blocked"), what="the next tick is told of", timeout=SOON)
    assert recent["count"] >= 1

    end(crew, first)
    run = first["metadata"]["name"]
    until(lambda: crew.phase(run) == "Succeeded", what=f"{run} has succeeded", timeout=SOON)
    waiting = until(lambda: suspended(example), what="the next Job waits for its time", timeout=SOON)
    name = waiting["metadata"]["name"]
    started = until(lambda: job_of(example, name, suspend=False), what=f"{name} is started", timeout=SOON)
    example.kubectl("delete", "jr", started["metadata"]["name"], "--wait=false")
    until(
        lambda: name not in {job["metadata"]["name"] for job in jobs_of(crew, "report")},
        what="its Job is gone",
        timeout=SOON,
    )


def going(example: Example) -> Raw | None:
    return next(
        (
            job
            for job in jobs_of(example.crew, "report")
            if not job["spec"]["suspend"] and job.get("status", {}).get("startTime")
        ),
        None,
    )


def suspended(example: Example) -> Raw | None:
    return next((job for job in jobs_of(example.crew, "report") if job["spec"]["suspend"]), None)


def job_of(example: Example, name: str, *, suspend: bool) -> Raw | None:
    found = [job for job in jobs_of(example.crew, "report") if job["metadata"]["name"] == name]
    return next((job for job in found if job["spec"]["suspend"] is suspend), None)


def scheduled(example: Example, run: str) -> datetime:
    return moment(example.namespace.api.get(example.namespace.ours("jobruns", run))["spec"]["scheduledTime"])


def told_of(status: Raw, result: str) -> Raw | None:
    return next((line for line in status.get("recent", ()) if line["result"] == result), None)


# Databases


def test_gigs_expire_by_one_statement_and_its_response_says_how_many(shelf: Shelf) -> None:
    gigs = shelf.found["gigs"]
    code, said = gigs.soloist("trigger", "expire-gigs", "--wait")
    assert code == 0, said
    (run,) = gigs.runs()
    assert run["status"]["response"]["excerpt"] == "UPDATE 3", run
    assert gigs.rows("SELECT DISTINCT expired_by FROM gigs WHERE status = 'expired'") == [(run["metadata"]["uid"],)]
    gigs.database.psql("DROP TABLE gigs")
    code, said = gigs.soloist("trigger", "expire-gigs", "--wait")
    assert code == 1
    refused = gigs.runs()[-1]["status"]
    assert (refused["phase"], refused["attempt"]) == ("Failed", 1)
    assert "42P01" in refused["message"], refused


def test_without_a_database_the_sweep_fails_after_three_attempts_and_names_it(shelf: Shelf) -> None:
    alone = shelf.found["no-database"]
    code, said = alone.soloist("trigger", "expire-gigs", "--wait")
    assert code == 1, said
    (run,) = alone.runs()
    assert (run["status"]["phase"], run["status"]["attempt"]) == ("Failed", 3)
    assert "postgres.default.svc" in run["status"]["message"], run


def test_a_digest_is_one_row_and_while_it_waits_no_other_is_added(shelf: Shelf) -> None:
    digest = shelf.found["digest"]
    for _ in range(2):
        code, said = digest.soloist("trigger", "morning-digest", "--wait")
        assert code == 0, said
    first, second = digest.runs()
    ((queue, due, payload),) = digest.rows("SELECT queue, due_at <= now(), payload FROM soloist.work_items")
    assert (queue, due) == ("default/emails", True)
    assert (payload["template"], payload["key"]) == ("digest", first["metadata"]["uid"])
    assert first["status"]["response"] != second["status"]["response"]
    assert "has a row with this uniqueKey already" in second["status"]["response"]["excerpt"], second


def test_a_row_of_emails_is_one_post_with_its_payload_and_one_that_is_refused_is_dead(shelf: Shelf) -> None:
    emails, path = shelf.found["emails"], "/internal/emails"
    (statement,) = commented("queue-emails.yaml", "SELECT soloist.enqueue")
    emails.rows(statement.replace("default/", "emails/"))
    (seen,) = shelf.backend.wait(1, path=path, timeout=SOON)
    assert (seen.method, json.loads(seen.body)) == ("POST", {"to": "ada@example.com", "template": "welcome"})
    assert seen.header("Authorization") == "Bearer replace-me"
    shelf.backend.rule(path, status=410, holding="nobody")
    emails.rows("SELECT soloist.enqueue('emails/emails', '{\"to\": \"nobody\"}')")
    until(lambda: shown(emails, "emails")["DEAD"] == "1", what="kubectl shows it as dead", timeout=SOON)
    assert (shown(emails, "emails")["VALID"], shown(emails, "emails")["READY"]) == ("True", "0")
    assert len([each for each in shelf.backend.received(path) if "nobody" in each.body]) == 1


def test_workers_of_ones_own_claim_renew_and_complete_and_kubectl_counts(shelf: Shelf) -> None:
    exports = shelf.found["exports"]
    claim, renew, complete = commented("queue-external.yaml", "SELECT ")
    exports.rows("SELECT soloist.enqueue('exports/exports', '{}') FROM generate_series(1, 12)")
    claimed = exports.rows(claim.replace("default/", "exports/"))
    assert len(claimed) == 10
    until(
        lambda: (shown(exports, "exports")["READY"], shown(exports, "exports")["IN-FLIGHT"]) == ("2", "10"),
        what="kubectl counts them",
        timeout=SOON,
    )
    for statement in (renew, complete):
        fenced = re.sub(r"ARRAY\[\w+\]", "%s::bigint[]", statement)
        keys = [each[0] for each in claimed], [each[1] for each in claimed]
        assert len(exports.rows(fenced, *keys)) == 10
        lost = [each[0] for each in claimed], [each[1] - 1 for each in claimed]
        assert exports.rows(fenced, *lost) == [], "the claim is lost"
    until(lambda: shown(exports, "exports")["IN-FLIGHT"] == "0", what="kubectl counts none", timeout=SOON)


def test_a_schedule_of_the_payroll_is_posted_once_for_each_period_and_held_where_it_was_not_moved(shelf: Shelf) -> None:
    payroll, path = shelf.found["payroll"], "/internal/run-schedule"
    shelf.backend.rule(path, delay=4)
    add = "INSERT INTO schedules (status, next_run_timestamp, updated_at) VALUES ('active', now() AT TIME ZONE 'UTC' - interval '1 h', now()) RETURNING id"
    ((row,),) = payroll.rows(add)
    (first,) = shelf.backend.wait(1, path=path, timeout=SOON)
    assert {key: str(json.loads(first.body)[key]) for key in ("id", "attempt")} == {"id": str(row), "attempt": "1"}
    payroll.rows(
        "UPDATE schedules SET next_run_timestamp = next_run_timestamp + interval '30 min' WHERE id = %s RETURNING id",
        row,
    )
    until(lambda: len(shelf.backend.received(path)) >= 2, what="it is due again", timeout=SOON)
    second = shelf.backend.received(path)[1]
    assert first.header("Idempotency-Key") != second.header("Idempotency-Key")
    assert json.loads(first.body)["due"] < json.loads(second.body)["due"]
    # This time it is not moved: it counts as failed, and is sent again an hour later.
    until(
        lambda: shown(payroll, "payroll")["READY"] == shown(payroll, "payroll")["IN-FLIGHT"] == "0",
        what="it waits",
        timeout=SOON,
    )
    assert shelf.stand.worker is not None
    assert shelf.stand.worker.metric("soloist_queue_still_due_total", queue="payroll") == 1
    assert payroll.rows("SELECT status FROM schedules") == [("active",)]
    assert len(shelf.backend.received(path)) == 2


def test_webhooks_of_prisma_wait_suspended_and_then_are_sent_signed_refused_or_ended(shelf: Shelf) -> None:
    webhooks = shelf.found["webhooks"]
    address = shelf.backend.url("/hook")
    webhooks.database.psql(f"""
      INSERT INTO "Webhook" (id, url) VALUES ('good', '{address}'), ('private', 'http://10.0.0.1/'), ('off', '{address}'), ('down', '{shelf.backend.url("/down")}');
      UPDATE "Webhook" SET "isActive" = false WHERE id = 'off';
      INSERT INTO "WebhookDelivery" (id, "webhookId") SELECT id, id FROM "Webhook";
    """)
    shelf.backend.rule("^/down", status=503)
    valid = until(
        lambda: shown(webhooks, "webhooks") if shown(webhooks, "webhooks").get("READY") == "4" else None,
        what="it is counted",
        timeout=SOON,
    )
    assert valid["SUSPEND"] == "true"
    assert shelf.backend.received("/hook") == []
    patch = {"spec": {"suspend": False}}
    webhooks.namespace.api.patch(webhooks.namespace.ours("workqueues", "webhooks"), patch)

    def ended() -> dict[str, tuple[Any, ...]] | None:
        found = webhooks.rows(
            'SELECT id, status::text, attempts, error, "nextAttemptAt", "deliveredAt", "updatedAt" FROM "WebhookDelivery"'
        )
        rows = {row[0]: row[1:] for row in found}
        return (
            rows
            if {rows[name][0] for name in ("good", "private", "off")} == {"delivered", "failed"} and rows["down"][1]
            else None
        )

    rows = until(ended, what="each has an end, or its next attempt", timeout=SOON)
    (seen,) = shelf.backend.received("/hook")
    Webhook(SECRET).verify(seen.body, seen.headers)
    assert (json.loads(seen.body), seen.header("x-event-type")) == ({"gig": 7}, "gig.expired")
    assert rows["good"][0] == "delivered"
    assert rows["good"][4] is not None
    assert rows["good"][5].year >= now().year
    assert (rows["private"][0], rows["off"][0]) == ("failed", "failed")
    assert "10.0.0.1" in rows["private"][2]
    assert "isActive" in rows["off"][2]
    assert rows["down"][0] == "pending"
    told = webhooks.rows("SELECT event, subject FROM audit_log ORDER BY subject")
    assert told == [("webhook.dead", "off"), ("webhook.dead", "private")]


def commented(file: str, begins: str) -> list[str]:
    """Statements of its comment."""
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    found = [line.removeprefix("#").strip() for line in lines if line.startswith("#   ")]
    return [line.partition(";")[0] for line in found if line.startswith(begins)]


def shown(example: Example, queue: str) -> dict[str, str]:
    """What `kubectl get wq` shows of it, by column."""
    table = example.kubectl("get", "wq", queue).splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", table[0])]
    ends = [*starts[1:], None]
    return {table[0][a:b].strip(): table[1][a:b].strip() for a, b in zip(starts, ends, strict=True)}


# Last, since a leader dies in it.


def test_one_request_a_minute_is_sent_whichever_controller_dies_and_three_runs_are_kept(shelf: Shelf) -> None:
    example, crew = shelf.found["minute"], shelf.stand.crew
    minutely = partial(echoes, shelf.backend)
    until(minutely, what="one request", timeout=SOON)
    crew.leader().kill_both()
    count = len(minutely())
    until(lambda: len(minutely()) >= count + 2, what="two minutes more", timeout=SOON * 2)
    seen = minutely()
    job = example.namespace.api.get(example.namespace.ours("scheduledjobs", "echo-every-minute"))
    ticks = [tick(each) for each in seen]
    assert len(ticks) == len({*ticks})
    assert [each.at >= at for each, at in zip(seen, ticks, strict=True)] == [True] * len(seen)
    assert {at.second for at in ticks} == {0}
    for each in seen:
        assert each.header("Idempotency-Key") == f"{job['metadata']['uid']}/{each.header('Soloist-Scheduled-Time')}"
        assert (each.method, each.header("X-Job")) == ("POST", "minute/echo-every-minute")
        assert json.loads(each.body)["attempt"] == 1
    for number in range(4):
        name = f"by-hand-{number}"
        example.crew.trigger("echo-every-minute", name)
        until(partial(succeeded, example, name), what=f"{name} has succeeded", timeout=SOON)
    until(
        lambda: len([run for run in example.crew.runs() if phase_of(run) == "Succeeded"]) == 3,
        what="three are kept",
        timeout=SOON,
    )
    assert "Succeeded" in example.kubectl("get", "sj", "echo-every-minute")


def succeeded(example: Example, run: str) -> bool:
    return example.crew.phase(run) == "Succeeded"


def echoes(backend: Backend) -> list[Received]:
    return [
        seen for seen in backend.received("/echo") if "msg=done" in seen.path and seen.header("Soloist-Scheduled-Time")
    ]
