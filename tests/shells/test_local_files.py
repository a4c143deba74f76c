"""The files of one host: which database a Secret names (its own, or, where it is nowhere, the process's), and the queues in them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from soloist.adapters.files.documents import JOBS_TOO
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.secret_folder import LocalKeys
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError
from soloist.domain.places import without_a_cluster
from soloist.shells.local_files import LocalFiles, OwnDatabase
from soloist.shells.standalone_settings import load

OWN = "postgresql://own/db"
QUEUE = """
apiVersion: soloist.dev/v1alpha1
kind: WorkQueue
metadata: {name: q}
spec:
  database: {secretName: own, key: uri}
  deliver: {http: {url: "http://localhost/"}}
  concurrency: {perWorker: 3}
"""


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


def test_a_queue_is_read_when_its_file_changes_and_not_for_each_run_that_adds_a_row_to_it(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(QUEUE)
    files = LocalFiles(load({"files": (str(file),), "database": OWN}, {}), without_a_cluster(commands=False))

    async def main() -> None:
        known = await files.find_queue("default", "q")
        assert await files.find_queue("default", "q") is known
        following = asyncio.create_task(files.run(lambda: None, lambda _: None))
        file.write_text(QUEUE.replace("perWorker: 3", "perWorker: 30"))
        async with asyncio.timeout(60):
            while (await files.find_queue("default", "q")).concurrency.per_worker == 3:
                await asyncio.sleep(0.05)
        following.cancel()

    asyncio.run(main())
