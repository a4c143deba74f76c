"""Electors on a Lease in memory, stepped by hand: both clocks are the test's, and every word that is said is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import Raw
from soloist.domain.standing import Candidate, identity_of
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector
from tests.fake_lease import FakeLease

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Clock:
    """Both clocks, moved by the test."""

    def __init__(self) -> None:
        self.boot, self.offset = 1000.0, timedelta()

    def boottime(self) -> float:
        return self.boot

    def now(self) -> datetime:
        return self.true() + self.offset

    def true(self) -> datetime:
        return NOON + timedelta(seconds=self.boot - 1000.0)


class Stage:
    """A clock, a Lease, and electors whose every word is kept in ``said``."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.api = FakeLease(self.clock.true)
        self.said: list[tuple[str, Any]] = []
        self.needed: Callable[[], set[int] | None] = lambda: None

    def elector(self, name: str, *, own: OwnPod | HolderPod | None = None) -> Elector:
        me = Candidate(identity=identity_of(name, "u", f"n-{name}"), nonce=f"n-{name}", namespace="x", name="l")

        def say(word: str) -> Callable[..., None]:
            return lambda *what: self.said.append((f"{name} {word}", *what))  # type: ignore[arg-type]

        hooks = Hooks(
            renewed=say("renewed"), elected=say("elected"), lost=say("lost"), released=say("released"),
            noticed=say("noticed"), follow=say("follows"), needed_epochs=lambda: self.needed(),
        )  # fmt: skip
        return Elector(me, self.api, self.clock, hooks=hooks, stagger=lambda: 0.0, own=own)

    def run(self, *electors: Elector, seconds: float) -> None:
        """Let time pass, a tenth of a second at a time; nobody sleeps."""
        until = self.clock.boot + seconds
        while self.clock.boot < until:
            for elector in electors:
                for _ in range(4):
                    if not elector.join(0):
                        elector.step()
            self.clock.boot += 0.1

    def words(self) -> list[str]:
        return [word for word, *_ in self.said]

    @property
    def lease(self) -> Raw:
        assert self.api.lease is not None
        return self.api.lease


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(threading.Event, "wait", lambda self, timeout=None: self.is_set())
    return Stage()
