"""Settings of an elector beside an application: the same kind of table as the controller's, with the same names where the meaning is the same."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from soloist.domain.term import Timing
from soloist.shells.parsing import Row, gathered, setting, table
from soloist.shells.settings import LogFormat, LogLevel, is_name, lease_namespace
from soloist.shells.settings_rules import Rule, Timed, serving

# ruff: noqa: RUF009 - setting() makes a dataclass field
_TIMING = Timing()
MOST_LEASES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectSettings(Timed):
    """What one sidecar is told at its start. Times are seconds."""

    leases: tuple[str, ...] = setting((), "name of a Lease to stand for, repeatable", flag="--lease")
    lease_namespace: str = setting(
        "", "namespace of the Leases; default: the Pod's, else the kubeconfig's (not with --database), else default"
    )
    lease_duration: float = setting(
        _TIMING.lease, "seconds that a silent holder keeps the Lease: the longest hand-over"
    )
    lease_retry_period: float = setting(_TIMING.period, "seconds between renewals, and between a candidate's polls")
    lease_margin: float = setting(_TIMING.margin, "seconds a holder stops early: covers clocks of unlike rates")
    database: str = setting(
        "", "database URL, in place of a cluster: the Leases are rows of it (soloist migrate makes their table)"
    )
    kubeconfig: str = setting("", "kubeconfig file; default: $KUBECONFIG, the Pod's service account, ~/.kube/config")
    context: str = setting("", "context of the kubeconfig; default: its current one")

    api_port: int = setting(7070, "port on 127.0.0.1 for the application's questions; 0 takes a free one")
    health: str = setting(
        "", "URL of the application's health; the Leases are given up while it does not answer 2xx or 3xx"
    )
    health_period: float = setting(2.0, "seconds between two looks at --health, and the longest that one may take")
    health_failures: int = setting(3, "failed looks in a row after which the application counts as unwell")
    health_address: str = setting(
        "0.0.0.0", "address for /healthz, /readyz and /metrics; the kubelet comes from outside"
    )
    health_port: int = setting(7071, "port for /healthz, /readyz and /metrics; 0 takes a free one")
    grace: float = setting(25.0, "seconds that the command gets between SIGTERM and SIGKILL when the Lease is given up")

    log_level: LogLevel = setting(LogLevel.INFO, "debug, info, warning or error")
    log_format: LogFormat = setting(LogFormat.JSON, "json (one object a line) or text")

    def rules(self) -> Iterable[Rule]:
        return (*_rules(self), *serving(self))


def _rules(s: ElectSettings) -> list[Rule]:
    url = urlsplit(s.health)
    return [
        (bool(s.leases), "no Lease is named: write --lease NAME or SOLOIST_LEASE, one name for each thing to be done by one replica."),
        (len(s.leases) <= MOST_LEASES, f"{len(s.leases)} Leases are named: write at most {MOST_LEASES}; each is renewed on its own."),
        (len(set(s.leases)) == len(s.leases), "a Lease is named twice: name each once."),
        *(
            (is_name(name), f"lease is {name!r}: write a Kubernetes name (a-z, 0-9, '-' and '.').")
            for name in s.leases
        ),
        (is_name(s.lease_namespace or "default"), f"lease-namespace is {s.lease_namespace!r}: write a Kubernetes name (a-z, 0-9 and '-')."),
        (
            not (s.database and (s.kubeconfig or s.context)),
            "both a database and a cluster are named: the Leases of all replicas are in one place, so leave out --kubeconfig and --context, or --database.",
        ),
        (0 <= s.api_port <= 65535, f"api-port is {s.api_port}: write 0 to 65535."),
        (s.api_port == 0 or s.api_port != s.health_port, f"api-port and health-port are both {s.api_port}: write two."),
        (
            not s.health or (url.scheme in ("http", "https") and bool(url.hostname)),
            f"health is {s.health!r}: write a URL such as http://127.0.0.1:8080/healthz.",
        ),
        (s.health_period > 0, f"health-period is {s.health_period} s: write more than 0."),
        (s.health_failures >= 1, f"health-failures is {s.health_failures}: write 1 or more."),
    ]  # fmt: skip


def rows() -> list[Row]:
    """The table of settings, in the order of the fields."""
    return table(ElectSettings)


def load(
    flags: Mapping[str, Any], env: Mapping[str, str], *, kubeconfig_namespace: Callable[[str, str], str | None]
) -> ElectSettings:
    """``flags`` by field name, None or () where not given. Raises ConfigError with a sentence for the first that is wrong."""
    values = gathered(rows(), flags, env)
    # Replicas that share a database agree on its rows whatever cluster each one's kubeconfig speaks of just now.
    of_context = (lambda _file, _context: None) if values.get("database") else kubeconfig_namespace
    values["lease_namespace"] = lease_namespace(values, env, of_context)
    return ElectSettings(**values)
