"""Settings of a worker: read as the controller's are, with the same names where the meaning is the same."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from soloist.domain.errors import ConfigError
from soloist.shells import settings
from soloist.shells.worker_settings import WorkerSettings, load, rows


def test_the_defaults_agree_with_each_other() -> None:
    assert load({}, {}) == WorkerSettings()


def test_a_flag_outranks_the_environment_and_that_the_default() -> None:
    env = {"SOLOIST_GRACE": "7", "SOLOIST_FILE": "a.yaml, queues", "SOLOIST_DATA_ALLOW": "10.0.0.0/8"}
    found = load({"grace": "9", "files": ()}, env)
    assert (found.grace, found.files) == (9.0, ("a.yaml", "queues"))
    assert found.data_allow == (ipaddress.ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"grace": "-1"}, "grace is -1.0 s: write 0 or more."),
        ({"grace": "soon"}, "--grace is 'soon': write a number"),
        ({"health_port": "70000"}, "health-port is 70000: write 0 to 65535."),
        ({"staleness_limit": "60"}, "staleness-limit is 60.0 s: write 100 or more"),
        ({"database": "postgresql://x"}, "write --file too, or a Secret for each WorkQueue"),
        ({"files": ("a",), "namespaces": ("b",)}, "with --file, leave it out"),
        ({"files": ("a",), "pod_deletion_cost": True}, "with --file, leave it out"),
        ({"namespaces": ("No_Name",)}, "namespace is 'No_Name': write a Kubernetes name"),
        ({"data_deny": ("10.0.0.1/8",)}, "--data-deny is '10.0.0.1/8': write a network"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_write(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(flags, {})
    assert message in str(refused.value)


def test_every_setting_has_a_meaning_a_variable_and_a_flag_and_means_what_it_means_to_the_controller() -> None:
    theirs = {row.name: row for row in settings.rows()}
    assert len({row.env for row in rows()}) == len(rows())
    for row in rows():
        assert row.meaning
        assert row.flag
        if row.name in theirs:
            assert (row.flag, row.env, row.kind) == (
                theirs[row.name].flag,
                theirs[row.name].env,
                theirs[row.name].kind,
            )
