"""Reading a spec: its defaults and its refusals.

The words of each refusal are in tests/crds/bad.yaml, beside what the API server says of the same manifest.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.actions import Header, HttpAction, JobAction, KeyRef
from soloist.domain.retry import OnUnknown, RetryPolicy
from soloist.domain.schedule import DaylightSaving
from soloist.domain.spec import ConcurrencyPolicy, Invalid, MissedRunPolicy, Spec, parse_spec

URL = "http://backend.default.svc/path"
LEAST: dict[str, Any] = {"schedule": "0 2 * * *", "http": {"url": URL}}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "report"}},
    "spec": {"backoffLimit": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}]}}},
}
FULL: dict[str, Any] = {
    "schedule": "30 2 * * *",
    "timeZone": "Europe/Berlin",
    "daylightSaving": "WallClock",
    "suspend": True,
    "concurrencyPolicy": "Replace",
    "startingDeadlineSeconds": 3600,
    "missedRunPolicy": "RunAll",
    "maxMissedRuns": 7,
    "jitterSeconds": 30,
    "timeoutSeconds": 90,
    "retry": {"maxAttempts": 4, "initialDelaySeconds": 5, "factor": 1.5, "maxDelaySeconds": 50, "onUnknown": "Retry"},
    "pauseAfterFailures": 9,
    "successfulRunsHistoryLimit": 1,
    "failedRunsHistoryLimit": 2,
    "http": {
        "url": "https://backend.default.svc/path",
        "method": "PUT",
        "headers": [
            {"name": "X-Run", "value": "{run}"},
            {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}},
        ],
        "body": '{"at": "{scheduledTime}", "nested": {"a": {}}}',
        "expectedStatus": "2xx, 304, 400-404",
        "followRedirects": True,
        "tls": {"caSecretRef": {"name": "ca", "key": "ca.crt"}},
    },
}

TRANSACTIONS: list[dict[str, Any]] = [
    {
        "schedule": "@daily",
        "sql": {
            "databaseRef": {"secretName": "backend-db", "key": "uri"},
            "statement": "UPDATE gigs SET expired = :on WHERE due < :at::timestamptz - make_interval(days => :days)",
            "parameters": {"on": True, "at": "{scheduledTime}", "days": 30},
        },
    },
    {
        "schedule": "@daily",
        "enqueue": {
            "workQueue": "emails",
            "payload": {"run": "{key}", "list": [1, {"a": None}]},
            "dueInSeconds": 60,
            "priority": 0,
            "uniqueKey": "digest {scheduledTime}",
        },
    },
]
"""The actions that are one transaction in a database."""


def good(raw: dict[str, Any]) -> Spec:
    spec = parse_spec(raw)
    assert isinstance(spec, Spec), spec
    return spec


def refused(raw: dict[str, Any]) -> Invalid:
    spec = parse_spec(raw)
    assert isinstance(spec, Invalid)
    return spec


def test_what_is_left_out_has_its_default() -> None:
    """clusterlint #95."""
    spec = good(LEAST)
    assert spec.schedule_text == "0 2 * * *"
    assert (spec.time_zone, spec.daylight_saving, spec.suspend) == ("UTC", DaylightSaving.SHIFT, False)
    assert spec.concurrency is ConcurrencyPolicy.FORBID
    assert spec.starting_deadline is None
    assert (spec.missed, spec.max_missed_runs) == (MissedRunPolicy.RUN_LATEST, 5)
    assert (spec.jitter, spec.timeout) == (timedelta(0), timedelta(seconds=30))
    assert spec.retry == RetryPolicy(max_attempts=1)
    assert (spec.pause_after_failures, spec.successful_history, spec.failed_history) == (0, 3, 3)
    assert spec.action == HttpAction(url=URL, method="POST", expected=((200, 299),))


