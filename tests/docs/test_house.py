"""The house rules of CONTRIBUTING.md that a machine can see: how long a module is, how it opens, and what it is called."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "operator" / "soloist"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.stat().st_size)
MOST = 200
LONGER = {
    "domain/view.py": "what the rules may look at is one value, and how a run counts in it is asked by all of them",
    "domain/ticks.py": "which ticks are due and why others are let go is one decision, read from top to bottom",
}
"""Modules that may be longer, each with its reason."""
NO_NAMES = {"util", "utils", "helper", "helpers", "common", "manager"}


def lines(module: str) -> int:
    return len((PACKAGE / module).read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("module", [module for module in MODULES if module not in LONGER])
def test_no_module_is_longer_than_can_be_read_at_once(module: str) -> None:
    assert lines(module) <= MOST, "part it by meaning"


@pytest.mark.parametrize("module", LONGER)
def test_an_exception_is_made_only_where_it_is_needed(module: str) -> None:
    assert lines(module) > MOST, "no exception any more: strike it out"


@pytest.mark.parametrize("module", MODULES)
def test_each_module_opens_with_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse((PACKAGE / module).read_text(encoding="utf-8")))


def test_no_module_is_named_after_nothing() -> None:
    assert [module for module in MODULES if NO_NAMES & set(Path(module).stem.split("_"))] == []
