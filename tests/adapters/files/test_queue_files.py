"""WorkQueues and their Secrets out of files: what is read, what is refused, and what a later mistake changes (nothing)."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from soloist.adapters.files import queue_files as module
from soloist.adapters.files.queue_files import QueueFiles
from soloist.domain.actions import KeyRef
from soloist.domain.errors import ConfigError, PermanentError
from soloist.domain.queue_name import FoundQueues

QUEUE = """
apiVersion: soloist.dev/v1alpha1
kind: WorkQueue
metadata: {name: NAME, namespace: shop}
spec:
  database: {secretName: db, key: uri}
  deliver: {http: {url: "http://backend/"}}
"""
SECRETS = f"""
kind: Secret
metadata: {{name: db, namespace: shop}}
stringData: {{uri: "postgresql://plain"}}
data: {{coded: {base64.b64encode(b"secret-text").decode()}, broken: "%%%", binary: {base64.b64encode(bytes([255, 0])).decode()}}}
---
kind: ConfigMap
metadata: {{name: ca, namespace: shop}}
data: {{pem: "-----BEGIN"}}
"""


def queue(name: str) -> str:
    return QUEUE.replace("NAME", name)


def names(found: FoundQueues) -> list[str]:
    return sorted(map(str, found.valid))


def put(file: Path, text: str) -> None:
    """Whole, or not at all: it is looked at meanwhile."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


class Following:
    """The files as a worker follows them; what it was told, and what was refused."""

    def __init__(self, *paths: Path) -> None:
        self.refused: list[str] = []
        self.told: list[list[str]] = []
        self.files = QueueFiles([str(path) for path in paths], told=self.refused.append)

    async def until(self, probe: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not probe():
                await asyncio.sleep(0.005)

    async def __aenter__(self) -> Following:
        self.task = asyncio.create_task(self.files.run(lambda found: self.told.append(names(found))))
        await self.until(lambda: self.told)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)


def test_a_folder_and_a_file_are_read_and_what_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "queues"
    folder.mkdir()
    (folder / "a.yaml").write_text(f"{queue('a')}---\nkind: ScheduledJob\n---\n---\njust text\n")
    (folder / "b.json").write_text('{"kind": "List", "items": [{"kind": "Pod"}]}')
    (folder / "..data.yaml").write_text("kind: [")
    (folder / "notes.txt").write_text("kind: [")
    single = tmp_path / "one.conf"
    single.write_text(queue("c"))

    async def body() -> None:
        async with Following(folder, single) as it:
            assert it.told == [["shop/a", "shop/c"]]

    asyncio.run(body())


def test_values_of_secrets_and_configmaps_are_read_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SECRETS)
    files = QueueFiles([str(tmp_path)], told=print)

    def read(kind: str, name: str, key: str) -> str:
        sealed = asyncio.run(files.read_key("shop", KeyRef(kind=kind, name=name, key=key)))
        assert repr(sealed) == "***"
        return sealed.reveal()

    assert read("Secret", "db", "uri") == "postgresql://plain"
    assert read("Secret", "db", "coded") == "secret-text"
    assert read("ConfigMap", "ca", "pem") == "-----BEGIN"
    for kind, name, key, says in (
        ("Secret", "no", "uri", "Secret shop/no is in none of the files"),
        ("ConfigMap", "db", "uri", "ConfigMap shop/db is in none of the files"),
        ("Secret", "db", "no", "Secret shop/db has no key 'no'"),
        ("Secret", "db", "broken", "has no key 'broken' with text in it"),
        ("Secret", "db", "binary", "has no key 'binary' with text in it"),
    ):
        with pytest.raises(PermanentError, match=says):
            read(kind, name, key)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("password: [sesame", ": this cannot be read as YAML: mend it."),
        (
            "apiVersion: soloist.dev/v1alpha1\nkind: WorkQueue\nmetadata: {}\nspec: {password: sesame}\n",
            "a WorkQueue has no metadata.name: give it one.",
        ),
        (f"{queue('a')}---{queue('a')}  password: sesame\n", "WorkQueue shop/a is there twice: rename or remove one."),
        (
            f"{queue('a')}---{queue('b')}".replace("WorkQueue", "WorkQeue", 1),
            "document 1 (\"a\"): kind 'WorkQeue' is not known here: write WorkQueue.",
        ),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_start_with_a_sentence(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "a.yaml").write_text(content)
    with pytest.raises(ConfigError) as refused:
        QueueFiles([str(tmp_path)], told=print)
    assert says in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_a_queue_with_a_field_that_does_not_exist_stops_nothing_but_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{queue('a')}  aftercrash: Hold\n---{queue('b')}")
    files = QueueFiles([str(tmp_path)], told=print)
    found = files.found()
    assert names(found) == ["shop/b"]
    ((name, why),) = found.invalid.items()
    assert (str(name), why.field, why.reason) == ("shop/a", "spec.aftercrash", "FieldUnknown")
    assert why.message == "spec.aftercrash is no field that is of use here: write spec.afterCrash."
    assert files.are_taken() == (True, f"a.yaml: shop/a: {why.message}")