def test_every_field_is_read() -> None:
    spec = good(FULL)
    assert spec.schedule.next_after(datetime(2026, 6, 1, tzinfo=UTC)) == datetime(2026, 6, 1, 0, 30, tzinfo=UTC)
    assert (spec.time_zone, spec.daylight_saving, spec.suspend) == ("Europe/Berlin", DaylightSaving.WALL_CLOCK, True)
    assert spec.concurrency is ConcurrencyPolicy.REPLACE
    assert spec.starting_deadline == timedelta(hours=1)
    assert (spec.missed, spec.max_missed_runs) == (MissedRunPolicy.RUN_ALL, 7)
    assert (spec.jitter, spec.timeout) == (timedelta(seconds=30), timedelta(seconds=90))
    assert spec.retry == RetryPolicy(
        max_attempts=4,
        initial_delay=timedelta(seconds=5),
        factor=1.5,
        max_delay=timedelta(seconds=50),
        on_unknown=OnUnknown.RETRY,
    )
    assert (spec.pause_after_failures, spec.successful_history, spec.failed_history) == (9, 1, 2)
    assert spec.action == HttpAction(
        url="https://backend.default.svc/path",
        method="PUT",
        headers=(
            Header(name="X-Run", value="{run}"),
            Header(name="Authorization", ref=KeyRef(kind="Secret", name="backend", key="token")),
        ),
        body='{"at": "{scheduledTime}", "nested": {"a": {}}}',
        expected=((200, 299), (304, 304), (400, 404)),
        follow_redirects=True,
        verify=True,
        ca=KeyRef(kind="Secret", name="ca", key="ca.crt"),
    )


def test_a_job_is_taken_as_it_is_and_has_a_day() -> None:
    spec = good({"schedule": "@hourly", "job": {"template": TEMPLATE}})
    assert spec.action == JobAction(template=TEMPLATE)
    assert spec.timeout == timedelta(days=1)


def test_a_null_is_as_good_as_nothing() -> None:
    nulls = dict.fromkeys(("timeZone", "suspend", "startingDeadlineSeconds", "retry", "job", "sql", "maxMissedRuns"))
    assert parse_spec({**LEAST, **nulls}) == parse_spec(LEAST)


def test_a_field_of_a_newer_schema_is_passed_over() -> None:
    assert parse_spec({**LEAST, "colour": "green"}) == parse_spec(LEAST)


def test_a_server_that_is_not_verified_is_asked_for_in_so_many_words() -> None:
    https = {"url": "https://backend"}
    verified, unverified = (
        good({**LEAST, "http": {**https, "tls": {"insecureSkipVerify": skip}}}).action for skip in (False, True)
    )
    assert isinstance(verified, HttpAction)
    assert isinstance(unverified, HttpAction)
    assert (verified.verify, unverified.verify) == (True, False)


def test_a_ca_may_lie_in_a_config_map() -> None:
    tls = {"caConfigMapRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}
    action = good({**LEAST, "http": {"url": "https://backend", "tls": tls}}).action
    assert isinstance(action, HttpAction)
    assert action.ca == KeyRef(kind="ConfigMap", name="kube-root-ca.crt", key="ca.crt")


def test_a_refusal_names_the_field_and_a_word_for_programs() -> None:
    problem = refused({**LEAST, "timeZone": "Europe/Berln"})
    assert (problem.field, problem.reason) == ("spec.timeZone", "UnknownTimeZone")
    assert "Europe/Berlin" in problem.message


@pytest.mark.parametrize(
    "http",
    [
        {"url": "http://me:s3cr3t@backend/"},
        {"url": "http://me:s3cr3t\u2100@backend/"},
        {"url": "http://me:s3cr3t/backend"},
        {"url": "http:///s3cr3t"},
        {"url": "ftp://me:s3cr3t@backend"},
        {"url": "me:s3cr3t@backend"},
        {"url": "s3cr3t@backend"},
        {"url": "backend:s3cr3t"},
        {"url": "backend/s3cr3t?s3cr3t#s3cr3t"},
        {"url": "/s3cr3t"},
        {"url": URL, "headers": [{"name": "Authorization", "value": "Bearer s3cr3t\n"}]},
        {"url": URL, "headers": [{"name": "Authorization", "value": ["s3cr3t"]}]},
        {"url": URL, "headers": [{"name": "Authorization", "value": "s3cr3t" * 1000}]},
        {"url": URL, "headers": [{"name": "Authorization", "value": "s3cr3t", "valueFrom": {}}]},
        {"url": URL, "body": "s3cr3t {nothing}"},
        {"url": URL, "body": {"password": "s3cr3t"}},
    ],
)
def test_a_refusal_repeats_no_secret(http: dict[str, Any]) -> None:
    assert "s3cr3t" not in refused({**LEAST, "http": http}).message
