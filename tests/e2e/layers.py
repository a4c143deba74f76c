"""Images put together by hand out of this machine's own programs, for an engine that can pull nothing: one layer each.

with Layer() as layer:
    layer.shell(); layer.program("/usr/bin/node"); layer.tree(home, "app"); layer.file("entry", "…")
    layer.archive(path, tag, config)      # what `docker load` takes
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster.node_binaries import installed
from tests.cluster.node_images import _archive, _plain
from tests.cluster.versions import cache
from tests.e2e.backend_image import libraries

APPLETS = ("sh", "env", "echo", "rm", "true")


class Layer:
    """Names inside have no `/` before them. Owner is root and the mode 0755, but where said otherwise."""

    def __enter__(self) -> Layer:
        self._folder = tempfile.TemporaryDirectory(dir=cache())
        self._path = Path(self._folder.name) / "layer.tar"
        self._tar = tarfile.open(self._path, "w")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:  # fmt: skip
        self._tar.close()
        self._folder.cleanup()

    def tree(self, path: Path, name: str) -> None:
        self._tar.add(path, name, filter=_plain)

    def linked(self, *programs: Path, but: Path | None = None) -> None:
        """The libraries that they are linked to, where they look for them; without those in ``but``."""
        found = {Path(library) for program in programs for library in libraries(str(program))}
        for library in sorted(found):
            if but is None or not library.resolve().is_relative_to(but):
                self._tar.add(library.resolve(), str(library).lstrip("/"), filter=_plain)

    def shell(self) -> None:
        """One static program under the names that an entry point or npm asks for, and the accounts."""
        self._tar.add(installed()["busybox"], "bin/busybox", filter=_plain)
        for name in APPLETS:
            self.link(f"bin/{name}", "busybox")
        self.link("usr/bin/env", "/bin/busybox")
        self.folder("tmp", mode=0o1777)

    def accounts(self, name: str, number: int) -> None:
        self.file("etc/passwd", f"root:x:0:0::/root:/bin/sh\n{name}:x:{number}:{number}::/tmp:/bin/sh\n")
        self.file("etc/group", f"root:x:0:\n{name}:x:{number}:\n")

    def link(self, name: str, target: str) -> None:
        self._tar.addfile(_member(name, tarfile.SYMTYPE, linkname=target))

    def file(self, name: str, text: str) -> None:
        self._tar.addfile(_member(name, tarfile.REGTYPE, size=len(text.encode())), io.BytesIO(text.encode()))

    def folder(self, name: str, *, mode: int = 0o755, owner: int = 0) -> None:
        self._tar.addfile(_member(name, tarfile.DIRTYPE, mode=mode, uid=owner, gid=owner))

    def archive(self, path: Path, tag: str, config: dict[str, Any]) -> None:
        self._tar.close()
        _archive(path, tag, self._path, config)


def _member(name: str, kind: bytes, **fields: Any) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, 0o755
    for field, value in fields.items():
        setattr(member, field, value)
    return member
