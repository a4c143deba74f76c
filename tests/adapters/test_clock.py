"""The clocks, against the kernel's own word."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

from soloist.adapters.clock import SystemClock


def test_the_start_of_a_process_is_when_it_was_started() -> None:
    before = datetime.now(UTC)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        after = datetime.now(UTC)
        started = SystemClock().process_started(child.pid)
    finally:
        child.kill()
        child.communicate()
    assert before - timedelta(seconds=0.05) <= started <= after + timedelta(seconds=0.05)


def test_the_wall_clock_is_aware_and_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta()
