"""No skip goes unseen: with SOLOIST_SKIPS naming a file, a skip whose reason that file does not list fails the run.

Each line of the file is a part of the reason that pytest prints and why it is right, parted by " | ".
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_skipped: list[tuple[str, str]] = []


def listed() -> list[str]:
    """The parts of reasons that are allowed."""
    name = os.environ.get("SOLOIST_SKIPS")
    if not name:
        return []
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    return [line.split(" | ")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped.append((report.nodeid, reason))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if "SOLOIST_SKIPS" not in os.environ:
        return
    allowed = listed()
    unseen = [(test, reason) for test, reason in _skipped if not any(part in reason for part in allowed)]
    for test, reason in unseen:
        print(f"\nskipped without being listed in {os.environ['SOLOIST_SKIPS']}: {test}: {reason}")
    if unseen:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
