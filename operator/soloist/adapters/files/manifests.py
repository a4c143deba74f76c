"""Manifests in files, followed: what they say now, and of each file that cannot be used what it said last.

A file that is broken changes nothing: its objects stay as they were read before, so that an editor's half-written file
stops neither a job nor a queue, and whose file it is is remembered with the reason. A folder that is not there (a volume
that is mounted anew), or has nothing in it any more, is such a file. Looked at by size, inode and times of change, since a
file may be replaced, or lie where no kernel tells of changes. What has changed is taken once two looks have found the same,
and what is gone counts as gone then: many editors, and git, empty or remove a file before they write it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from soloist.adapters.files.documents import Place, read_file
from soloist.domain.errors import ConfigError
from soloist.domain.manifest_plan import Written

ENDINGS = frozenset({".yaml", ".yml", ".json"})
_NOTHING = "holds no manifest (.yaml, .yml or .json; folders in it are not read), and what is in effect goes on: put one there; an empty one means that there are to be no objects."
_Stamp = tuple[int, int, int, int]
_NEVER: _Stamp = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object, and the file that it is from."""

    raw: Mapping[str, Any] = field(repr=False)
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """``stamp``: of what was read; ``seen``: of what was there at the last look."""

    stamp: _Stamp = _NEVER
    seen: _Stamp = field(default=_NEVER, compare=False)
    objects: Mapping[Place, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""


class Manifests:
    """``paths``: files, and folders whose ``.yaml``, ``.yml`` and ``.json`` are read. Nothing is read before ``look``."""

    def __init__(self, paths: Sequence[str], kinds: Collection[str]) -> None:
        self._paths, self._kinds = [Path(path) for path in paths], kinds
        self._files: dict[Path, _File] = {}
        self._missing: dict[str, str] = {}
        self._looked = False
        self._objects: dict[Place, Manifest] = {}
        self._problems: dict[str, str] = {}

    @property
    def objects(self) -> Mapping[Place, Manifest]:
        """All there are, as they were read last."""
        return self._objects

    @property
    def problems(self) -> Mapping[str, str]:
        """By file: why it was not taken as it is now."""
        return self._problems

    def planned(self, kind: str) -> tuple[list[Written], Mapping[str, str]]:
        """For a plan, which knows files by the last part of their path: the objects of that kind, and the problems."""
        written = [
            Written(raw=each.raw, file=Path(each.file).name)
            for place, each in self._objects.items()
            if place[0] == kind
        ]
        return written, {Path(file).name: sentence for file, sentence in self._problems.items()}

    @property
    def lacking(self) -> Sequence[str]:
        """Of each path of which nobody can say what it holds: why. A folder that has no manifest is one."""
        empty = [path for path in self._paths if str(path) not in self._missing and not self._known(path)]
        return [*self._missing.values(), *(f"{path} {_NOTHING}" for path in empty)]

    def look(self) -> bool:
        """Read what has changed; whether anything has, for better or worse."""
        missing: dict[str, str] = {}
        files: dict[Path, _File] = {}
        for path in self._paths:
            files |= self._under(path, missing)
        changed = (files, missing) != (self._files, self._missing)
        self._files, self._missing, self._looked = files, missing, True
        if changed:
            self._merge()
        return changed

    def _under(self, path: Path, missing: dict[str, str]) -> dict[Path, _File]:
        try:
            # A mounted ConfigMap has folders of its own in it whose names begin with two dots.
            inside = [each for each in path.iterdir() if each.suffix in ENDINGS and not each.name.startswith(".")]
        except NotADirectoryError:
            inside = [path]
        except OSError as error:
            what = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            missing[str(path)] = f"{path} {what}: name a manifest, or a folder of them."
            return self._known(path)
        known = self._known(path)
        if known and not inside:
            missing[str(path)] = f"{path} {_NOTHING}"
            return known
        gone = {file: read for file, read in known.items() if file not in inside and read.seen != _NEVER}
        kept = {file: replace(read, seen=_NEVER) for file, read in gone.items()}
        return kept | {file: self._file(file) for file in sorted(inside)}

    def _known(self, path: Path) -> dict[Path, _File]:
        return {file: read for file, read in self._files.items() if path in (file, file.parent)}

    def _file(self, file: Path) -> _File:
        known = self._files.get(file, _File())
        try:
            stamp = _stamp(file)
            if stamp == known.stamp or (self._looked and stamp != known.seen):
                return replace(known, seen=stamp)
            objects = read_file(file, self._kinds)
            if _stamp(file) != stamp:
                return replace(known, stamp=_NEVER, seen=_NEVER, problem=f"{file} is being written: wait.")
            return _File(stamp=stamp, seen=stamp, objects=objects)
        except OSError as error:
            return replace(known, stamp=_NEVER, problem=f"{file} cannot be read ({error.strerror}): mend it.")
        except ConfigError as error:
            return replace(known, stamp=stamp, seen=stamp, problem=str(error))

    def _merge(self) -> None:
        objects: dict[Place, Manifest] = {}
        broken = {str(file): read.problem for file, read in self._files.items() if read.problem}
        problems = broken | self._missing
        for file, read in self._files.items():
            for place, raw in read.objects.items():
                if place in objects:
                    there = f"{place[0]} {place[1]}/{place[2]} is there twice, in {objects[place].file} too"
                    problems.setdefault(str(file), f"{file}: {there}: rename or remove one.")
                else:
                    objects[place] = Manifest(raw=raw, file=str(file))
        self._objects, self._problems = objects, problems


def _stamp(file: Path) -> _Stamp:
    stat = file.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
