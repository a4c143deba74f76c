"""``python -m soloist.shells.guard COMMAND…`` runs a command no longer than the term that it was started under.

A command is a process of its own: it would outlive the trust of an elector that is frozen or hangs. So there is this third
process between the two, which waits for three things and needs none of them to work for the next: it hears on its standard
input until when the term is trusted (CLOCK_BOOTTIME), it sees the clock reach that, and it sees the input close when the
elector is dead. At the end of trust the command's process group is killed; when the term is given up, it gets SIGTERM first,
and some time. It ends with the command's exit code, and the command is killed by the kernel should this process be.
"""

import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

from soloist.adapters.clock import SystemClock
from soloist.shells.beat import FD_VARIABLE
from soloist.shells.child import PARENT_VARIABLE, die_with, die_with_parent

if TYPE_CHECKING:
    from soloist.ports import Clock

TRUSTED, END = b"T", b"E"
MESSAGE = struct.Struct("<cd")
CANNOT_START = 127
_LOOK = 0.5  # a poll does not count the time that the machine sleeps


def main() -> None:
    die_with_parent()
    data, clock = os.read(0, MESSAGE.size), SystemClock()
    kind, trusted = MESSAGE.unpack(data) if data else (END, 0.0)
    if kind == END or trusted <= clock.boottime():
        sys.exit(CANNOT_START)  # the term was over before the command began
    env = {name: value for name, value in os.environ.items() if name not in (FD_VARIABLE, PARENT_VARIABLE)}
    me = os.getpid()
    try:
        command = subprocess.Popen(
            sys.argv[1:], stdin=subprocess.DEVNULL, process_group=0, preexec_fn=lambda: die_with(me), env=env
        )
    except OSError as error:
        sys.stderr.write(f"the command cannot be started: {error}\n")
        sys.exit(CANNOT_START)
    _watch(command.pid, trusted=trusted, clock=clock)
    code = command.wait()
    sys.exit(code if code >= 0 else 128 - code)


def _watch(pid: int, *, trusted: float, clock: "Clock") -> None:
    """Until the command has ended, by itself or by us; nothing of its process group is left, and it is not yet reaped."""
    dead, news, by = os.pidfd_open(pid), select.poll(), float("inf")
    news.register(dead, select.POLLIN)
    news.register(0, select.POLLIN)
    while (left := min(trusted, by) - clock.boottime()) > 0:
        heard = [fd for fd, _ in news.poll(min(left, _LOOK) * 1000)]
        if dead in heard:
            break
        if 0 in heard:
            data = os.read(0, 256 * MESSAGE.size)
            if not data:
                break
            for kind, moment in MESSAGE.iter_unpack(data):
                if kind == END:
                    by = moment
                    _signal(pid, signal.SIGTERM)
                else:
                    trusted = moment
    _signal(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    _signal(pid, signal.SIGKILL)  # what it started in the meantime; its number is not given away before it is reaped
    os.close(dead)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    main()
