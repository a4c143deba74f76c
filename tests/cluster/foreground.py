"""A component in a terminal, for whoever wants one to look at: up, its URL on a line, and gone without a trace at Ctrl-C.

Ctrl-C, SIGTERM and a closed terminal unwind the `with` that holds it, as the end of a test does. A second Ctrl-C is ignored:
it would leave behind what the first one is about to remove. With SIGKILL the kernel ends the children, and the next run
removes their folder.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def until_told_to_end() -> Iterator[None]:
    """Around the `with` of the component."""
    for number in ENDINGS:
        signal.signal(number, _end)
    with suppress(KeyboardInterrupt):
        yield


def _end(*_: object) -> NoReturn:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def stay() -> NoReturn:
    """Within it: waits for that."""
    while True:
        signal.pause()
