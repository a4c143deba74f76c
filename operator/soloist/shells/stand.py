"""One elector with all that it needs to take part: an identity of its own, the Lease, and what wakes it. No more than wiring.

What a change of the term does to the process is said by whoever stands: a controller ends, a sidecar stands again. What
speaks to an API server, and to a database, is imported only by those whose Lease is there.
"""

import os
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from soloist.adapters.clock import SystemClock
from soloist.domain.holder_pod import HolderPod, OwnPod
from soloist.domain.lease import Raw
from soloist.domain.standing import Candidate, identity_of
from soloist.domain.term import Term, Timing
from soloist.loops.election_ports import Hooks, LeaseApi
from soloist.loops.elector import Elector
from soloist.shells.own_pod import pod_name

if TYPE_CHECKING:
    from soloist.adapters.kube.config import Access


class Wakes(Protocol):
    """What tells an elector to look. Nothing that it brings is believed."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def follow(self, holder: HolderPod | None) -> None: ...


class LeaseClosing(LeaseApi, Protocol):
    """A client with connections of its own."""

    def close(self) -> None: ...


Watching = Callable[[Callable[[Raw | None], None], Callable[[], None]], Wakes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where one Lease is: a client for each that asks (none shares another's connections), and what is to be said of it
    to the parent, which may have to give it back."""

    namespace: str
    name: str
    timing: Timing
    client: Callable[[], LeaseClosing]
    watching: Watching
    connection: Callable[[], dict[str, Any]]


def kube_ground(access: "Access", *, namespace: str, name: str, timing: Timing) -> Ground:
    """A Lease on an API server."""
    from soloist.adapters.kube.bounded import BoundedClient
    from soloist.adapters.kube.lease import LeaseClient
    from soloist.adapters.kube.lease_watch import LeaseWatches

    return Ground(
        namespace=namespace,
        name=name,
        timing=timing,
        client=lambda: LeaseClient(BoundedClient(access), namespace=namespace, name=name),
        watching=lambda lease_seen, pod_seen: LeaseWatches(
            access, namespace=namespace, name=name, lease_seen=lease_seen, pod_seen=pod_seen
        ),
        connection=access.facts,
    )


def row_ground(database: str, *, namespace: str, name: str, timing: Timing) -> Ground:
    """A Lease in a row of the database at this URL."""
    from soloist.adapters.postgres.row_lease import RowLease
    from soloist.adapters.postgres.row_lease_watch import RowLeaseWatch
    from soloist.adapters.postgres.url import database_url

    url = database_url(database)
    lease = RowLease(database, namespace=namespace, name=name)
    return Ground(
        namespace=namespace,
        name=name,
        timing=timing,
        client=lambda: RowLease(database, namespace=namespace, name=name),
        watching=lambda _lease_seen, look: RowLeaseWatch(url, shard=lease.shard, seen=look),
        connection=lambda: lease.facts,
    )


class Stand:
    """From ``start`` until the term is lost or given back; then another is needed."""

    def __init__(
        self,
        ground: Ground,
        clock: SystemClock,
        hooks: Hooks,
        *,
        nonce: str,
        own: OwnPod | None = None,
        alone: bool = False,
    ) -> None:
        me = Candidate(
            identity=identity_of(pod_name(), os.environ.get("POD_UID", ""), nonce),
            nonce=nonce,
            namespace=ground.namespace,
            name=ground.name,
            timing=ground.timing,
        )
        self._wakes = ground.watching(lambda raw: self.elector.seen(raw), lambda: self.elector.poke())
        hooks = replace(hooks, follow=self._wakes.follow)
        self._client = ground.client()
        self.elector = Elector(me, self._client, clock, hooks=hooks, stagger=random.random, own=own, alone=alone)

    def start(self) -> None:
        self._wakes.start()
        self.elector.start()

    def term(self) -> Term | None:
        """The term of this very elector, while it is to be trusted."""
        return self.elector.term()

    def give_up(self, drained: threading.Event) -> None:
        """Stand for nothing new; a term that is held is renewed until ``drained``, then given back."""
        self.elector.stop(drained)

    def close(self) -> None:
        """Once it is over: nothing wakes it any more, and its connections are shut."""
        self._wakes.stop()
        self._client.close()


def new_nonce() -> str:
    """Tells one start from another."""
    return secrets.token_hex(8)
