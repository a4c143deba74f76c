"""What the working process of a long-running command owes its parent: to die with it, to die in time, and to say what it holds.

Before it imports what it works with it asks the kernel to be killed when the parent dies, and puts SIGALRM back to its
default action, unblocked (``child_main``): the dead-man timer then needs no code of ours to work, not even an interpreter
that gets to run. A process that was frozen past its trust dies on waking. (The child is never PID 1, for which the kernel
would ignore that signal: that is the parent.)

The timer counts CLOCK_MONOTONIC, which stands still in a suspended machine; there the trust in CLOCK_BOOTTIME, asked
before each effect, is what holds.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

from soloist.shells import beat

if TYPE_CHECKING:
    from soloist.domain.term import Term

PARENT_VARIABLE = "SOLOIST_PARENT_PID"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class ExitCode(IntEnum):
    """How a child says why it ended. Only ``TERM_LOST`` (and a death by SIGALRM) makes the parent start another."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    TERM_LOST = 75


class Beat:
    """The child's end of the page that its parent reads after its death. Without a parent it writes nowhere.

    Of each Lease that is held one document, by namespace and name; each is written from its elector's own thread.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._number = 0
        self._held: dict[tuple[str, str], dict[str, Any]] = {}
        self._alone = threading.Lock()

    @classmethod
    def inherited(cls) -> "Beat":
        """The page that the parent handed down, kept from programs that this process starts."""
        fd = os.environ.get(beat.FD_VARIABLE)
        if fd is None:
            return cls(None)
        os.set_inheritable(int(fd), False)
        return cls(int(fd))

    def write(self, term: "Term", *, nonce: str, connection: Mapping[str, Any]) -> None:
        """Say what a good renewal gave. Call it before the renewed term is handed on: nothing acts on what is not said."""
        document = {
            "identity": term.identity,
            "nonce": nonce,
            "epoch": term.epoch,
            "lease": {"namespace": term.lease_namespace, "name": term.lease_name, "uid": term.lease_uid},
            "renewTime": term.renew_time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "sentBoot": term.renew_sent_boot,
            "connection": dict(connection),
        }
        with self._alone:
            self._held[term.lease_namespace, term.lease_name] = document
            self._put()

    def clear(self, namespace: str, name: str) -> None:
        """That Lease is not held any more (released, or lost): the parent has nothing to do for it."""
        with self._alone:
            self._held.pop((namespace, name), None)
            self._put()

    def _put(self) -> None:
        if self._fd is not None:
            self._number += 1
            beat.write(self._fd, self._number, {"held": list(self._held.values())})


def arm_dead_man(seconds: float) -> None:
    """Die (SIGALRM, default action) in ``seconds``, unless armed again before; what is already over dies now."""
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


def disarm_dead_man() -> None:
    """Trust nothing, owe nothing: a follower has no term to outlive."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def die_on_alarm() -> None:
    """SIGALRM at its default action and let through, whatever was inherited."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


def die_with_parent() -> None:
    """Be killed when the parent dies. One that died before this call is seen by the parent's number having changed."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    die_with(int(parent))


def die_with(parent: int) -> None:
    """The same, of the process that has the number ``parent``."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of whatever a dead child leaves behind, as PID 1 is without asking."""
    if os.getpid() != 1:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def crash(*, with_parent: bool) -> NoReturn:
    """End here as a power cut would; for tests of what survives it."""
    if with_parent:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returned")


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
