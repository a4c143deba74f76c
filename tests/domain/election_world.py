"""Electors on a virtual clock around one Lease, and everything that may befall them. Checks as it goes; no I/O, no sleep.

True time runs in ``World.now``. Each node has a CLOCK_BOOTTIME of its own rate and offset and a wall clock that steps. A
request arrives after a while, or late, or never; so does its reply; a write whose reply is lost may land at any time. The
functions under test decide, write and interpret; the world only carries.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from soloist.domain import lease_writes
from soloist.domain.election import decide
from soloist.domain.hearing import clashed, heard, proven_dead, unanswered
from soloist.domain.lease import LeaseRecord, Raw, parse
from soloist.domain.lease_bodies import released_body
from soloist.domain.standing import Candidate, Claim, Lost, Read, Renew, Restore, Standing, Wait, identity_of, is_mine
from soloist.domain.term import Term, Timing
from tests.domain.lease_server import LeaseServer

TIMING = Timing()
EPOCH = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class Network:
    """Seconds on the way there and back; ``lost`` says which way loses everything; ``refused``: nothing is sent at all."""

    there: float = 0.002
    back: float = 0.002
    lost: str = ""
    refused: bool = False


@dataclass(kw_only=True)
class Node:
    index: int
    rate: float
    boot_offset: float
    wall_offset: float = 0.0
    me: Candidate | None = None
    standing: Standing = field(default_factory=Standing)
    term: Term | None = None
    network: Network = field(default_factory=Network)
    frozen_until: float = 0.0
    flight: int = 0
    turn: int = 0
    hold_write: float = 0.0
    drain_until: float | None = None
    saw_holder: bool = False


class World(LeaseServer):
    def __init__(self, seed: int, rates: tuple[float, ...] = (1.0, 1.0, 1.0)) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = self.claims = self.overlaps_exempt = 0
        self.acted: dict[int, datetime] = {}
        self.renewed: dict[int, datetime] = {}
        self.blind_epoch = 0
        self.dead: set[str] = set()
        self._tokens, self._order = itertools.count(1), itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.nodes = [
            Node(index=i, rate=rate, boot_offset=1000.0 * i, wall_offset=self.random.uniform(-0.8, 0.8))
            for i, rate in enumerate(rates)
        ]
        for node in self.nodes:
            self.start(node)

    # ---- time

    def boot(self, node: Node, at: float | None = None) -> float:
        return node.boot_offset + node.rate * (self.now if at is None else at)

    def true_time(self, node: Node, boot: float) -> float:
        return (boot - node.boot_offset) / node.rate

    def wall(self, node: Node) -> datetime:
        return EPOCH + timedelta(seconds=self.now + node.wall_offset)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._order), do))

    def run_until(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            when, _, do = heapq.heappop(self._events)
            self.now = when
            do()
        self.now = until

    # ---- processes

    def start(self, node: Node) -> None:
        if node.me is not None:
            return
        nonce = f"n{next(self._tokens)}"
        me = Candidate(
            identity=identity_of("host", f"pod{node.index}", nonce),
            nonce=nonce,
            namespace="x",
            name="lease",
            timing=TIMING,
        )
        node.me, node.standing, node.term, node.drain_until, node.saw_holder = me, Standing(), None, None, False
        self._take_turn_at(node, self.now)

    def kill(self, node: Node, *, parent: bool = False, seen: bool = False) -> None:
        me, term = node.me, node.term
        if me is None:
            return
        self._withdraw(node)
        node.me, node.flight, node.frozen_until = None, 0, 0.0
        if parent and term is not None:
            dead_boot = self.boot(node)
            self.at(self.now + self.random.uniform(0.01, 0.6), lambda: self._parent_releases(me, term, dead_boot))
        if seen:
            self.at(self.now + self.random.uniform(0.1, 2.0), lambda: self.dead.add(me.nonce))
        self.at(self.now + self.random.uniform(0.1, 15.0), lambda: self.start(node))

    def freeze(self, node: Node, seconds: float) -> None:
        if node.me is not None:
            node.frozen_until = max(node.frozen_until, self.now + seconds)

    def stop(self, node: Node, drain: float) -> None:
        if node.me is not None and node.drain_until is None:
            node.drain_until = self.now + drain
            self._take_turn_at(node, self.now + drain)

    def _parent_releases(self, me: Candidate, term: Term, dead_boot: float) -> None:
        if self.lease is None or not is_mine(record := parse(self.lease), me):
            return
        renewed = max(term.renew_time, record.renew_time or term.renew_time)
        end = renewed + timedelta(seconds=dead_boot - term.renew_sent_boot)
        self.write(released_body(self.lease, epoch=term.epoch, end=end))

    # ---- one node's loop

    def _take_turn_at(self, node: Node, when: float) -> None:
        node.turn = token = next(self._tokens)
        self.at(when, lambda: self._turn(node, token))

    def _turn(self, node: Node, token: int) -> None:
        if token != node.turn or node.me is None or node.flight:
            return
        if self._later_if_frozen(node, lambda: self._turn(node, token)):
            return
        self.steps += 1
        if node.drain_until is not None and (self.now >= node.drain_until or node.standing.term is None):
            self._give_back(node)
            return
        decision = decide(node.me, node.standing, self.boot(node))
        if isinstance(decision, Lost):
            self._lose(node)
        elif isinstance(decision, Wait):
            self._take_turn_at(node, max(self.true_time(node, decision.until), self.now + 1e-6))
        else:
            self._send(node, decision)

    def _later_if_frozen(self, node: Node, again: Callable[[], None]) -> bool:
        if self.now < node.frozen_until:
            self.at(node.frozen_until, again)
            return True
        return False

    def _lose(self, node: Node) -> None:
        self._withdraw(node)
        node.me = None
        self.at(self.now + 0.1, lambda: self.start(node))

    def _withdraw(self, node: Node) -> None:
        """The term is over; remember the latest moment, on its own clock, at which it may have acted."""
        term, node.term = node.term, None
        if term is not None:
            self._note_acting(node, term)

    def _note_acting(self, node: Node, term: Term) -> None:
        shown = term.now(min(self.boot(node), term.trusted_until))
        self.acted[term.epoch] = max(shown, self.acted.get(term.epoch, shown))

    def _give_back(self, node: Node) -> None:
        term, me = node.standing.term, node.me
        end = term.now(self.boot(node)) if term is not None else None
        self._withdraw(node)
        assert me is not None
        node.standing = replace(node.standing, term=None)
        self._release_try(node, me, term.epoch if term is not None else None, end, tries=3)

    def _release_try(self, node: Node, me: Candidate, epoch: int | None, end: datetime | None, tries: int) -> None:
        """Read, then write on that reading; two ways there and back, each of which may fail or take long."""
        if tries == 0 or epoch is None or end is None or node.network.refused or node.network.lost:
            self._over(node, me)
            return
        self.steps += 1

        def read() -> None:
            seen = copy.deepcopy(self.lease)
            body = lease_writes.release(me, parse(seen), epoch=epoch, end=end) if seen is not None else None
            self.at(self.now + self.random.choice((0.0, 0.1, 3.0, 12.0)), lambda: write(body))

        def write(body: Raw | None) -> None:
            if body is None or self.replace(body, writer=me):
                self._over(node, me)
            else:
                self._release_try(node, me, epoch, end, tries - 1)

        self.at(self.now + node.network.there, read)

    def _over(self, node: Node, me: Candidate) -> None:
        if node.me is me:
            node.me = None
            self.at(self.now + self.random.uniform(0.1, 5.0), lambda: self.start(node))

    # ---- requests

    def _send(self, node: Node, decision: Read | Claim | Restore | Renew) -> None:
        me, before, wall, sent_boot = node.me, node.standing, self.wall(node), self.boot(node)
        assert me is not None
        body: Raw | None = None
        if isinstance(decision, Claim):
            body, node.standing = lease_writes.claim(me, before, wall=wall, boot=sent_boot, pod=None)
        elif isinstance(decision, Restore):
            body, node.standing = lease_writes.restoration(me, before, wall=wall)
        elif isinstance(decision, Renew):
            body, node.standing = lease_writes.renewal(me, before, wall=wall, boot=sent_boot, pod=None, needed=None)
        node.flight = token = next(self._tokens)
        network, blind = node.network, not node.saw_holder
        if network.refused:
            node.flight = 0
            node.standing = unanswered(me, before, sent_boot=sent_boot, boot=sent_boot)
            self._take_turn_at(node, self.now + 1e-3)
            return
        patience = (
            TIMING.try_timeout
            if before.term is None
            else min(TIMING.try_timeout, before.term.trusted_until - sent_boot)
        )
        self.at(self.now + max(patience, 0.01) / node.rate, lambda: self._timed_out(node, token, sent_boot))
        if network.lost == "there":
            return
        there = network.there * self.random.uniform(0.5, 1.0)
        if body is not None and node.hold_write:
            there, node.hold_write = node.hold_write, 0.0

        def arrive() -> None:
            landed: bool | None = None
            if body is not None:
                landed = self.create(body, me, blind=blind) if before.record is None else self.replace(body, writer=me)
            answer = copy.deepcopy(self.lease)
            served = EPOCH + timedelta(seconds=int(self.now))
            if network.lost != "back":
                back = network.back * self.random.uniform(0.5, 1.0)
                self.at(self.now + back, lambda: self._replied(node, token, landed, answer, served, wall, sent_boot))

        self.at(self.now + there, arrive)

    def _timed_out(self, node: Node, token: int, sent_boot: float) -> None:
        if node.flight != token or node.me is None:
            return
        if self._later_if_frozen(node, lambda: self._timed_out(node, token, sent_boot)):
            return
        node.flight = 0
        node.standing = unanswered(node.me, node.standing, sent_boot=sent_boot, boot=self.boot(node))
        self._take_turn_at(node, self.now)

    def _replied(
        self,
        node: Node,
        token: int,
        landed: bool | None,
        answer: Raw | None,
        served: datetime,
        wall: datetime,
        sent_boot: float,
    ) -> None:
        if node.flight != token or node.me is None:
            return
        if self._later_if_frozen(node, lambda: self._replied(node, token, landed, answer, served, wall, sent_boot)):
            return
        self.steps += 1
        node.flight = 0
        if landed is False:
            node.standing = clashed(node.standing)
        else:
            self._hear(node, node.me, answer, served, wall, sent_boot)
        if node.me is not None:
            self._take_turn_at(node, self.now)

    def _hear(
        self, node: Node, me: Candidate, answer: Raw | None, served: datetime, wall: datetime, sent_boot: float
    ) -> None:
        boot, before = self.boot(node), node.standing.term
        shown = [wall] if before is None else [wall, before.now(sent_boot)]
        skews = [lease_writes.clock_skew(moment, served, latency=boot - sent_boot) for moment in shown]
        skew = next((found for found in skews if found is not None), None)
        node.saw_holder |= answer is not None and bool(parse(answer).holder)
        if node.term is not None:
            self._note_acting(node, node.term)
        node.standing = heard(me, node.standing, answer, boot=boot, skew=skew, stagger=self.random.random() * 0.05)
        if answer is not None and (nonce := parse(answer).nonce) in self.dead and node.standing.term is None:
            node.standing = proven_dead(node.standing, nonce, boot=boot, stagger=0.0)
        self._check_evidence(node, me, before, answer)
        if node.standing.term is None:
            self._withdraw(node)
            return
        node.term = node.standing.term
        self._check_one_trusted(node)
        ahead = node.term.now(boot) - (EPOCH + timedelta(seconds=self.now))
        assert ahead < timedelta(seconds=4.5), f"the term clock is {ahead} ahead of true time"

    # ---- what must hold

    def written(self, writer: Candidate, before: LeaseRecord | None, after: LeaseRecord, *, blind: bool) -> None:
        if not after.holder:
            if before is None:
                return
            assert before.holder == writer.identity, f"{writer.identity} blanked the Lease of {before.holder!r}"
            return
        assert after.epoch is not None
        assert after.renew_time is not None
        if (renewed := self.renewed.get(after.epoch)) is not None:
            assert after.renew_time > renewed, "renewTime went back within a term"
        self.renewed[after.epoch] = after.renew_time
        if renewed is not None:
            return
        self.claims += 1
        if blind:
            self.overlaps_exempt += any(self._trusted(node) for node in self.nodes)
            self.blind_epoch = after.epoch
        else:
            known = max([0, *self.acted, *([before.epoch or 0] if before is not None else [])])
            assert after.epoch > known, f"epoch {after.epoch} after {known}"
        for epoch, end in after.term_ends.items():
            acted = self.acted.get(epoch)
            assert acted is None or acted <= end + timedelta(milliseconds=1), (
                f"term {epoch} acted at {acted}, after {end}"
            )

    def _trusted(self, node: Node) -> bool:
        return node.me is not None and node.term is not None and node.term.trusted(self.boot(node))

    def _check_one_trusted(self, newest: Node) -> None:
        trusted = [node for node in self.nodes if self._trusted(node)]
        if len(trusted) < 2 or any(n.term is not None and n.term.epoch == self.blind_epoch for n in trusted):
            return
        raise AssertionError(f"believed leaders at {self.now}: {[node.me.identity for node in trusted if node.me]}")

    def _check_evidence(self, node: Node, me: Candidate, before: Term | None, answer: Raw | None) -> None:
        """What a leader reads against itself ends its term at that very reading."""
        if before is None:
            return
        against = answer is None or answer["metadata"]["uid"] != before.lease_uid
        against = against or answer["spec"].get("holderIdentity") != me.identity  # type: ignore[index]
        assert not against or node.standing.term is None, "a leader read that it lost the Lease, and went on"

    def leader(self) -> Node | None:
        return next((node for node in self.nodes if self._trusted(node)), None)

    def heal(self) -> None:
        for node in self.nodes:
            node.network, node.frozen_until, node.hold_write = Network(), 0.0, 0.0
            node.wall_offset = self.random.uniform(-0.8, 0.8)
