"""No skip goes unseen: with SOLOIST_SKIPS naming a file, a skip whose reason that file does not list fails the run.

Each line of the file is a part of the reason that pytest prints and why it is right, parted by " | ".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

_skipped: list[tuple[str, str]] = []


def listed() -> list[str]:
    """The parts of reasons that are allowed."""
    name = os.environ.get("SOLOIST_SKIPS")
    if not name:
        return []
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    return [line.split(" | ")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped.append((report.nodeid, reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Of a module that skips itself whole. xdist tells its own process of none: each worker hands over what it has."""
    note(report)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker has collected the same."""
    found = [(test, reason) for test, reason in getattr(node, "workeroutput", {}).get("skipped", ())]
    _skipped.extend(each for each in found if each not in _skipped)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["skipped"] = _skipped
        return
    if "SOLOIST_SKIPS" not in os.environ:
        return
    allowed = listed()
    unseen = [(test, reason) for test, reason in _skipped if not any(part in reason for part in allowed)]
    for test, reason in unseen:
        print(f"\nskipped without being listed in {os.environ['SOLOIST_SKIPS']}: {test}: {reason}")
    if unseen:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
