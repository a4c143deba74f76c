"""The examples run where the system packages no Node that is new enough."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.versions import Unavailable, cache
from tests.queue.nodejs import find_node, major

OnPath = Callable[..., Path]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnPath:
    """A PATH of these programs alone, each with what it says of its version."""

    def make(**says: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, version in says.items():
            (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return folder

    return make


@pytest.mark.parametrize("says", [{"node": "v20.19.0", "npm": "10.8.2"}, {"node": "v26.1.0", "npm": "11.0.0"}])
def test_a_node_of_path_that_is_new_enough_is_taken_with_its_npm(on_path: OnPath, says: dict[str, str]) -> None:
    folder = on_path(**says)
    found = find_node()
    assert (found.program, found.npm) == (folder / "node", folder / "npm")


@pytest.mark.parametrize(
    "says",
    [
        pytest.param({"node": "v18.20.4", "npm": "9.2.0"}, id="as Debian 12 packages it"),
        pytest.param({"node": "v22.0.0"}, id="without npm"),
        pytest.param({"node": "", "npm": "9.2.0"}, id="that says nothing"),
        pytest.param({}, id="that is not there"),
    ],
)
def test_for_one_that_is_not_both_come_out_of_the_wheel_and_work(on_path: OnPath, says: dict[str, str]) -> None:
    on_path(**says)
    found = find_node()
    assert found.program.is_relative_to(cache())
    assert major(str(found.program)) >= 20
    npm = subprocess.run([found.npm, "--version"], env=found.environment, capture_output=True, text=True, check=True)
    assert npm.stdout.startswith("11.")


def test_where_it_cannot_be_fetched_the_reason_says_what_to_install(
    on_path: OnPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path()
    for name, value in {"SOLOIST_CACHE": tmp_path / "cache", "PIP_NO_INDEX": 1, "PIP_FIND_LINKS": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(Unavailable, match=r"(?s)pip could not fetch .*install Node 20 or newer with npm\."):
        find_node()
    assert not list((tmp_path / "cache").glob("nodejs*")), "nothing that looks whole is left"
