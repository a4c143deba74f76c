"""The parent of a long-running command: it starts the work in another process, and outlives it.

Why two: a dead process is the surest evidence there is that a term is over, and only a parent can see one. Also, the
kernel keeps a signal at its default action away from PID 1, so a dead-man timer works in a child only. Right as PID 1 of
a container, where every orphan is its to reap; elsewhere it asks the kernel for that part (a "subreaper").

All signals are blocked and taken from ``sigwaitinfo`` one by one: no code runs in a signal's context, and none is lost.
The child leads a session of its own. When it is seen dead it stays unreaped, so that its number cannot be given away,
until everything that it left (its session, and orphans that fell to us) is killed; then its Lease is released by a
process that may take some seconds, while the next child starts. One that lost its term is started again; any other end
is the command's own end, with its exit code (128 + n for signal n), so that the kubelet counts it and backs off.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence

from soloist.adapters.clock import SystemClock
from soloist.shells import beat
from soloist.shells.child import PARENT_VARIABLE, ExitCode, adopt_orphans
from soloist.shells.ending import End, children, sweep

FIRST_PAUSE, LONGEST_PAUSE, LONG_LIFE = 0.1, 5.0, 5.0  # seconds; a child that lived shorter doubles the pause
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_CLOCK = SystemClock()


def run(program: Sequence[str]) -> int:
    """Run ``program`` (its first word an absolute path) until it ends for good; the exit code for this process."""
    return _Parent(program).run()


def say(message: str, **keys: object) -> None:
    """One structured line on stderr, in the shape of the child's own log lines, without the weight of ``logging``."""
    time = _CLOCK.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"time": time, "level": "warning", "logger": "soloist.parent", "message": message, **keys}
    sys.stderr.write(json.dumps(line) + "\n")


class _Parent:
    def __init__(self, program: Sequence[str]) -> None:
        self._program = list(program)
        self._child = 0
        self._stopping = False
        self._releases: set[int] = set()
        # What was ignored at the start (nohup, a shell's background job) stays so, here and in the child.
        heard = {signum for signum in PASSED_ON if signal.getsignal(signum) is not signal.SIG_IGN}
        self._signals = heard | {signal.SIGCHLD}
        self._strangers = children()  # an entry script may have started some and then become this process

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would hide every death
        adopt_orphans()
        pause = FIRST_PAUSE
        while True:
            born = _CLOCK.boottime()
            end = self._live_once()
            if self._stopping or not end.term_lost:
                break
            pause = FIRST_PAUSE if _CLOCK.boottime() - born >= LONG_LIFE else pause
            self._rest(pause)
            if self._stopping:
                return self._last(ExitCode.DONE)
            pause = min(pause * 2, LONGEST_PAUSE)
        return self._last(end.code)

    def _last(self, code: int) -> int:
        while self._releases:
            self._hear(timeout=1.0)
        return code

    def _live_once(self) -> End:
        page = beat.create()
        try:
            self._child = self._start(page)
            while (seen := os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
                self._hear()
            seen_dead = _CLOCK.boottime()
            left = sweep(self._child, spared=self._strangers | self._releases, clock=_CLOCK)
            pid, self._child = self._child, 0
            os.waitpid(pid, 0)
            end = End.of(seen)
            if end.code not in (ExitCode.DONE, ExitCode.USAGE):
                say("child ended", reason=end.reason, code=end.code, pid=pid, left_behind=left)
            held = beat.read(page).get("held", ())
        finally:
            os.close(page)
        self._releases |= {self._release(each, seen_dead) for each in held}
        return end

    def _start(self, page: int) -> int:
        env = {**os.environ, beat.FD_VARIABLE: str(page), PARENT_VARIABLE: str(os.getpid())}
        default = [*(self._signals), signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ]
        return os.posix_spawn(self._program[0], self._program, env, setsid=True, setsigmask=[], setsigdef=default)

    def _release(self, held: dict[str, object], seen_dead: float) -> int:
        """In a process of its own: bounded by an alarm whatever the network does, and its TLS never weighs on this one."""
        if pid := os.fork():
            return pid
        from soloist.shells.release import release

        release(held, seen_dead=seen_dead, clock=_CLOCK, say=say)
        os._exit(0)

    def _hear(self, timeout: float | None = None) -> None:
        """Take one signal: pass it on, or reap whatever has died (but for the child itself, whose death is looked at)."""
        if timeout is None:
            heard = signal.sigwaitinfo(self._signals).si_signo
        else:
            info = signal.sigtimedwait(self._signals, timeout)
            heard = info.si_signo if info is not None else signal.SIGCHLD
        if heard == signal.SIGCHLD:
            self._reap()
            return
        self._stopping = self._stopping or heard in STOPS
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, heard)

    def _rest(self, seconds: float) -> None:
        until = _CLOCK.boottime() + seconds
        while not self._stopping and (left := until - _CLOCK.boottime()) > 0:
            self._hear(timeout=left)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (gone := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if gone.si_pid == self._child:
                    return
                os.waitpid(gone.si_pid, 0)
                if gone.si_pid in self._releases and gone.si_code != os.CLD_EXITED:
                    say("lease not released: it runs out by itself", outcome="no answer in time")
                self._releases.discard(gone.si_pid)
                self._strangers.discard(gone.si_pid)
