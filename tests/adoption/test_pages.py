"""What holds for all four pages: their commands find the variables that they name, and each page says how its backend is made."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.adoption.backend_process import EXAMPLES, MADE

EXAMPLES_WITH_PAGES = ["invoices", "payroll", "queues", "sweeps"]
EXPORTS = re.compile(r"^```bash\n((?:export .+\n)+)```$", re.MULTILINE)
COMMANDS = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
OWN = re.compile(r"\bfor (\w+) in |\b(\w+)=")
ROW = {"LETTER", "SCHEDULE", "DUE"}
"""Of the payment that is looked up in payroll's seventh step: columns of what it prints."""


def exported(page: str) -> dict[str, str]:
    """By the page's first block, in a shell that knows none of it; a variable that is not set yet ends it."""
    argv = ["bash", "-euc", f"{EXPORTS.findall(page)[0]}env -0"]
    done = subprocess.run(argv, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(each.split("=", 1) for each in done.stdout.split("\0") if each)


@pytest.mark.parametrize("example", EXAMPLES_WITH_PAGES)
def test_each_variable_of_a_pages_commands_is_one_that_the_page_sets(example: str) -> None:
    page = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    commands = "".join(COMMANDS.findall(page))
    own = {name for names in OWN.findall(commands) for name in names}
    named = set(re.findall(r"\$\{?(\w+)", commands))
    assert named
    assert named - own - set(exported(page)) - (ROW if example == "payroll" else set()) == set()


@pytest.mark.parametrize("example", EXAMPLES_WITH_PAGES)
def test_the_value_of_no_variable_is_empty_or_half_of_one(example: str) -> None:
    page = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    for line in EXPORTS.findall(page)[0].splitlines():
        for name in re.findall(r"(\w+)=", line):
            assert exported(page)[name].removeprefix("Bearer ").strip(), line


@pytest.mark.parametrize("example", EXAMPLES_WITH_PAGES)
def test_a_page_says_once_how_its_backend_is_made(example: str) -> None:
    page = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(MADE.format(example), page, re.MULTILINE)) == 1
