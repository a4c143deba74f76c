"""Manifests as they are followed: each file by itself, and what it said last where it is broken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from soloist.adapters.files.documents import JOBS_TOO
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.files.secret_folder import LocalKeys, variable
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError


def job(name: str, schedule: str = "@every 5s") -> str:
    return f'kind: ScheduledJob\nmetadata: {{name: {name}}}\nspec: {{schedule: "{schedule}"}}\n'


def names(manifests: Manifests) -> list[str]:
    return [name for _, _, name in manifests.objects]


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
    assert manifests.look()
    assert names(manifests) == ["a", "b", "c"]
    assert list(manifests.problems) == [str(tmp_path / "a.yaml")]
    assert "line 1: this cannot be read as YAML: mend it." in manifests.problems[str(tmp_path / "a.yaml")]
    assert not manifests.look(), "nothing has changed since"


def test_a_file_that_is_mended_is_taken_and_its_problem_is_over(tmp_path: Path, manifests: Manifests) -> None:
    (tmp_path / "a.yaml").write_text("half: [a")
    manifests.look()
    (tmp_path / "a.yaml").write_text(job("a", "@every 7s"))
    assert manifests.look()
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
    assert manifests.look()
    assert names(manifests) == ["b"]


def test_of_an_object_that_is_in_two_files_the_first_holds_and_both_are_named(
    tmp_path: Path, manifests: Manifests
) -> None:
    (tmp_path / "c.yaml").write_text(job("a", "@every 9s"))
    assert manifests.look()
    assert manifests.objects["ScheduledJob", "default", "a"].raw["spec"]["schedule"] == "@every 5s"
    assert f"twice, in {tmp_path / 'a.yaml'} too" in manifests.problems[str(tmp_path / "c.yaml")]


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
    for escape in ("..", "a/b"):
        with pytest.raises(PermanentError, match="is in none of the files"):
            read(escape)
    with pytest.raises(PermanentError) as refused:
        read("four")
    assert variable(KeyRef(kind="Secret", name="four", key="key")) in str(refused.value)
    assert f"{folder}/four/key" in str(refused.value)
