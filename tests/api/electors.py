"""Electors in this process against the real API server, and what each believed when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.bounded import BoundedClient
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.lease import LeaseClient
from soloist.adapters.kube.lease_watch import LeaseWatches
from soloist.domain.holder_pod import HolderPod
from soloist.domain.standing import Candidate, identity_of
from soloist.domain.term import Term, Timing
from soloist.loops.election_ports import Hooks
from soloist.loops.elector import Elector

TIMING = Timing(lease=3.0, period=0.5, margin=0.4)
CLOCK = SystemClock()


class Replica:
    """One elector with its watches. ``watching`` is set once they have brought it the Lease; times are CLOCK_BOOTTIME."""

    def __init__(
        self, name: str, kubeconfig: Path, lease: str, *, namespace: str = "default", own: HolderPod | None = None,
        timing: Timing = TIMING, needed: Callable[[], Any] = lambda: None,
    ) -> None:  # fmt: skip
        self.elected, self.lost, self.watching = threading.Event(), threading.Event(), threading.Event()
        self.reason = ""
        self.notices: list[tuple[str, str]] = []
        self.terms: list[Term] = []
        self.lost_at = self.elected_at = 0.0
        self.losses = 0
        access = Access.found(str(kubeconfig))
        nonce = f"{name}-nonce"
        me = Candidate(
            identity=identity_of(name, "uid", nonce), nonce=nonce, namespace=namespace, name=lease, timing=timing
        )
        self.watches = LeaseWatches(
            access, namespace=namespace, name=lease,
            lease_seen=self._lease_seen, pod_seen=lambda: self.elector.poke(),
        )  # fmt: skip
        hooks = Hooks(
            renewed=self.terms.append, elected=self._elected, lost=self._lost, needed_epochs=needed,
            noticed=lambda reason, message: self.notices.append((reason, message)), follow=self.watches.follow,
        )  # fmt: skip
        self._client = BoundedClient(access)
        client = LeaseClient(self._client, namespace=namespace, name=lease)
        self.elector = Elector(me, client, CLOCK, hooks=hooks, stagger=lambda: 0.5, own=own)
        self.identity = me.identity

    def start(self) -> Replica:
        self.watches.start()
        self.elector.start()
        return self

    def _lease_seen(self, raw: Any) -> None:
        self.elector.seen(raw)
        self.watching.set()

    def _elected(self, term: Term) -> None:
        self.elected_at = CLOCK.boottime()
        self.elected.set()

    def _lost(self, reason: str) -> None:
        self.lost_at, self.reason = CLOCK.boottime(), reason
        self.losses += 1
        self.lost.set()

    def stop(self) -> None:
        """Give back what is held, at once, and wait for the end."""
        drained = threading.Event()
        drained.set()
        self.elector.stop(drained)
        self.elector.join(60)
        self.watches.stop()
        self._client.close()

    @property
    def trusted_until(self) -> float:
        """The latest moment until which it ever believed in itself."""
        return max((term.trusted_until for term in self.terms), default=0.0)
