"""Variables that are no settings are named; those of Kubernetes, and of other commands, are not."""

import logging

import pytest

from soloist.shells import settings, worker_settings
from soloist.shells.variables import unknown, warn
from tests.shells.test_settings import load


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("SOLOIST_LEASE_DURATON", "write SOLOIST_LEASE_DURATION."),
        ("SOLOIST_NAMESPACES", "write SOLOIST_NAMESPACE."),
        ("SOLOIST_HELTH_PORT", "write SOLOIST_HEALTH_PORT."),
        ("SOLOIST_LOGLEVEL", "write SOLOIST_LOG_LEVEL."),
        ("SOLOIST_COLOUR", "see docs/settings.md for those that are, or remove it."),
    ],
)
def test_a_misspelt_setting_is_named_with_the_nearest_right_one(name: str, near: str) -> None:
    assert unknown({name: "x"}) == [f"{name} is set, but is no setting and changes nothing: {near}"]


def test_what_any_command_or_kubernetes_itself_sets_is_no_mistake() -> None:
    ours = {row.env: "x" for row in (*settings.rows(), *worker_settings.rows())}
    service = {
        "SOLOIST_SERVICE_HOST": "10.0.0.1",
        "SOLOIST_SERVICE_PORT": "8080",
        "SOLOIST_SERVICE_PORT_METRICS": "8080",
        "SOLOIST_PORT": "tcp://10.0.0.1:8080",
        "SOLOIST_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "SOLOIST_PORT_8080_TCP_ADDR": "10.0.0.1",
        "SOLOIST_METRICS_SERVICE_HOST": "10.0.0.1",
        "SOLOIST_METRICS_PORT": "tcp://10.0.0.1:8080",
    }
    inherited = {"SOLOIST_PARENT_PID": "1", "SOLOIST_BEAT_FD": "3", "SOLOIST_RUN": "r", "PATH": "/bin"}
    assert unknown({**ours, **service, **inherited}) == []


def test_a_service_whose_name_makes_a_setting_of_ours_keeps_nobody_from_starting() -> None:
    assert load(SOLOIST_HEALTH_PORT="tcp://10.0.0.1:8080") == load()


def test_it_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    warn({"SOLOIST_GRASE": "9", "SOLOIST_GRACE": "9"}, logging.getLogger("soloist.controller"))
    assert [record.sentence for record in caplog.records] == [  # type: ignore[attr-defined]
        "SOLOIST_GRASE is set, but is no setting and changes nothing: write SOLOIST_GRACE."
    ]
