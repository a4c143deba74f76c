"""Which database a Secret names where there is no API server: its own, or, where it is nowhere, the process's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from soloist.adapters.files.documents import JOBS_TOO
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.secret_folder import LocalKeys
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError
from soloist.shells.local_files import OwnDatabase

OWN = "postgresql://own/db"


def test_a_database_whose_secret_is_nowhere_is_ones_own_and_one_with_a_wrong_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "kind: Secret\nmetadata: {name: filed}\nstringData: {uri: postgresql://there/db}\n"
    )
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted/uri").write_bytes(b"\xff")
    manifests = Manifests([str(tmp_path / "a.yaml")], JOBS_TOO)
    manifests.look()
    keys = LocalKeys(manifests, folder=str(tmp_path), env={"SOLOIST_SECRET_SET_URI": "postgresql://env/db"})

    def read(name: str, key: str = "uri") -> str:
        return asyncio.run(OwnDatabase(keys.read, OWN).read("default", KeyRef(kind="Secret", name=name, key=key))).reveal()  # fmt: skip

    assert [read("filed"), read("set"), read("own")] == ["postgresql://there/db", "postgresql://env/db", OWN]
    for name, key in (("filed", "url"), ("set", "url"), ("mounted", "uri"), ("mounted", "url")):
        with pytest.raises(PermanentError):
            read(name, key)
