"""Ports nobody listens on, below the range from which the kernel gives ports to outgoing connections.

One of that range could be taken by some client while a test has its server stopped, and the server could not come back.
Whoever asked for a port listens on it some seconds later; until then nobody else must be given it: not by this process,
and not by those that test beside it, each of which has a part of the range.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque

PORTS, PARTS = (20_000, 32_000), 8
_PART = (PORTS[1] - PORTS[0]) // PARTS
_given: deque[int] = deque(maxlen=_PART // 3)


def free_ports(count: int) -> list[int]:
    beside = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
    first, found = PORTS[0] + beside * _PART, set[int]()
    while len(found) < count:
        port = random.randrange(first, first + _PART)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.append(port)
            found.add(port)
    return sorted(found)
