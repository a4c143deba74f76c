"""What one standalone process is told at its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from soloist.domain.errors import ConfigError
from soloist.shells.standalone_settings import load

FILES = {"files": ("jobs",)}
DATABASE = {**FILES, "database": "postgresql://u@h/d"}


def test_flags_come_before_variables_and_these_before_defaults() -> None:
    settings = load(DATABASE, {"SOLOIST_DATABASE": "postgresql://other/d", "SOLOIST_GRACE": "7"})
    assert (settings.database, settings.grace, settings.health_address) == ("postgresql://u@h/d", 7.0, "127.0.0.1")
    assert load({**FILES, "embedded": True}, {}).folder == Path.home() / ".local/share/soloist"
    assert load({**FILES}, {"SOLOIST_EMBEDDED": "1", "SOLOIST_DATA": "/srv/x"}).folder == Path("/srv/x")
    assert load(DATABASE, {"SOLOIST_SINGLE_PROCESS": "true"}).single_process


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({}, "file is missing"),
        (FILES, "or --embedded for a"),
        ({**DATABASE, "embedded": True}, "are two databases"),
        ({**DATABASE, "data": "/srv"}, "write --embedded too"),
        ({**DATABASE, "record_ahead": "3"}, "record-ahead is 3.0 s"),
        ({**DATABASE, "claim_ahead": "61"}, "claim-ahead is 61.0 s"),
        ({**DATABASE, "relist": "0"}, "relist is 0.0 s"),
        ({**DATABASE, "staleness_limit": "60"}, "staleness-limit is 60.0 s, not longer than relist"),
        ({**DATABASE, "staleness_limit": "29", "relist": "3"}, "staleness-limit is 29.0 s: write 30 or more"),
        ({**DATABASE, "grace": "-1"}, "grace is -1.0 s"),
        ({**DATABASE, "health_port": "70000"}, "health-port is 70000"),
        ({**DATABASE, "max_http_runs": "0"}, "max-http-runs is 0"),
        ({**DATABASE, "lease_name": "A B"}, "lease-name is 'A B'"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(flags: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(flags, {})
