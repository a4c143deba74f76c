"""When coordination is lost nothing new starts, and an Event and a metric say why: a real controller, a real API server.

A clock that is off is in ``test_clock_steps``, a right that was taken away in ``test_credentials``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.api.crew import Controller, Crew, Raw, audit
from tests.api.desk import LONG, log_lines
from tests.api.going_on import SOON, check, goes_on, let_pass, tick, told
from tests.api.reasons import moment
from tests.api.tending import EVERY_TICK, STEADY, leads, now, start
from tests.cluster.backend import Backend
from tests.cluster.faults import FORBIDDEN, INTERNAL, UNAVAILABLE, Freeze
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.metrics_page import series
from tests.cluster.proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SILENCE = 4.0
"""Seconds of which each has a tick that must not start."""
BOTH_KINDS = r"/(scheduledjobs|jobruns)(\?|$)"
"""Their lists and watches, and a create; what reads one of them, or writes to it, names it."""


def sweeping(crew: Crew, backend: Backend, **env: str) -> Controller:
    """One that leads, with a job due each second that has arrived."""
    crew.job("sweep", schedule="@every 1s", timeoutSeconds=2, http={"url": backend.url("/s")}, **EVERY_TICK)
    start(crew, "a", **env)
    goes_on(backend, "/s")
    return crew.members["a"]


def test_a_leader_that_cannot_reach_its_lease_stops_and_says_so(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    crew.server = https_proxy.server
    member = sweeping(crew, backend, **STEADY)
    assert leads(member)
    child = member.child()
    unreachable = https_proxy.on("*", "/leases", UNAVAILABLE)
    event = crew.wait(lambda: told(crew.namespace, "LeaseUnreachable"), what="an Event says so", timeout=SOON)
    assert about(event) == ("Lease", "soloist")
    assert "answered 503" in event["note"]
    crew.wait(lambda: member.child() != child, what="the leader's child has ended", timeout=SOON)
    ended = now()
    crew.wait(lambda: leads(member) is False, what="its metrics say that it does not lead", timeout=SOON)
    nothing_starts(backend, "/s", ended)
    unreachable.remove()
    goes_on(backend, "/s")
    assert leads(member)
    check(crew, backend, "sweep", "/s")


def test_a_leader_that_hears_of_neither_watch_nor_list_launches_nothing_and_says_so(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    """It keeps the Lease, which it reaches, and is not ready."""
    crew.server = https_proxy.server
    member = sweeping(crew, backend, SOLOIST_RELIST="3", SOLOIST_STALENESS_LIMIT="30", **LONG)
    child = member.child()
    assert told(crew.namespace, "CacheStale") is None
    assert survived(member, "stale cache") == 0
    https_proxy.on("GET", BOTH_KINDS, Freeze())
    https_proxy.on("GET", BOTH_KINDS, UNAVAILABLE)
    event = crew.wait(lambda: told(crew.namespace, "CacheStale"), what="an Event says so", timeout=SOON)
    assert about(event) == ("Lease", "soloist")
    assert "nothing is launched until one is" in event["note"]
    assert survived(member, "stale cache") == 1
    nothing_starts(backend, "/s", moment(event["eventTime"]))
    https_proxy.clear()
    goes_on(backend, "/s", 3)
    assert leads(member)
    assert member.child() == child, "it costs no term"
    audit(crew, backend, "sweep", path="/s")


def test_a_leader_whose_jobs_are_seldom_due_knows_enough_at_the_shortest_limit(crew: Crew, backend: Backend) -> None:
    """Between two ticks nothing changes for longer than the limit."""
    crew.job("seldom", schedule="@every 1m", http={"url": backend.url("/s")})
    start(crew, "a", SOLOIST_RELIST="20", SOLOIST_STALENESS_LIMIT="30", **LONG)
    goes_on(backend, "/s", 2, timeout=2 * SOON)
    assert survived(crew.members["a"], "stale cache") == 0
    check(crew, backend, "seldom", "/s")


@pytest.mark.parametrize(
    ("env", "over"), [(LONG, False), (STEADY, True)], ids=["it leads on", "its term ends meanwhile"]
)
def test_an_outage_of_the_whole_api_server_is_told_by_one_event_once_it_is_back(
    crew: Crew, backend: Backend, proxy: TcpProxy, env: dict[str, str], over: bool
) -> None:
    """The one replica: by the process that led, or by the one that its parent started after it."""
    crew.server = proxy.server
    member = sweeping(crew, backend, **env)
    child, gone = member.child(), now()
    proxy.refuse()
    proxy.cut()

    def noticed() -> bool:
        lines = [line for line in log_lines(member.log()) if line["message"] == "election noticed"]
        return len([line for line in lines if line["reason"] == "LeaseUnreachable"]) == 1 + over

    crew.wait(noticed, what="each process has noticed it, and says so in its log", timeout=SOON)
    back = now()
    proxy.forward()
    event = crew.wait(lambda: told(crew.namespace, "LeaseUnreachable"), what="an Event says so", timeout=SOON)
    assert about(event) == ("Lease", "soloist")
    assert gone <= moment(event["eventTime"]) <= back
    goes_on(backend, "/s", 3)
    assert (member.child() != child) is over
    events = crew.namespace.api.items(crew.namespace.path("events", group="events.k8s.io"))
    assert [each["metadata"]["name"] for each in events if each["reason"] == event["reason"]] == [
        event["metadata"]["name"]
    ]
    assert "series" not in event
    check(crew, backend, "sweep", "/s")


def test_what_a_controller_survives_is_counted_under_where_it_was(
    crew: Crew, backend: Backend, https_proxy: HttpsProxy
) -> None:
    crew.server = https_proxy.server
    member = sweeping(crew, backend, SOLOIST_RELIST="3", SOLOIST_STALENESS_LIMIT="30", **LONG)
    child, events = member.child(), https_proxy.on("POST", "/events", FORBIDDEN)
    for where, method, path, answer in (
        ("relist", "GET", r"/scheduledjobs\?(?!.*watch)", UNAVAILABLE),
        ("scheduler", "PUT", r"/scheduledjobs/sweep/status$", INTERNAL),
    ):
        assert survived(member, where) == 0
        rule = https_proxy.on(method, path, answer)
        crew.wait(lambda where=where: survived(member, where), what=f"{where} is counted", timeout=SOON)
        rule.remove()
        goes_on(backend, "/s", 3)
    assert survived(member, "event dropped") == 0
    crew.job("nowhere", schedule="@hourly", timeZone="Mars/Olympus", http={"url": backend.url("/n")})
    crew.wait(lambda: survived(member, "event dropped"), what="an Event that is refused is counted", timeout=SOON)
    events.remove()
    goes_on(backend, "/s", 3)
    assert leads(member)
    assert member.child() == child
    check(crew, backend, "sweep", "/s")


def survived(member: Controller, where: str) -> float:
    """How many errors it has counted there."""
    return sum(series(member.metrics(), "soloist_errors_total", where=where))


def about(event: Raw) -> tuple[str, str]:
    return event["regarding"]["kind"], event["regarding"]["name"]


def nothing_starts(backend: Backend, path: str, since: datetime) -> None:
    """Of the ticks after that moment none is received, for some seconds from now."""
    let_pass(SILENCE)
    assert now() - since > timedelta(seconds=SILENCE)
    assert [tick(seen) for seen in backend.received(path) if tick(seen) > since] == []
