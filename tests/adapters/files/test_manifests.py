"""Manifests as they are followed: each file by itself, and what it said last where it is broken."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from soloist.adapters.files import manifests as module
from soloist.adapters.files.documents import JOBS_TOO
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.secret_folder import LocalKeys, NowhereError, variable
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError

TWICE = "ScheduledJob default/a is there twice, in"


def job(name: str, schedule: str = "@every 5s", version: str = "soloist.dev/v1alpha1") -> str:
    head = f"apiVersion: {version}\nkind: ScheduledJob\nmetadata: {{name: {name}}}\n"
    return f'{head}spec: {{schedule: "{schedule}"}}\n'


def names(manifests: Manifests) -> list[str]:
    return [name for _, _, name in manifests.objects]


def later(manifests: Manifests) -> bool:
    """What has changed is taken by the second look that finds the same."""
    first = manifests.look()
    return manifests.look() or first


@pytest.fixture
def manifests(tmp_path: Path) -> Manifests:
    (tmp_path / "a.yaml").write_text(job("a"))
    (tmp_path / "b.yaml").write_text(job("b"))
    found = Manifests([str(tmp_path)], JOBS_TOO)
    assert found.look()
    return found


def test_a_broken_file_keeps_its_own_objects_and_holds_up_no_other(tmp_path: Path, manifests: Manifests) -> None:
    (tmp_path / "a.yaml").write_text("half: [a")
    (tmp_path / "b.yaml").write_text(job("b") + "---\n" + job("c"))
    assert later(manifests)
    assert names(manifests) == ["a", "b", "c"]
    assert list(manifests.problems) == [str(tmp_path / "a.yaml")]
    assert "this cannot be read as YAML: mend it." in manifests.problems[str(tmp_path / "a.yaml")]
    assert not manifests.look(), "nothing has changed since"


def test_a_file_that_is_mended_is_taken_and_its_problem_is_over(tmp_path: Path, manifests: Manifests) -> None:
    (tmp_path / "a.yaml").write_text("half: [a")
    later(manifests)
    (tmp_path / "a.yaml").write_text(job("a", "@every 7s"))
    assert later(manifests)
    assert manifests.objects["ScheduledJob", "default", "a"].raw["spec"]["schedule"] == "@every 7s"
    assert manifests.problems == {}


def test_a_folder_that_goes_away_takes_nothing_along(tmp_path: Path, manifests: Manifests) -> None:
    away = tmp_path.rename(tmp_path.with_name("away"))
    assert manifests.look()
    assert names(manifests) == ["a", "b"]
    assert "does not exist" in manifests.problems[str(tmp_path)]
    away.rename(tmp_path)
    assert manifests.look()
    assert manifests.problems == {}


def test_a_file_that_is_removed_takes_its_objects_along(tmp_path: Path, manifests: Manifests) -> None:
    (tmp_path / "a.yaml").unlink()
    assert later(manifests)
    assert names(manifests) == ["b"]


def test_of_an_object_that_is_in_two_files_the_first_holds_and_both_are_named(
    tmp_path: Path, manifests: Manifests
) -> None:
    (tmp_path / "c.yaml").write_text(job("a", "@every 9s"))
    assert later(manifests)
    assert manifests.objects["ScheduledJob", "default", "a"].raw["spec"]["schedule"] == "@every 5s"
    assert f"twice, in {tmp_path / 'a.yaml'} too" in manifests.problems[str(tmp_path / "c.yaml")]


def test_a_file_that_is_emptied_or_away_for_a_moment_takes_nothing_along(tmp_path: Path, manifests: Manifests) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("")
    manifests.look()
    assert names(manifests) == ["a", "b"], "an editor empties a file before it writes it"
    file.write_text(job("a") + "---\n" + job("c"))
    later(manifests)
    assert names(manifests) == ["a", "c", "b"]
    file.rename(tmp_path / "a.yaml~")
    manifests.look()
    assert names(manifests) == ["a", "c", "b"], "or moves it aside"
    file.write_text(job("a", "@every 8s"))
    later(manifests)
    assert names(manifests) == ["a", "b"]
    file.rename(tmp_path / "z.yaml")
    for _ in range(2):
        manifests.look()
        assert "a" in names(manifests), "one that is renamed has its objects all the time"


def test_a_folder_without_any_manifest_says_nothing_about_what_there_is_to_be(
    tmp_path: Path, manifests: Manifests
) -> None:
    assert manifests.lacking == []
    for file in ("a.yaml", "b.yaml"):
        (tmp_path / file).unlink()
    for _ in range(3):
        manifests.look()
    assert names(manifests) == ["a", "b"], "a volume that is not mounted looks like that"
    assert "holds no manifest" in manifests.problems[str(tmp_path)]
    (tmp_path / "none.yaml").write_text("")
    later(manifests)
    later(manifests)
    assert names(manifests) == []
    assert manifests.lacking == []
    (tmp_path / "empty").mkdir()
    fresh = Manifests([str(tmp_path / "empty")], JOBS_TOO)
    fresh.look()
    assert (len(fresh.lacking), fresh.problems) == (1, {})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kind: [a]\n", ""),
        ("kind: List\nitems:\n", ""),
        ("kind: List\nitems: 5\n", ""),
        ("\ufeff" + job("a").replace("\n", "\r\n"), ""),
        (job("a", version="soloist.dev/v2"), 'document 1 ("a"): apiVersion \'soloist.dev/v2\' is not known here: write soloist.dev/v1alpha1'),
        (job("a") + "spec: {}\n", "line 5: a key is there twice: remove one."),
        (job("a") + "---\n" + job("c").replace("ScheduledJob", "ScheduledJbo"), 'document 2 ("c"): kind \'ScheduledJbo\' is not known here: write ScheduledJob.'),
        ("kind: List\nitems:\n- {kind: List, items: [{kind: Pod}, {kind: ScheduledJbo}]}\n", "document 1, item 1, item 2: kind 'ScheduledJbo' is not known here: write ScheduledJob."),
        ("kind: List\nitems:\n- {kind: Pod}\n- {kind: [sesame], spec: {password: sesame}}\n", "document 1, item 2: there is no kind: write kind: ScheduledJob or WorkQueue."),
        ("kind: Pod\n---\nmetadata: {name: [sesame]}\nspec: {}\n", "document 2: there is no kind"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)), "cannot be read as YAML"),
        ("a: &a [*a]\n", "cannot be read as YAML"),
        ("[" * 100_000, "cannot be read as YAML"),
        ("- " * 100_000, "cannot be read as YAML"),
        ("[" * 101 + "]" * 101, "cannot be read as YAML"),
        ("[" * 100 + "]" * 100, ""),
        (job("a").encode("utf-16"), "is not text in UTF-8: save it as such."),
        (b"#" * (17 << 20), "is longer than 16 MiB: make several files of it."),
    ],
)  # fmt: skip
def test_an_odd_file_is_refused_with_a_sentence_or_passed_over(
    tmp_path: Path, manifests: Manifests, content: str | bytes, says: str
) -> None:
    (tmp_path / "odd.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    assert later(manifests)
    problem = manifests.problems.get(str(tmp_path / "odd.yaml"), "")
    assert "sesame" not in problem
    assert says in problem if says else problem in ("", f"{tmp_path / 'odd.yaml'}: {TWICE} {tmp_path / 'a.yaml'} too: rename or remove one.")  # fmt: skip
    assert names(manifests) == ["a", "b"]


def test_a_wrong_letter_in_a_kind_or_a_group_removes_nothing_and_one_that_is_mended_is_taken(
    tmp_path: Path, manifests: Manifests
) -> None:
    file = tmp_path / "a.yaml"
    for wrong in (job("a").replace("ScheduledJob", "ScheduledJbo"), job("a").replace("soloist.dev", "soloits.dev"), job("a").replace("kind:", "knd:")):  # fmt: skip
        file.write_text(wrong)
        assert later(manifests)
        assert names(manifests) == ["a", "b"]
        assert list(manifests.problems) == [str(file)]
    file.write_text(job("a", "@every 7s"))
    assert later(manifests)
    assert manifests.objects["ScheduledJob", "default", "a"].raw["spec"]["schedule"] == "@every 7s"
    assert manifests.problems == {}


def test_what_is_no_file_is_not_waited_for(tmp_path: Path, manifests: Manifests) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "none.yaml").symlink_to("/no/such/file")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(4):
        manifests.look()
    assert len(manifests.problems) == 4
    assert len(os.listdir("/proc/self/fd")) == opened
    assert names(manifests) == ["a", "b"]


def test_a_file_that_may_be_read_from_now_on_is_read_though_nothing_in_it_has_changed(
    tmp_path: Path, manifests: Manifests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: Path, _: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    (tmp_path / "a.yaml").write_text(job("a", "@every 7s"))
    with monkeypatch.context() as patched:
        patched.setattr(module, "read_file", refused)
        later(manifests)
        assert "cannot be read (Permission denied)" in manifests.problems[str(tmp_path / "a.yaml")]
        assert not later(manifests)
    assert later(manifests)
    assert manifests.problems == {}
    assert manifests.objects["ScheduledJob", "default", "a"].raw["spec"]["schedule"] == "@every 7s"


def test_a_secret_is_looked_for_beside_the_jobs_then_in_the_folder_then_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("kind: Secret\nmetadata: {name: one}\nstringData: {key: from-file}\n")
    folder = tmp_path / "secrets"
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / "key").write_text("from-folder")
    manifests = Manifests([str(tmp_path / "s.yaml")], JOBS_TOO)
    manifests.look()
    env = {"SOLOIST_SECRET_TWO_KEY": "from-env", "SOLOIST_SECRET_THREE_A_KEY": "from-env"}
    keys = LocalKeys(manifests, folder=str(folder), env=env)

    def read(name: str, key: str = "key") -> str:
        return asyncio.run(keys.read("default", KeyRef(kind="Secret", name=name, key=key))).reveal()

    assert [read("one"), read("two"), read("three", "a.key")] == ["from-file", "from-folder", "from-env"]
    env.clear()
    assert read("three", "a.key") == "from-env", "the environment is read once"
    for escape in ("..", "a/b"):
        with pytest.raises(PermanentError, match="is in none of the files"):
            read(escape)
    with pytest.raises(PermanentError) as refused:
        read("four")
    assert isinstance(refused.value, NowhereError)
    for name, key in (("one", "no"), ("two", "no"), ("three", "no")):
        with pytest.raises(PermanentError) as wrong:
            read(name, key)
        assert not isinstance(wrong.value, NowhereError), "there is such a Secret, and the key is wrong"
    os.mkfifo(folder / "two" / "pipe")
    with pytest.raises(PermanentError, match="is no file"):
        read("two", "pipe")
    assert variable(KeyRef(kind="Secret", name="four", key="key")) in str(refused.value)
    assert f"{folder}/four/key" in str(refused.value)
