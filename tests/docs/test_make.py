"""`make` alone prints every target that is for people, with what it does; the README's two commands are among them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


def printed(*arguments: str) -> str:
    """As in a shell of its own: a make that runs these tests would have its doings printed too."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def test_make_alone_prints_the_targets_and_does_nothing_else() -> None:
    lines = printed().splitlines()
    assert lines
    assert all(re.fullmatch(r"  make [a-z0-9-]+ +\S.*", line) for line in lines)


def test_every_target_has_a_line() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)[0].split())
    assert targets == set(re.findall(r"make ([a-z0-9-]+)", printed()))


def test_the_pages_for_people_name_targets_that_exist() -> None:
    targets = set(re.findall(r"make ([a-z0-9-]+)", printed()))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert named, page
        assert named <= targets, page


@pytest.mark.parametrize(
    ("python", "remedy"),
    [
        pytest.param("exit 1", "Python 3.11 or newer is needed: install the system package python3", id="too old"),
        pytest.param('[ "$1" = -c ]', "install the system package python3-venv", id="without venv"),
    ],
)
def test_what_is_missing_on_the_system_is_named(tmp_path: Path, python: str, remedy: str) -> None:
    """A python that refuses; the environment is made in another place than ours."""
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)
    argv = ["make", f"{tmp_path}/venv/ready", f"VENV={tmp_path}/venv", f"PYTHON={fake}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert remedy in done.stderr


@pytest.mark.parametrize(
    ("account", "unshare"),
    [
        pytest.param(1000, "exit 0", id="another account, though it may have namespaces"),
        pytest.param(0, "exit 1", id="root that may have none, as in an ordinary container"),
    ],
)
def test_the_gate_says_at_once_that_it_wants_root(tmp_path: Path, account: int, unshare: str) -> None:
    """On a PATH of no more than what asks: had it gone on, it would find nothing to go on with."""
    for name, line in {"id": f"echo {account}", "unshare": unshare}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    argv = [tmp_path / "bash", ROOT / ".ci" / "run"]
    done = subprocess.run(argv, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The gate wants root")
    assert len(done.stderr.splitlines()) == 1


def test_the_gate_installs_no_package_that_the_readme_does_not_name() -> None:
    installed = set(re.findall(r"missing\+=\(([a-z0-9-]+)\)", (ROOT / ".ci/run").read_text(encoding="utf-8")))
    assert {"postgresql", "pgbouncer"} <= installed
    packages = re.search(r"\(packages (.+?)\), from a clean clone", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert packages is not None
    assert installed <= set(re.findall(r"`([a-z0-9-]+)`", packages[1]))
