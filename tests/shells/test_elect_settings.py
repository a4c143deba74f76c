"""Settings of an elector beside an application: read as the controller's are, with the same names where the meaning is the same."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from soloist.domain.errors import ConfigError
from soloist.shells import settings
from soloist.shells.cli import cli
from soloist.shells.elect_settings import MOST_LEASES, ElectSettings, load, rows

ONE = {"leases": ("sweep",)}


def loaded(flags: dict[str, Any], env: dict[str, str] | None = None) -> ElectSettings:
    return load(flags, env or {}, kubeconfig_namespace=lambda _config, _context: None)


def test_a_lease_is_all_that_is_needed() -> None:
    found = loaded(ONE)
    assert (found.leases, found.lease_namespace, found.api_port, found.health_port) == (
        ("sweep",),
        "default",
        7070,
        7071,
    )
    assert found.timing.trust == 9.0


def test_a_flag_outranks_the_environment_and_that_the_default() -> None:
    env = {"SOLOIST_LEASE": "a, b", "SOLOIST_API_PORT": "1", "POD_NAMESPACE": "shop", "SOLOIST_HEALTH": "http://x/"}
    found = loaded({"api_port": "2", "leases": ()}, env)
    assert (found.leases, found.api_port, found.lease_namespace, found.health) == (("a", "b"), 2, "shop", "http://x/")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "no Lease is named: write --lease NAME or SOLOIST_LEASE"),
        ({"leases": ("a", "a")}, "a Lease is named twice"),
        ({"leases": tuple(f"l{number}" for number in range(MOST_LEASES + 1))}, "17 Leases are named: write at most 16"),
        ({"leases": ("No_Name",)}, "lease is 'No_Name': write a Kubernetes name"),
        ({**ONE, "lease_namespace": "A"}, "lease-namespace is 'A'"),
        ({**ONE, "api_port": "70000"}, "api-port is 70000: write 0 to 65535."),
        ({**ONE, "health_port": "-1"}, "health-port is -1: write 0 to 65535."),
        ({**ONE, "api_port": "8080", "health_port": "8080"}, "api-port and health-port are both 8080"),
        ({**ONE, "health": "localhost:8080"}, "health is 'localhost:8080': write a URL such as"),
        ({**ONE, "health_period": "0"}, "health-period is 0.0 s"),
        ({**ONE, "health_failures": "0"}, "health-failures is 0"),
        ({**ONE, "database": "postgresql://x", "context": "y"}, "both a database and a cluster are named"),
        ({**ONE, "grace": "-1"}, "grace is -1.0 s"),
        ({**ONE, "lease_margin": "6"}, "lease margin is 6 s"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_write(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(flags)
    assert message in str(refused.value)


def test_every_setting_has_a_meaning_a_variable_and_a_flag_and_means_what_it_means_to_the_controller() -> None:
    theirs = {row.name: row for row in settings.rows()}
    assert len({row.env for row in rows()}) == len(rows())
    for row in rows():
        assert row.meaning
        assert row.flag
        if row.name in theirs:
            same = theirs[row.name]
            assert (row.flag, row.env, row.kind) == (same.flag, same.env, same.kind)


def test_a_command_is_for_one_lease() -> None:
    said = CliRunner().invoke(cli, ["elect", "--lease", "a", "--lease", "b", "--", "true"])
    assert said.exit_code == 2
    assert "a command is run under one Lease, and 2 are named: write --lease once." in said.output


def test_replicas_that_share_a_database_do_not_go_by_the_cluster_that_each_ones_kubeconfig_speaks_of() -> None:
    def of_context(_config: str, _context: str) -> str:
        return "shop"

    found = [load({**ONE, "database": url}, {}, kubeconfig_namespace=of_context) for url in ("", "postgresql://x")]
    assert [each.lease_namespace for each in found] == ["shop", "default"]