def test_a_path_that_is_not_there_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist: name a manifest, or a folder of them"):
        QueueFiles([str(tmp_path / "nothing")], told=print)


def test_a_file_that_is_added_changed_replaced_or_removed_is_told_of(tmp_path: Path) -> None:
    async def body() -> None:
        (tmp_path / "a.yaml").write_text(queue("a"))
        async with Following(tmp_path) as it:
            put(tmp_path / "b.yaml", queue("b"))
            await it.until(lambda: it.told[-1] == ["shop/a", "shop/b"])
            put(tmp_path / "a.yaml", queue("c"))
            await it.until(lambda: it.told[-1] == ["shop/b", "shop/c"])
            (tmp_path / "a.yaml").unlink()
            await it.until(lambda: it.told[-1] == ["shop/b"])
            seen = len(it.told)
            await asyncio.sleep(0.1)
            assert len(it.told) == seen, "nothing is told while nothing changes"

    asyncio.run(body())


def test_a_mistake_in_a_running_file_changes_nothing_and_is_told_once_until_it_is_mended(tmp_path: Path) -> None:
    async def body() -> None:
        file = tmp_path / "a.yaml"
        file.write_text(queue("a") + "---" + SECRETS)
        async with Following(file) as it:
            put(file, "half: [a")
            await it.until(lambda: it.refused)
            file.unlink()
            await it.until(lambda: len(it.refused) == 2)
            await asyncio.sleep(0.1)
            assert len(it.refused) == 2
            assert all("What was read before goes on to hold." in sentence for sentence in it.refused)
            sealed = await it.files.read_key("shop", KeyRef(kind="Secret", name="db", key="uri"))
            assert (it.told, sealed.reveal()) == ([["shop/a"]], "postgresql://plain")
            put(file, queue("b"))
            await it.until(lambda: it.told[-1] == ["shop/b"])

    asyncio.run(body())


def test_a_mistake_in_one_queue_of_a_running_file_keeps_that_one_as_it_was_until_it_is_mended(tmp_path: Path) -> None:
    async def body() -> None:
        file = tmp_path / "a.yaml"
        put(file, queue("a") + "  afterCrash: Hold\n")
        async with Following(file) as it:
            held = it.files.found().valid
            for wrong in ("aftercrash: Hold", "leaseSeconds: 1"):
                put(file, queue("a") + f"  {wrong}\n---" + queue("c"))
                await it.until(lambda: it.refused)
                assert names(it.files.found()) == ["shop/a", "shop/c"]
                assert it.files.found().invalid == {}
                assert it.files.found().valid.items() > held.items(), "it goes on as it was"
                (sentence,) = it.refused
                field = wrong.partition(":")[0]
                assert sentence.startswith(f"a.yaml: shop/a: spec.{field} ")
                assert sentence.endswith("What was read before goes on to hold.")
                assert f"shop/a: spec.{field} " in it.files.are_taken()[1]
                it.refused.clear()
            put(file, queue("a") + "  afterCrash: Retry\n")
            await it.until(lambda: it.told[-1] == ["shop/a"])
            assert it.files.found().valid != held
            assert it.files.are_taken() == (True, "all files are taken")
            assert it.refused == []

    asyncio.run(body())
