"""Under which account a database server runs: ours, or, where we are root, one that is not. PostgreSQL refuses root.

setpriv execs what it is given, so the pid stays that of the child. Changing the user clears the signal that ties a
child to its parent's death; setpriv sets it again afterwards.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.versions import Unavailable

CANDIDATES = ("postgres", "nobody")


def unprivileged() -> pwd.struct_passwd | None:
    """The account to become, or None where we are no root and stay who we are."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is neither an account postgres nor nobody: add one.")


def as_account(argv: Sequence[str | Path], *, tied: bool) -> list[str]:
    """`argv`, run by the unprivileged account; `tied` to the death of whoever starts it."""
    account = unprivileged()
    plain = [str(part) for part in argv]
    if account is None:
        return plain
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Unavailable("PostgreSQL does not run as root, and setpriv is not on PATH: apt-get install util-linux.")
    become = [setpriv, "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups"]
    return [*become, *(["--pdeathsig", "KILL"] if tied else []), "--", *plain]


def give(folder: Path) -> None:
    account = unprivileged()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)


def reachable(folder: Path) -> bool:
    """Whether the account that runs the server may enter the folder."""
    return unprivileged() is None or all(path.stat().st_mode & 0o005 == 0o005 for path in (folder, *folder.parents))
