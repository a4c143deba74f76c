"""What becomes of leadership when the API server, or the way to it, fails: each row on a real API server.

Many rows run at the same time, each on a Lease of its own. In each, the leader alone is cut off by the fault for three and
a half leases, and a standby beside it is well; or all are cut off. The leader must have stopped by the end of its trust,
nobody else may start before that, and somebody must lead when the fault is over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from soloist.adapters.clock import SystemClock
from tests.api.electors import TIMING, Replica
from tests.api.going_on import let_pass
from tests.api.lateness import Lateness
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import (
    BAD_GATEWAY,
    EMPTY,
    EXPIRED,
    FORBIDDEN,
    GONE_IN_WATCH,
    INTERNAL,
    TOO_MANY,
    UNAUTHORIZED,
    UNAVAILABLE,
    Answer,
    DropReply,
    Effect,
    Freeze,
    Hold,
    HoldReply,
    Truncate,
)  # fmt: skip
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.proxy import TcpProxy

pytestmark = pytest.mark.cluster

FAULT_SECONDS = 3.5 * TIMING.lease
SIDE_BY_SIDE, ALL_THROUGH = 12, 400
SOON = 60.0
TRIES = 5
CLOCK = SystemClock()
Switch = Callable[[], None]

NOT_FOUND_PAGE = Answer(status=404, body=b"<html>no such page</html>", headers={"Content-Type": "text/html"})
REDIRECT = Answer(status=302, headers={"Location": "https://example.org/"})

ANSWERS: dict[str, Effect] = {
    "503": UNAVAILABLE,
    "429 with Retry-After": TOO_MANY,
    "500": INTERNAL,
    "502 with an HTML body": BAD_GATEWAY,
    "401": UNAUTHORIZED,
    "403": FORBIDDEN,
    "404 of a box in between": NOT_FOUND_PAGE,
    "a redirect": REDIRECT,
    "an empty 200": EMPTY,
    "a reply that breaks off": Truncate(),
    "request held": Hold(),
    "reply held": HoldReply(),
    "takes effect, then reset": DropReply(),
}
WIRES: dict[str, Callable[[TcpProxy], None]] = {
    "refused": lambda proxy: (proxy.refuse(), proxy.cut(), None)[-1],
    "reset in mid-request": TcpProxy.reset,
    "accepted and never answered": TcpProxy.blackhole,
    "replies lost": TcpProxy.drop_replies,
}
ROWS = [*ANSWERS, *WIRES]


@dataclass(kw_only=True)
class Outcome:
    """Of one row: the leader, and who came after it; times are CLOCK_BOOTTIME, ``late`` is what a bare timer was late meanwhile."""

    leader: Replica
    second: Replica
    faulty_by: float
    led_during: bool
    led_after: bool
    late: float


class Bench:
    """Makes proxies with faults, and replicas behind them or beside."""

    def __init__(self, cluster: ControlPlane, directory: Path, stack: ExitStack) -> None:
        self.cluster, self.directory, self.stack = cluster, directory, stack

    def fault(self, row: str) -> tuple[str, Switch, Switch]:
        """A way in, and what switches its fault on and off."""
        if row in WIRES:
            wire = self.stack.enter_context(TcpProxy(self.cluster.port))
            return wire.server, lambda: WIRES[row](wire), wire.forward
        proxy = self.stack.enter_context(HttpsProxy(target=self.cluster.port, authority=self.cluster.authority))
        return proxy.server, lambda: (proxy.on("*", "/leases", ANSWERS[row]), None)[-1], proxy.clear

    def replica(self, name: str, lease: str, server: str | None = None) -> Replica:
        path = self.cluster.kubeconfig(self.directory / f"kubeconfig-{uuid.uuid4().hex}", server=server)
        return Replica(name, path, lease)

    def run(self, row: str, *, all_cut: bool) -> Outcome:
        server, break_it, heal = self.fault(row)
        leader, second = self.led(row, server, server if all_cut else None)
        with Lateness() as lateness:
            break_it()
            faulty_by = CLOCK.boottime()
            let_pass(FAULT_SECONDS)
            led_during = second.elected.is_set() if all_cut else second.elected.wait(SOON)
            heal()
            led_after = second.elected.wait(SOON)
        outcome = Outcome(
            leader=leader,
            second=second,
            faulty_by=faulty_by,
            led_during=led_during,
            led_after=led_after,
            late=lateness.worst,
        )
        for replica in (leader, second):
            replica.stop()
        return outcome

    def led(self, row: str, server: str, beside: str | None) -> tuple[Replica, Replica]:
        """A leader, and one that stands by. A leader that lost its term before any fault, for the machine stood still, is none."""
        for _ in range(TRIES):
            lease = f"row-{uuid.uuid4().hex[:8]}"
            leader = self.replica("a", lease, server).start()
            assert leader.elected.wait(SOON), f"{row}: nobody led before the fault; {leader.notices}"
            second = self.replica("b", lease, beside).start()
            assert second.watching.wait(SOON), f"{row}: the other one sees nothing"
            let_pass(2 * TIMING.period)
            if not leader.lost.is_set():
                return leader, second
            for replica in (leader, second):
                replica.stop()
        raise AssertionError(f"{row}: no leader kept its term until the fault")


@pytest.fixture(scope="module")
def outcomes(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, bool], Future[Outcome]]]:
    with ExitStack() as stack:
        bench = Bench(control_plane, tmp_path_factory.mktemp("faults"), stack)
        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            yield {(row, cut): pool.submit(bench.run, row, all_cut=cut) for row in ROWS for cut in (False, True)}


@pytest.mark.parametrize("row", ROWS)
def test_a_leader_that_is_cut_off_stops_in_time_and_its_standby_takes_over(
    outcomes: dict[tuple[str, bool], Future[Outcome]], row: str
) -> None:
    outcome = outcomes[row, False].result(ALL_THROUGH)
    check_stopped(outcome)
    assert outcome.led_during, "the standby, which was well, did not take over while the leader was cut off"


@pytest.mark.parametrize("row", ROWS)
def test_when_all_are_cut_off_nobody_leads_and_afterwards_somebody_does(
    outcomes: dict[tuple[str, bool], Future[Outcome]], row: str
) -> None:
    outcome = outcomes[row, True].result(ALL_THROUGH)
    check_stopped(outcome)
    assert not outcome.led_during
    assert outcome.led_after, f"nobody led after the fault: {outcome.second.notices}"


def check_stopped(outcome: Outcome) -> None:
    leader, second = outcome.leader, outcome.second
    assert leader.lost.is_set(), "the leader goes on"
    assert leader.losses == 1
    assert leader.elector.term() is None
    assert leader.lost_at <= leader.trusted_until + 0.5 + outcome.late, (
        f"stopped {leader.lost_at - leader.trusted_until:.2f} s too late; a bare timer was {outcome.late:.2f} s late"
    )
    assert leader.trusted_until <= outcome.faulty_by + TIMING.trust
    if second.terms:
        assert second.terms[0].started_boot >= leader.trusted_until, "two believed leaders"
        assert second.terms[0].epoch > leader.terms[-1].epoch


def test_the_first_ever_start_without_a_lease_leads(control_plane: ControlPlane, tmp_path: Path) -> None:
    first = Replica("a", control_plane.kubeconfig(tmp_path / "kc"), f"row-{uuid.uuid4().hex[:8]}").start()
    assert first.elected.wait(SOON)
    first.stop()


@pytest.mark.parametrize(
    "effect",
    [Freeze(), EXPIRED, GONE_IN_WATCH, BAD_GATEWAY, EMPTY],
    ids=["black-holed", "410", "410 inside", "502", "empty"],
)
def test_a_watch_that_fails_costs_a_period_at_most(
    control_plane: ControlPlane, https_proxy: HttpsProxy, tmp_path: Path, effect: Effect
) -> None:
    lease = f"row-{uuid.uuid4().hex[:8]}"
    config = control_plane.kubeconfig(tmp_path / "kc", server=https_proxy.server)
    first = Replica("a", config, lease).start()
    assert first.elected.wait(SOON)
    broken = https_proxy.on("GET", "watch=1", effect)
    standby = Replica("b", config, lease).start()
    if not isinstance(effect, Freeze):
        broken.wait()
    let_pass(3 * TIMING.period)
    first.stop()
    assert standby.elected.wait(SOON)
    standby.stop()
    assert readings_until(https_proxy, lease, standby.identity) <= 2, "one may have come just before the release"


def readings_until(proxy: HttpsProxy, lease: str, claimed_by: str) -> int:
    """How often the Lease was read after it was given back, until it was claimed: once a period."""
    asked = [seen for seen in proxy.seen if f"/leases/{lease}" in seen.path and "watch=" not in seen.path]
    held = [str(seen.json()["spec"].get("holderIdentity") or "") if seen.method == "PUT" else None for seen in asked]
    claimed = held.index(claimed_by)
    given_back = max(number for number, holder in enumerate(held[:claimed]) if holder == "")
    return sum(seen.method == "GET" for seen in asked[given_back:claimed])
