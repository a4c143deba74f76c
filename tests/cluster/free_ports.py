"""Ports nobody listens on, below the range from which the kernel gives ports to outgoing connections.

One of that range could be taken by some client while a test has its server stopped, and the server could not come back.
"""

from __future__ import annotations

import random
import socket

PORTS = (20_000, 32_000)


def free_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.add(port)
    return sorted(found)
