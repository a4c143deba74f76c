"""A parent that is ended with the test, as PID 1 where that is allowed, and a Lease server."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.shells.leases import LeaseServer
from tests.shells.parents import Parent, may_unshare

Start = Callable[..., Parent]


@pytest.fixture(scope="session")
def unshare_allowed() -> bool:
    return may_unshare()


@pytest.fixture
def no_signal_is_ignored() -> Iterator[None]:
    """As a shell has SIGINT and SIGQUIT ignored by what it starts in the background, nohup SIGHUP, and all that starts then."""
    known = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    ignored = [number for number in known if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(params=["as PID 1", "as an ordinary process"])
def start(
    request: pytest.FixtureRequest, tmp_path: Path, unshare_allowed: bool, no_signal_is_ignored: None
) -> Iterator[Start]:
    as_pid_1 = request.param == "as PID 1"
    if as_pid_1 and not unshare_allowed:
        pytest.skip("a PID namespace needs root (unshare --pid)")
    started: list[Parent] = []

    def begin(child: str, **more: str) -> Parent:
        started.append(Parent(child, tmp_path, as_pid_1=as_pid_1, **more))
        return started[-1]

    yield begin
    for parent in started:
        parent.close()


@pytest.fixture
def server() -> Iterator[LeaseServer]:
    lease_server = LeaseServer()
    yield lease_server
    lease_server.close()
