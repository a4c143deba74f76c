"""A folder that the account of an embedded server may enter, where tests run as root; and its server is not left running."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.children import born, until


@contextmanager
def open_folder() -> Iterator[Path]:
    folder = made_folder()
    try:
        yield folder
    finally:
        stop_servers(folder)
        shutil.rmtree(folder, ignore_errors=True)


def made_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="soloist-"))
    folder.chmod(0o711)
    return folder


def stop_servers(folder: Path) -> None:
    """Those that were left running."""
    for found in folder.glob("**/postmaster.pid"):
        end(found)


def postmaster(data: Path) -> int:
    """Of the embedded server whose folder is ``data``; 0 where there is none, or it is about to say so."""
    file = data / "pgdata" / "postmaster.pid"
    try:
        return int(next(iter(file.read_text().split()), 0))
    except FileNotFoundError:
        return 0


def end(pid_file: Path) -> None:
    pid = int(pid_file.read_text().split()[0])
    if born(pid):
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not born(pid), what="the embedded server is gone", timeout=60)
