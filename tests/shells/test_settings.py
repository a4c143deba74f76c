"""Settings: from flag, variable or default, held against each other, refused with a sentence."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from soloist.domain.errors import ConfigError
from soloist.shells import settings
from soloist.shells.settings import ControllerSettings, LogFormat


def load(flags: dict[str, Any] | None = None, **env: str) -> ControllerSettings:
    return settings.load(
        flags or {}, env, kubeconfig_namespace=lambda _file, _context: None, service_account=Path("/nowhere")
    )


def test_the_defaults_agree_with_each_other() -> None:
    assert load() == ControllerSettings(lease_namespace="default")


def test_a_flag_outranks_the_environment_and_that_the_default() -> None:
    assert load(SOLOIST_HEALTH_PORT="9000").health_port == 9000
    assert load({"health_port": 0}, SOLOIST_HEALTH_PORT="9000").health_port == 0
    assert load({"health_port": None, "namespaces": ()}, SOLOIST_NAMESPACE="a, b").namespaces == ("a", "b")


def test_values_get_their_types() -> None:
    loaded = load(
        {"http_allow": ("10.0.0.0/8", "fd00::/8"), "namespaces": ("a", "b")},
        SOLOIST_EVENTS="off",
        SOLOIST_LOG_FORMAT="TEXT",
        SOLOIST_LEASE_DURATION="20",
        SOLOIST_LEASE_MARGIN="2",
        SOLOIST_CRASH_AT="record:both",
    )
    assert loaded.http_allow == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
    assert (loaded.events, loaded.log_format, loaded.timing.lease) == (False, LogFormat.TEXT, 20.0)
    assert (loaded.namespaces, loaded.crash_at) == (("a", "b"), "record:both")


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"SOLOIST_LEASE_DURATION": "ten"}, "SOLOIST_LEASE_DURATION is 'ten': write a number."),
        ({"SOLOIST_HEALTH_PORT": "8080.5"}, "SOLOIST_HEALTH_PORT is '8080.5': write a whole number."),
        ({"SOLOIST_GRACE": "inf"}, "SOLOIST_GRACE is 'inf': write a number of seconds."),
        ({"SOLOIST_GRACE": "nan"}, "SOLOIST_GRACE is 'nan': write a number of seconds."),
        ({"SOLOIST_EVENTS": "maybe"}, "SOLOIST_EVENTS is 'maybe': write true or false."),
        ({"SOLOIST_LOG_LEVEL": "loud"}, "SOLOIST_LOG_LEVEL is 'loud': write one of debug, info, warning, error."),
        ({"SOLOIST_HTTP_DENY": "10.0.0.1/8"}, "SOLOIST_HTTP_DENY is '10.0.0.1/8': write a network such as"),
        ({"SOLOIST_LEASE_MARGIN": "0.5"}, "lease margin is 0.5 s"),
        ({"SOLOIST_LEASE_RETRY_PERIOD": "4"}, "lease retry period is 4 s"),
        ({"SOLOIST_LEASE_DURATION": "10.5"}, "a Lease holds whole seconds"),
        ({"SOLOIST_RECORD_AHEAD": "2.5"}, "record-ahead is 2.5 s: write more than 0, at most 2"),
        ({"SOLOIST_CLAIM_AHEAD": "1"}, "at most claim-ahead (1.0 s)"),
        ({"SOLOIST_CLAIM_AHEAD": "61"}, "claim-ahead is 61.0 s: write at most 60."),
        ({"SOLOIST_STALENESS_LIMIT": "100"}, "staleness-limit is 100.0 s, not longer than relist (120.0 s)"),
        ({"SOLOIST_STALENESS_LIMIT": "29", "SOLOIST_RELIST": "3"}, "staleness-limit is 29.0 s: write 30 or more"),
        ({"SOLOIST_RELIST": "0"}, "relist is 0.0 s: write more than 0."),
        ({"SOLOIST_MEASURE_QUEUES": "0"}, "measure-queues is 0.0 s: write more than 0."),
        ({"SOLOIST_GRACE": "-1"}, "grace is -1.0 s: write 0 or more."),
        (
            {"SOLOIST_EXTERNAL_METRICS": "on", "SOLOIST_EXTERNAL_METRICS_PORT": "8080"},
            "external-metrics-port is 8080: write 1 to 65535, and not health-port (8080).",
        ),
        ({"SOLOIST_HEALTH_PORT": "70000"}, "health-port is 70000: write 0 to 65535."),
        ({"SOLOIST_MAX_API_WRITES": "0"}, "max-api-writes is 0: write 1 or more."),
        ({"SOLOIST_MAX_HTTP_RUNS": "0"}, "max-http-runs is 0: write 1 or more."),
        ({"SOLOIST_LEASE_NAME": "My Lease"}, "lease-name is 'My Lease': write a Kubernetes name"),
        ({"SOLOIST_NAMESPACE": "ok,Not_OK"}, "namespace is 'Not_OK': write a Kubernetes name"),
        ({"SOLOIST_CRASH_AT": "record"}, "SOLOIST_CRASH_AT is 'record': write STAGE:child or STAGE:both"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_write(env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(**env)
    assert message in str(refused.value)


def test_a_flag_is_refused_under_its_own_name() -> None:
    with pytest.raises(ConfigError, match="--grace is 'x': write a number"):
        load({"grace": "x"})


def test_the_leases_namespace_is_the_flags_the_pods_the_mounted_one_the_kubeconfigs_or_default(tmp_path: Path) -> None:
    def found(flags: dict[str, Any], env: dict[str, str], mounted: bool, kubeconfig: str | None) -> str:
        directory = tmp_path if mounted else Path("/nowhere")
        (tmp_path / "namespace").write_text("mounted\n")
        return settings.load(
            flags, env, kubeconfig_namespace=lambda _file, _context: kubeconfig, service_account=directory
        ).lease_namespace

    pod = {"POD_NAMESPACE": "pods"}
    assert found({"lease_namespace": "flags"}, pod, True, "kube") == "flags"
    assert found({}, pod, True, "kube") == "pods"
    assert found({}, {}, True, "kube") == "mounted"
    assert found({}, {}, False, "kube") == "kube"
    assert found({}, {}, False, None) == "default"


def test_every_setting_has_a_meaning_and_a_variable_and_all_but_the_crash_point_a_flag() -> None:
    rows = settings.rows()
    assert len({row.env for row in rows}) == len(rows)
    assert all(row.meaning and row.env.startswith("SOLOIST_") for row in rows)
    assert [row.name for row in rows if row.flag is None] == ["crash_at"]
    assert {row.flag for row in rows} >= {"--namespace", "--lease-duration", "--http-allow"}
    assert [row.name for row in rows if row.several] == ["namespaces", "http_allow", "http_deny"]
