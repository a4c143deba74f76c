"""A skip that nobody listed fails the gate, wherever it stands and however many processes run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = """
import pytest

def test_listed():
    pytest.skip("no such machine here")

def test_runs():
    assert True
"""
PLANTED = {
    "in a test": "import pytest\n\ndef test_unlisted():\n    pytest.skip('out of sight')\n",
    "by a mark": "import pytest\n\n@pytest.mark.skip('out of sight')\ndef test_unlisted():\n    pass\n",
    "of a whole module": "import pytest\n\npytest.skip('out of sight', allow_module_level=True)\n",
    "of what is not installed": "import pytest\n\npytest.importorskip('out_of_sight')\n",
}


def play(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "skips").write_text("no such machine | the reason why\n")
    (folder / "test_listed.py").write_text(LISTED)
    (folder / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "SOLOIST_SKIPS": str(folder / "skips"), "PYTHONPATH": str(ROOT)}
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.skips", "-p", "no:cacheprovider", *flags, str(folder)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("flags", [(), ("-n", "2")], ids=["one process", "two workers"])
@pytest.mark.parametrize("where", [None, *PLANTED])
def test_a_skip_that_is_not_listed_fails_the_run(tmp_path: Path, where: str | None, flags: tuple[str, ...]) -> None:
    if where is not None:
        (tmp_path / "test_planted.py").write_text(PLANTED[where])
    done = play(tmp_path, *flags)
    said = "skipped without being listed" in done.stdout
    assert (done.returncode, said) == ((0, False) if where is None else (1, True)), done.stdout + done.stderr
    assert done.stdout.count("skipped without being listed") == int(where is not None), "each is said once"
