"""status, runs, why, trigger and pause of an installation that lives in rows."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from soloist.shells.cli import cli
from tests.cluster.children import until
from tests.standalone.crew import STEADY, Crew

pytestmark = pytest.mark.slow


def soloist(crew: Crew, *words: str, code: int = 0) -> str:
    unset = {name: None for name in os.environ if name.startswith("SOLOIST_")}
    done = CliRunner(env=unset).invoke(cli, [*words, "--database", crew.url])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.stderr
    return done.stdout + done.stderr


def asked(crew: Crew, *words: str) -> Any:
    return json.loads(soloist(crew, *words, "-o", "json"))


def test_people_ask_and_act_as_they_do_on_a_cluster(crew: Crew) -> None:
    nobody = soloist(crew, "status")
    assert "LEADER  none" in nobody
    assert "start one: soloist standalone" in nobody
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"), crew.job("yearly", schedule="@yearly"))
    crew.ready("a")
    crew.backend.wait(3, path="/sweep", timeout=120)
    status = asked(crew, "status")
    assert [job["name"] for job in status["jobs"]] == ["sweep", "yearly"]
    assert status["leases"][0]["lease"] == "standalone/soloist"
    assert status["leases"][0]["leading"]
    assert "Succeeded" in {run["phase"] for run in asked(crew, "runs", "sweep")["runs"]}
    assert "Nothing is in the way." in soloist(crew, "why", "yearly")
    assert "Did you mean sweep?" in soloist(crew, "why", "sweeep", code=1)
    assert "the log of whoever leads (file not taken)" in soloist(crew, "why", "misspelt", code=1)
    assert "Succeeded" in soloist(crew, "trigger", "yearly", "--wait", "--timeout", "100")
    assert len(crew.backend.received("/yearly")) == 1
    paused = soloist(crew, "pause", "yearly", "--reason", "moving house")
    assert "To go on: soloist resume yearly -n default --database URL" in paused
    assert "moving house" in soloist(crew, "why", "yearly")
    soloist(crew, "resume", "yearly")
    soloist(crew, "pause", "--all", "--reason", "holiday")
    assert "PAUSED  the whole installation" in soloist(crew, "status")
    assert "First: soloist resume --all --database URL." in soloist(crew, "trigger", "yearly", code=1)
    soloist(crew, "resume", "--all")
    (crew.files / "jobs.yaml").write_text("half: [a")
    until(
        lambda: "cannot be read as YAML" in soloist(crew, "status"),
        what="status says what is wrong with a file",
        timeout=120,
    )
    before = len(crew.backend.received("/sweep"))
    crew.backend.wait(before + 2, path="/sweep", timeout=120)
    crew.audit("sweep")


def test_the_log_advises_what_is_typed_without_a_cluster(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.backend.rule("^/fails$", status=404)
    crew.write("jobs.yaml", crew.job("fails", schedule="@every 1s", pauseAfterFailures=2))
    member = crew.ready("a")
    said = crew.hear("a", "stands in the way")
    assert said["sentence"].endswith("then: soloist resume fails --database URL")
    assert "kubectl" not in member.log()
    assert "kubectl" not in soloist(crew, "why", "fails") + soloist(crew, "status") + soloist(crew, "runs", "fails")


def test_a_time_that_was_decided_ahead_is_taken_back_by_what_is_advised(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.ready("a")
    crew.backend.wait(1, path="/sweep", timeout=120)
    crew.ask(
        "UPDATE soloist.objects SET status = status || %s, version = soloist.next_version(shard), writer = 'a person'"
        " WHERE (kind, name) = ('ScheduledJob', 'sweep') RETURNING 1",
        '{"watermark": "2999-01-01T00:00:00Z"}',
    )

    def advised() -> str:
        return next((each for each in texts(asked(crew, "why", "sweep")) if "status.watermark is 2999" in each), "")

    sentence = until(advised, what="why says so", timeout=120)
    began = datetime.now(UTC)
    with crew.connect() as connection:
        done = connection.execute(sentence[sentence.index("UPDATE soloist.objects") :].encode())
    assert done.rowcount == 1
    until(
        lambda: any(seen.at > began + BEYOND for seen in crew.backend.received("/sweep")),
        what="it is launched again",
        timeout=120,
    )


BEYOND = timedelta(seconds=5)
"""After what was recorded ahead."""


def texts(found: Any) -> Iterator[str]:
    """Every text in a document."""
    match found:
        case str():
            yield found
        case dict() | list():
            for each in found.values() if isinstance(found, dict) else found:
                yield from texts(each)


def test_the_leader_counts_the_rows_of_its_queues_and_says_which_cannot_be_worked(crew: Crew) -> None:
    deliver = {"http": {"url": crew.backend.url("/hooks")}}
    database = {"secretName": "own", "key": "uri"}
    good = {"database": database, "deliver": deliver, "suspend": True}
    crew.write(
        "queues.yaml",
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "hooks"}, "spec": good},
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "lost"}, "spec": {**good, "table": {"name": "public.nowhere"}}},
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "away"}, "spec": {**good, "database": {"secretName": "far", "key": "uri"}}},
        {"kind": "Secret", "metadata": {"name": "far"}, "stringData": {"uri": "postgresql://127.0.0.1:1/far"}},
    )  # fmt: skip
    crew.ask("SELECT soloist.enqueue('default/hooks', '{}') FROM generate_series(1, 3)")
    crew.env = dict(STEADY)
    crew.ready("a")
    port = crew.hear("a", "started")["health_port"]

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    until(lambda: 'soloist_queue_ready_rows{namespace="default",queue="hooks"} 3.0' in metrics(), what="three rows are counted", timeout=120)  # fmt: skip
    assert 'soloist_queue_valid{namespace="default",queue="hooks"} 1.0' in metrics()
    assert "soloist_leader 1.0" in metrics()
    until(lambda: 'soloist_queue_valid{namespace="default",queue="lost"} 0.0' in metrics(), what="the other cannot be worked", timeout=120)  # fmt: skip
    listed = until(lambda: [each for each in asked(crew, "queue", "list")["queues"] if each["ready"] == 3], what="the list has the counts", timeout=120)  # fmt: skip
    assert [(each["name"], each["valid"]) for each in listed] == [("hooks", "True")]
    page = soloist(crew, "queue", "list")
    assert "default/lost: " in page
    assert "-> soloist queue check lost -n default" in page
    assert "Nothing stops the queue but spec.suspend: true." in soloist(crew, "queue", "check", "hooks")
    assert "The queue is not worked until the errors are mended." in soloist(crew, "queue", "check", "lost", code=1)
    assert "There are no dead letters of default/hooks." in soloist(crew, "queue", "dead", "hooks")
    assert "Did you mean hooks?" in soloist(crew, "queue", "dead", "hoks", code=1)
    assert "is in another database than the installation" in soloist(crew, "queue", "dead", "away", code=1)
    (crew.files / "queues.yaml").unlink()
    until(lambda: not asked(crew, "queue", "list")["queues"], what="queues that are in no file any more are gone", timeout=120)  # fmt: skip
