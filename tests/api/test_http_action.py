"""http actions from end to end: attempts and their one key, what is retried and what is not, and secrets that stay so."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from tests.api.desk import ANY_HERE, DENIED, DENIED_NETWORK, Desk, lines, moment, phase, tick
from tests.api.tending import KEEP, now
from tests.cluster.children import until
from tests.cluster.free_ports import free_ports

pytestmark = pytest.mark.cluster

THREE = {"maxAttempts": 3, "initialDelaySeconds": 1, "factor": 1}


def outcome(desk: Desk, job: str, run: str, *, timeout: float = 90.0) -> dict[str, object]:
    """Start a run by hand and wait for how it ends; its status."""
    desk.status(job, lambda s: "observedSchedule" in s, what="it is seen")
    desk.crew.trigger(job, run)
    final = ("Succeeded", "Failed", "Unknown", "Interrupted")
    until(lambda: desk.crew.phase(run) in final, what=f"{run} ends", timeout=timeout)
    found: dict[str, object] = desk.api.get(desk.namespace.ours("jobruns", run))["status"]
    return found


def test_a_backend_that_recovers_gets_three_attempts_with_one_key(desk: Desk) -> None:
    desk.backend.rule("^/recovers$", status=503, headers={"Retry-After": "3"}, times=1)
    desk.http("recovers", schedule="@every 1s", retry=THREE, **KEEP)
    desk.called("recovers", 2)
    first, second = desk.calls("recovers")[:2]
    assert second.boot - first.boot >= 3, "Retry-After was not heeded"
    run = desk.run_of(first)
    until(lambda: phase(desk.run_of(first)) == "Succeeded", what="the second attempt succeeds", timeout=90)
    attempts = [seen for seen in desk.calls("recovers") if seen.header("Soloist-Run") == run["metadata"]["name"]]
    assert [seen.header("Soloist-Attempt") for seen in attempts] == ["1", "2"]
    assert len({seen.header("Idempotency-Key") for seen in attempts}) == 1
    key = f"{run['spec']['scheduledJobUID']}/{run['spec']['scheduledTime']}"
    assert first.header("Idempotency-Key") == key
    assert first.header("Soloist-Scheduled-Time") == run["spec"]["scheduledTime"]
    assert first.header("Soloist-Fence") == str(run["spec"]["lease"]["epoch"])
    line = desk.recent("recovers", "Blocked")
    assert moment(line["first"]) > tick(first), "ticks meanwhile were blocked by the one that waits"


def test_what_is_retried_and_what_is_not(desk: Desk) -> None:
    desk.backend.rule("^/twice$", status=503, times=2)
    desk.backend.rule("^/absent$", status=404)
    desk.backend.rule("^/never$", status=500, body="out of order")
    desk.backend.rule("^/slow$", delay=20)
    desk.backend.rule("^/torn$", reset=True)
    (closed,) = free_ports(1)
    once_a_year = {"schedule": "0 0 1 1 *", "retry": THREE}
    for name in ("twice", "absent", "never", "torn"):
        desk.http(name, **once_a_year)
    desk.http("slow", **once_a_year, timeoutSeconds=4)
    desk.http("refused", **once_a_year, http={"url": f"http://127.0.0.1:{closed}/"})
    desk.http("metadata", **once_a_year, http={"url": "http://169.254.169.254/latest/meta-data"})
    found = {}
    names = ("twice", "absent", "never", "torn", "slow", "refused", "metadata")
    for name in names:
        desk.status(name, lambda s: "observedSchedule" in s, what="it is seen")
        desk.crew.trigger(name, f"{name}-run")
    for name in names:
        until(
            lambda name=name: desk.crew.phase(f"{name}-run") in ("Succeeded", "Failed", "Unknown"),
            what=f"{name} ends",
            timeout=90,
        )
        found[name] = desk.api.get(desk.namespace.ours("jobruns", f"{name}-run"))["status"]
    ends = {name: (status["phase"], status["attempt"]) for name, status in found.items()}
    assert ends == {
        "twice": ("Succeeded", 3),
        "absent": ("Failed", 1),
        "never": ("Failed", 3),
        "torn": ("Unknown", 1),
        "slow": ("Unknown", 1),
        "refused": ("Failed", 3),
        "metadata": ("Failed", 1),
    }
    reasons = {name: found[name]["reason"] for name in ("torn", "slow", "refused", "metadata", "absent")}
    assert reasons == {
        "torn": "ReplyLost",
        "slow": "TimedOut",
        "refused": "ConnectionFailed",
        "metadata": "AddressRefused",
        "absent": "UnexpectedStatus",
    }
    assert found["never"]["response"] == {"statusCode": 500, "excerpt": "out of order"}
    for name, count in {"twice": 3, "absent": 1, "never": 3, "torn": 1, "slow": 1}.items():
        seen = desk.calls(name)
        assert [each.header("Soloist-Attempt") for each in seen] == [str(n) for n in range(1, count + 1)], name
        assert len({each.header("Idempotency-Key") for each in seen}) == 1
    events = {name: [event["reason"] for event in desk.events(name)] for name in names}
    until(
        lambda: desk.events("slow", "RunUnknown") and desk.events("never", "RunFailed"),
        what="Events say so",
        timeout=90,
    )
    assert not desk.events("twice"), events


def test_the_operator_says_which_addresses_are_called_and_which_are_not(desk: Desk) -> None:
    """That of the receiver, which all other tests call, is allowed out of the denied network."""
    once_a_year, port = {"schedule": "0 0 1 1 *"}, urlsplit(desk.backend.url("/")).port
    with socket.create_server((DENIED, 0)) as nobody:
        nobody.setblocking(False)
        desk.http("opened", **once_a_year, http={"url": f"http://{ANY_HERE}:{port}/opened"})
        desk.http("denied", **once_a_year, http={"url": f"http://{DENIED}:{nobody.getsockname()[1]}/"})
        opened, denied = (outcome(desk, name, f"{name}-run") for name in ("opened", "denied"))
        with pytest.raises(BlockingIOError):
            nobody.accept()
    assert (opened["phase"], len(desk.calls("opened"))) == ("Succeeded", 1)
    assert (denied["phase"], denied["reason"]) == ("Failed", "AddressRefused")
    assert f"{DENIED} is in the denied network {DENIED_NETWORK}" in str(denied["message"])


def test_an_unknown_call_counts_as_going_on_until_its_time_out_has_passed(desk: Desk) -> None:
    desk.backend.rule("^/unknown$", reset=True, times=1)
    desk.http("unknown", schedule="@every 1s", timeoutSeconds=4)
    first, second = desk.called("unknown", 2)[:2]
    assert second.at - tick(first) >= timedelta(seconds=4)
    status = desk.status("unknown", lambda s: s["counters"]["succeeded"] >= 1, what="a later one succeeded")
    assert status["counters"]["unknown"] == 1
    assert lines(status, "Unknown")
    assert lines(status, "Blocked")


def test_a_header_from_a_secret_is_sent_and_shown_nowhere(desk: Desk) -> None:
    value = "sesame-c4f1e7a9d2"
    desk.backend.rule("^/sealed$", status=503, body=f"you sent Bearer {value}, and {value}")
    header = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}}
    desk.http("sealed", schedule="@every 2s", retry=THREE, http={"headers": [header]}, **KEEP)
    failed = desk.run("sealed", "Retrying", "Failed")
    assert failed["status"]["reason"] == "SecretUnavailable"
    assert "backend" in failed["status"]["message"]
    assert not desk.calls("sealed"), "nothing is sent without its secret"
    secret = {"metadata": {"name": "backend"}, "data": {"token": b64encode(f"Bearer {value}\n".encode()).decode()}}
    desk.api.create(desk.namespace.path("secrets"), secret)
    seen = desk.called("sealed", 2)
    assert {each.header("Authorization") for each in seen} == {f"Bearer {value}"}
    run = until(lambda: excerpt_of(desk, "sealed"), what="a run keeps what the backend echoed", timeout=90)
    assert "***" in run
    everything = [
        json.dumps(desk.api.items(desk.namespace.ours("jobruns"))),
        json.dumps(desk.api.items(desk.namespace.ours("scheduledjobs"))),
        json.dumps(desk.api.items(desk.namespace.path("events", group="events.k8s.io"))),
        json.dumps(desk.api.items(desk.namespace.path("leases", group="coordination.k8s.io"))),
        *(member.log() for member in desk.crew.members.values()),
        *(member.metrics() for member in desk.crew.members.values()),
    ]
    for text in everything:
        assert value not in text
        assert b64encode(value.encode()).decode() not in text


def excerpt_of(desk: Desk, job: str) -> str:
    """What is kept of any answer of 503, of a run or in the Event about it."""
    for run in desk.crew.runs(job):
        response = run.get("status", {}).get("response", {})
        if response.get("excerpt") and "you sent" in response["excerpt"]:
            return str(response["excerpt"])
    return ""


def test_a_server_is_verified_by_the_authority_that_a_secret_or_a_configmap_holds(desk: Desk) -> None:
    """The API server is the server here: nobody whom the system trusts vouches for it."""
    pem, key = desk.crew.cluster.ca.read_text(), {"name": "authority", "key": "ca.crt"}
    named = {"metadata": {"name": "authority"}}
    desk.api.create(desk.namespace.path("secrets"), {**named, "data": {"ca.crt": b64encode(pem.encode()).decode()}})
    desk.api.create(desk.namespace.path("configmaps"), {**named, "data": {"ca.crt": pem}})
    found = {}
    for name, tls in {
        "by-secret": {"tls": {"caSecretRef": key}},
        "by-configmap": {"tls": {"caConfigMapRef": key}},
        "by-nobody": {"tls": {"insecureSkipVerify": True}},
        "by-the-system": {},
    }.items():
        desk.http(
            name, schedule="0 0 1 1 *", http={"url": f"{desk.crew.cluster.server}/version", "method": "GET", **tls}
        )
        found[name] = outcome(desk, name, f"{name}-run")
    stranger = found.pop("by-the-system")
    assert {name: status["phase"] for name, status in found.items()} == dict.fromkeys(found, "Succeeded"), found
    for status in found.values():
        assert "gitVersion" in json.dumps(status["response"]), "it was the API server that answered"
    assert (stranger["phase"], stranger["reason"]) == ("Failed", "TLSFailed")
    assert "its certificate was not accepted" in str(stranger["message"])


def test_a_run_tells_when_its_call_began_and_when_it_was_over(desk: Desk) -> None:
    """k8s #81557."""
    desk.backend.rule("^/timed$", delay=1.2)
    desk.http("timed", schedule="0 0 1 1 *")
    before = now()
    status = outcome(desk, "timed", "timed-run")
    began, ended = moment(status["startTime"]), moment(status["completionTime"])
    (seen,) = desk.calls("timed")
    clocks = timedelta(milliseconds=50)  # a term has one of its own
    assert before - clocks <= began <= seen.at + clocks
    assert seen.at + timedelta(seconds=1.2) - clocks <= ended <= now() + clocks
