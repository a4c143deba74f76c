"""The ``exec`` action: a command on this host, in a process group of its own that ends with it.

What became of it is known whenever this process lives to see it: it exited, or it was killed for its time. Killed is the
whole group, so nothing of one attempt goes on beside the next. When this process dies, the kernel kills the command with
it, and its parent whatever the command had started; no output is lost to a pipe that nobody reads, since it is read as it
comes and only its end is kept. The pipe is our own, not asyncio's: there a command is not over before all have closed it, and
what a command leaves in the background does not.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from soloist.domain.actions import ExecAction, FailedKnown, Order, Outcome, Response, Succeeded
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.instants import stamp

KEPT = 1024
"""Bytes of output, the last ones."""

_OURS = "SOLOIST_"
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class _Output:
    """The end of a pipe that is read."""

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport

    def close(self) -> None:
        self.transport.close()


async def _pipe() -> tuple[_Output, int]:
    """What is read, and the end for a command, which is to be closed here once it has it."""
    ours, theirs = os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0))
    return _Output(reader, transport), theirs


class CommandLauncher:
    """A ``Launcher`` for ``ExecAction``. ``env`` is what commands inherit; what is Soloist's own in it may be a secret."""

    def __init__(self, env: Mapping[str, str], *, trusted: Callable[[], bool]) -> None:
        self._env = {name: value for name, value in env.items() if not name.startswith(_OURS)}
        self._trusted = trusted

    async def prepare(self, order: Order) -> str:
        """Nothing can be made ready that does nothing by itself."""
        return ""

    async def launch(self, order: Order) -> Outcome:
        if not isinstance(order.action, ExecAction):
            raise PermanentError(f"{order.run_name}: the exec launcher was given another kind of action.")
        if not self._trusted():
            raise TransientError("The term was over before the command could be started.", sent=False)
        output, pipe = await _pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *order.action.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=asyncio.subprocess.STDOUT,
                env=self._env | variables(order),
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except (OSError, ValueError) as error:
            output.close()
            return FailedKnown(
                reason="NotStarted", message=_not_started(order.action.command[0], error), retryable=True
            )
        finally:
            os.close(pipe)
        try:
            return await _ended(process, output.reader, order)
        finally:
            output.close()

    async def found(self, order: Order) -> Outcome | None:
        raise PermanentError(
            f"{order.run_name}: nobody can know what became of a command that another process started."
        )

    async def stop(self, order: Order) -> None:
        """Whoever waits for the command is cancelled, which kills it."""


def _not_started(program: str, error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    message = f"spec.exec.command[0], {program}, could not be started: {said}."
    if isinstance(error, FileNotFoundError) and any(letter.isspace() for letter in program):
        return f"{message} No shell reads it: write a program and its words one by one, or [sh, -c, {program!r}]."
    return message


def variables(order: Order) -> dict[str, str]:
    """What a command is told of its run; the same names as in a Job."""
    told = {
        "SOLOIST_RUN": order.run_name,
        "SOLOIST_KEY": order.key,
        "SOLOIST_FENCE": str(order.fence),
        "SOLOIST_ATTEMPT": str(order.attempt),
    }
    if order.scheduled_time is not None:
        told["SOLOIST_SCHEDULED_TIME"] = stamp(order.scheduled_time)
    return told


async def _ended(process: asyncio.subprocess.Process, output: asyncio.StreamReader, order: Order) -> Outcome:
    tail = bytearray()
    reading = asyncio.create_task(_keep_the_end(output, tail))
    seconds = order.timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        code = None
    finally:
        _kill_group(process.pid)
        # What left the group may hold the pipe for ever.
        await asyncio.wait({reading}, timeout=1.0)
        reading.cancel()
    response = Response(excerpt=tail.decode("utf-8", "replace")[-KEPT:])
    if code == 0:
        return Succeeded(response=response)
    if code is None:
        message = f"It was not over after {seconds:g} s (spec.timeoutSeconds), and was killed."
        return FailedKnown(reason="TimedOut", message=message, retryable=True, response=response)
    ended = f"exited with {code}" if code > 0 else f"was killed by signal {-code} ({signal.strsignal(-code)})"
    return FailedKnown(reason="CommandFailed", message=f"The command {ended}.", retryable=True, response=response)


async def _keep_the_end(output: asyncio.StreamReader, tail: bytearray) -> None:
    while piece := await output.read(65536):
        tail += piece
        del tail[:-KEPT]


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _die_with_parent() -> None:
    """Runs in the new process, between fork and exec: one call into the kernel, and nothing else."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
