"""Values of Secrets where there is no API server: beside the manifests, in a folder, or in the environment.

A folder is what Docker, systemd and a mounted volume give: one folder for each Secret, one file for each key. Files are read
anew for each use, so that a value that is rotated is heeded; the environment, which nobody changes from outside, once. In
this order, and what is found nowhere is said with all three places.
"""

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.queue_files import key_in
from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError

MOST_BYTES = 1 << 20
_PREFIX = "SOLOIST_SECRET_"


class NowhereError(PermanentError):
    """There is nothing of that Secret, whatever the key."""


def variable(ref: KeyRef) -> str:
    """The environment's name for one key: ``SOLOIST_SECRET_NAME_KEY``, with what is no letter or digit as ``_``."""
    return _PREFIX + _word(f"{ref.name}_{ref.key}")


@lru_cache(maxsize=1024)
def _word(text: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", text.upper())


class LocalKeys:
    """``folder`` empty: there is none. ``env`` is the process's environment."""

    def __init__(self, manifests: Manifests, *, folder: str, env: Mapping[str, str]) -> None:
        self._manifests, self._folder = manifests, folder
        # Only ours: thousands of runs may come at a time, and look through all of it for what is nowhere.
        self._env = {name: value for name, value in env.items() if name.startswith(_PREFIX)}

    async def read(self, namespace: str, ref: KeyRef) -> Sealed:
        """The ``ReadKey`` port. Raises PermanentError with a sentence that says where it may be put."""
        if (ref.kind, namespace, ref.name) in self._manifests.objects:
            return key_in(self._manifests, namespace, ref)
        if ref.kind == "Secret":
            if self._folder and (found := self._in_folder(ref)) is not None:
                return Sealed(found)
            if (found := self._env.get(variable(ref))) is not None:
                return Sealed(found)
        kind = PermanentError if self._has_other_keys(ref) else NowhereError
        raise kind(self._nowhere(namespace, ref))

    def _has_other_keys(self, ref: KeyRef) -> bool:
        """A folder of that name, or a variable that begins like those of its keys."""
        plain = not ({ref.name} & {"", ".", ".."} or os.sep in ref.name)
        folder = plain and bool(self._folder) and (Path(self._folder) / ref.name).is_dir()
        begins = f"{_PREFIX}{_word(ref.name)}_"
        return folder or any(name.startswith(begins) for name in self._env)

    def _in_folder(self, ref: KeyRef) -> str | None:
        if {ref.name, ref.key} & {"", ".", ".."} or os.sep in ref.name + ref.key:
            return None
        file = Path(self._folder) / ref.name / ref.key
        try:
            if file.exists() and not file.is_file():
                raise PermanentError(f"{file} is no file: put the value in one.")  # a pipe would be waited for
            with file.open("rb") as opened:
                return opened.read(MOST_BYTES).decode("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise PermanentError(f"{file} cannot be read as text ({type(error).__name__}): mend it.") from None

    def _nowhere(self, namespace: str, ref: KeyRef) -> str:
        place = f"{ref.kind} {namespace}/{ref.name}, key {ref.key!r}, is in none of the files"
        if ref.kind != "Secret":
            return f"{place}: add it to one, or name another."
        folder = f"{self._folder or '--secrets DIR'}/{ref.name}/{ref.key}"
        return f"{place}, not in {folder}, and {variable(ref)} is not set: put it in one of the three, or name another."
