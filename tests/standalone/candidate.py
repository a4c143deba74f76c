"""One process that stands for a row: `python -m tests.standalone.candidate '{"dsn": …, "lease": 3}'`; a line for each event.

It does what a leader does that must be nobody else's: with each look at its term it writes (epoch, from, until) of the time
for which it believes in itself, and at SIGTERM gives the row back.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from soloist.adapters.clock import SystemClock
from soloist.domain.term import Term, Timing
from soloist.loops.election_ports import Hooks
from soloist.shells.child import arm_dead_man, die_on_alarm, disarm_dead_man
from soloist.shells.stand import Stand, new_nonce, row_ground

CLOCK = SystemClock()


def say(event: str, **keys: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, "boot": CLOCK.boottime(), **keys}) + "\n")
    sys.stdout.flush()


def main() -> None:
    settings = json.loads(sys.argv[1])
    die_on_alarm()
    over, asked = threading.Event(), threading.Event()

    def renewed(term: Term) -> None:
        arm_dead_man(term.trusted_until - CLOCK.boottime())
        say("trusts", epoch=term.epoch, sent=term.renew_sent_boot, until=term.trusted_until)

    def lost(reason: str) -> None:
        say("lost", reason=reason)
        os._exit(75)

    def released() -> None:
        disarm_dead_man()
        say("released")
        over.set()

    hooks = Hooks(renewed=renewed, elected=lambda term: say("elected", epoch=term.epoch), lost=lost, released=released)
    timing = Timing(lease=settings["lease"], period=settings["lease"] / 6, margin=settings["lease"] / 8)
    ground = row_ground(settings["dsn"], namespace="standalone", name="soloist", timing=timing)
    stand = Stand(ground, CLOCK, hooks, nonce=new_nonce())
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    stand.start()
    say("stands")
    asked.wait()
    drained = threading.Event()
    drained.set()
    stand.give_up(drained)
    over.wait()


if __name__ == "__main__":
    main()
