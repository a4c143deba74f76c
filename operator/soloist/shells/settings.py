"""Settings of the controller: from flags, else the environment, else the default beside the field. Checked once, together.

Each field is one row of the table: type and default, then the flag's meaning with its unit and reason. The flag and the
variable follow from the field's name (``lease_duration``: ``--lease-duration``, ``SOLOIST_LEASE_DURATION``), unless the
row names a flag of its own. ``rows`` is that table, for the command line to make options of, and for the documentation.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from soloist.domain.term import Timing
from soloist.shells.parsing import Network, Row, gathered, setting, table
from soloist.shells.settings_rules import Rule, Timed, launching, serving

# ruff: noqa: RUF009 - setting() makes a dataclass field
_TIMING = Timing()
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(Timed):
    """What one controller is told at its start. Times are seconds."""

    lease_name: str = setting("soloist", "name of the Lease; two installations in one namespace need two names")
    lease_namespace: str = setting(
        "", "namespace of the Lease; default: the Pod's, else the kubeconfig's, else default"
    )
    lease_duration: float = setting(
        _TIMING.lease, "seconds that a silent leader keeps the Lease: the longest hand-over"
    )
    lease_retry_period: float = setting(_TIMING.period, "seconds between renewals, and between a follower's polls")
    lease_margin: float = setting(_TIMING.margin, "seconds a leader stops early: covers clocks of unlike rates")

    namespaces: tuple[str, ...] = setting((), "namespace to serve, repeatable; none: all", flag="--namespace")
    kubeconfig: str = setting("", "kubeconfig file; default: $KUBECONFIG, the Pod's service account, ~/.kube/config")
    context: str = setting("", "context of the kubeconfig; default: its current one")

    health_address: str = setting(
        "0.0.0.0", "address for /healthz, /readyz and /metrics; the kubelet comes from outside"
    )
    health_port: int = setting(8080, "port for /healthz, /readyz and /metrics; 0 takes a free one")

    claim_ahead: float = setting(
        10.0, "seconds before its time that a run's object is created, to spread a burst's writes"
    )
    record_ahead: float = setting(
        2.0,
        "seconds before its time that a run may be recorded, at the most 2, and for each thousand that are due at once",
    )
    relist: float = setting(120.0, "seconds between lists: a watch may lose a delete without telling")
    measure_queues: float = setting(5.0, "seconds between the leader's looks into each database that has WorkQueues")
    staleness_limit: float = setting(300.0, "seconds since watch or list last spoke, after which nothing is launched")
    grace: float = setting(25.0, "seconds that running actions get at SIGTERM; terminationGracePeriodSeconds is 5 more")

    http_allow: tuple[Network, ...] = setting(
        (), "network (CIDR) that http actions may call in spite of the refused ones"
    )
    http_deny: tuple[Network, ...] = setting((), "network (CIDR) that http actions may not call, on top of link-local")
    max_api_writes: int = setting(48, "writes to the API server at one time: more only queue up inside it")
    max_http_runs: int = setting(1000, "http actions at one time: each holds a socket")
    events: bool = setting(True, "write Kubernetes Events")

    external_metrics: bool = setting(False, "serve the depth of WorkQueues as external.metrics.k8s.io, for autoscalers")
    external_metrics_port: int = setting(8443, "port for that, by TLS; only the API server is answered there")
    external_metrics_certificate: str = setting(
        "/etc/soloist/external-metrics", "folder of its tls.crt and tls.key; they are read again when they change"
    )

    log_level: LogLevel = setting(LogLevel.INFO, "debug, info, warning or error")
    log_format: LogFormat = setting(LogFormat.JSON, "json (one object a line) or text")
    crash_at: str = setting("", "for tests only: STAGE:child or STAGE:both is killed there", flag=None)

    def rules(self) -> Iterable[Rule]:
        return (*launching(self), *serving(self), *_rules(self))


def _rules(s: ControllerSettings) -> list[Rule]:
    return [
        (s.measure_queues > 0, f"measure-queues is {s.measure_queues} s: write more than 0."),
        (
            not s.external_metrics
            or (1 <= s.external_metrics_port <= 65535 and s.external_metrics_port != s.health_port),
            f"external-metrics-port is {s.external_metrics_port}: write 1 to 65535, and not health-port ({s.health_port}).",
        ),
        (s.max_api_writes >= 1, f"max-api-writes is {s.max_api_writes}: write 1 or more."),
        (s.max_http_runs >= 1, f"max-http-runs is {s.max_http_runs}: write 1 or more."),
        (is_name(s.lease_name), f"lease-name is {s.lease_name!r}: write a Kubernetes name (a-z, 0-9, '-' and '.')."),
        *(
            (is_name(name), f"namespace is {name!r}: write a Kubernetes name (a-z, 0-9 and '-').")
            for name in (s.lease_namespace or "default", *s.namespaces)
        ),
        (
            re.fullmatch(r"([a-z-]+:(child|both))?", s.crash_at) is not None,
            f"SOLOIST_CRASH_AT is {s.crash_at!r}: write STAGE:child or STAGE:both, or leave it away.",
        ),
    ]


def is_name(text: str) -> bool:
    """Whether Kubernetes takes it for a name."""
    return re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", text) is not None


def rows() -> list[Row]:
    """The table of settings, in the order of the fields."""
    return table(ControllerSettings)


def load(
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    *,
    kubeconfig_namespace: Callable[[str, str], str | None],
    service_account: Path = SERVICE_ACCOUNT,
) -> ControllerSettings:
    """``flags`` by field name, None or () where not given; ``kubeconfig_namespace`` of (kubeconfig, context), "" for default.

    Raises ConfigError with a sentence for the first that is wrong.
    """
    values = gathered(rows(), flags, env)
    values["lease_namespace"] = lease_namespace(values, env, kubeconfig_namespace, service_account)
    return ControllerSettings(**values)


def lease_namespace(
    values: Mapping[str, Any],
    env: Mapping[str, str],
    kubeconfig_namespace: Callable[[str, str], str | None],
    service_account: Path = SERVICE_ACCOUNT,
) -> str:
    """As it was given, else the Pod's, else the kubeconfig's, else default."""
    mounted = service_account / "namespace"
    return (
        values.get("lease_namespace", "")
        or env.get("POD_NAMESPACE")
        or (mounted.read_text(encoding="utf-8").strip() if mounted.exists() else "")
        or kubeconfig_namespace(values.get("kubeconfig", ""), values.get("context", ""))
        or "default"
    )
