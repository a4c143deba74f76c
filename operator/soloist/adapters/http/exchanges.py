"""Which exchange a queue's requests go through: by who wrote the address, and by what a lost reply costs.

Addresses from data and addresses from manifests never share a session, since a session dials by one set of rules.
Connections are kept, for less than the five seconds that most servers keep an idle one: that is most of the throughput. A
kept one that its receiver closes just as the next request goes out makes an unknown outcome out of nothing; where such an
outcome waits for a person (``afterCrash: Hold``) every request has a connection of its own.
"""

import socket

from soloist.adapters.http.exchange import Exchange
from soloist.adapters.http.lookups import Lookup
from soloist.adapters.http.session import HttpLimits
from soloist.domain.addresses import AddressRules
from soloist.domain.queue_spec import AfterCrash, FixedUrl, HttpDelivery, QueueSpec

KEPT = HttpLimits(keep_alive=4.0)
FRESH = HttpLimits(keep_alive=0.0)


class Exchanges:
    """One per process, closed in the loop that it was used in."""

    def __init__(self, *, for_specs: AddressRules, for_data: AddressRules, lookup: Lookup = socket.getaddrinfo) -> None:
        self._rules = {True: for_specs, False: for_data}
        self._lookup = lookup
        self._made: dict[tuple[bool, HttpLimits], Exchange] = {}

    def of(self, spec: QueueSpec) -> Exchange:
        """The exchange of a queue whose ``deliver`` is ``http``."""
        trusted = isinstance(spec.deliver, HttpDelivery) and isinstance(spec.deliver.target, FixedUrl)
        limits = FRESH if spec.after_crash is AfterCrash.HOLD else KEPT
        if (trusted, limits) not in self._made:
            self._made[trusted, limits] = Exchange(self._rules[trusted], limits, lookup=self._lookup)
        return self._made[trusted, limits]

    async def close(self) -> None:
        for exchange in self._made.values():
            await exchange.close()
