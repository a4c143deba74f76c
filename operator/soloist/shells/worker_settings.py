"""Settings of a worker: the same kind of table as the controller's, with the same names where the meaning is the same."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from soloist.shells.parsing import Network, Row, gathered, setting, table
from soloist.shells.settings import LogFormat, LogLevel, is_name
from soloist.shells.settings_rules import Checked, Rule, serving

# ruff: noqa: RUF009 - setting() makes a dataclass field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(Checked):
    """What one worker is told at its start. Times are seconds."""

    files: tuple[str, ...] = setting(
        (),
        "manifest with WorkQueues and their Secrets, or a folder of such; none: they are on the API server",
        flag="--file",
    )
    database: str = setting("", "with --file: database URL of WorkQueues whose Secret is in no file")

    namespaces: tuple[str, ...] = setting((), "namespace to serve, repeatable; none: all", flag="--namespace")
    kubeconfig: str = setting("", "kubeconfig file; default: $KUBECONFIG, the Pod's service account, ~/.kube/config")
    context: str = setting("", "context of the kubeconfig; default: its current one")

    health_address: str = setting(
        "0.0.0.0", "address for /healthz, /readyz and /metrics; the kubelet comes from outside"
    )
    health_port: int = setting(8080, "port for /healthz, /readyz and /metrics; 0 takes a free one")
    staleness_limit: float = setting(
        300.0, "seconds without a word from the API server after which /healthz fails; rows are worked all the same"
    )
    grace: float = setting(
        25.0,
        "seconds that running deliveries get at SIGTERM, the rest is put back; terminationGracePeriodSeconds is 5 more",
    )

    pod_deletion_cost: bool = setting(
        False,
        "say on the worker's own Pod what it has in hand, so that a Deployment which shrinks takes idle ones first",
    )

    http_allow: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url in a spec may lead to in spite of the refused ones"
    )
    http_deny: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url in a spec may not lead to, on top of link-local"
    )
    data_allow: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url out of a table may lead to in spite of the refused ones"
    )
    data_deny: tuple[Network, ...] = setting(
        (), "network (CIDR) that a url out of a table may not lead to, on top of all that is not public"
    )

    log_level: LogLevel = setting(LogLevel.INFO, "debug, info, warning or error")
    log_format: LogFormat = setting(LogFormat.JSON, "json (one object a line) or text")

    def rules(self) -> Iterable[Rule]:
        return (*serving(self), *_rules(self))


def rows() -> list[Row]:
    """The table of settings, in the order of the fields."""
    return table(WorkerSettings)


def load(flags: Mapping[str, Any], env: Mapping[str, str]) -> WorkerSettings:
    """``flags`` by field name, None or () where not given. Raises ConfigError with a sentence for the first that is wrong."""
    return WorkerSettings(**gathered(rows(), flags, env))


def _rules(s: WorkerSettings) -> list[Rule]:
    return [
        (s.staleness_limit >= 100, f"staleness-limit is {s.staleness_limit} s: write 100 or more, a quiet watch may be silent for 70."),
        (not s.database or bool(s.files), "database is for WorkQueues out of files: write --file too, or a Secret for each WorkQueue."),
        (not (s.files and s.pod_deletion_cost), "pod-deletion-cost is for a worker with an API server: with --file, leave it out."),
        (not (s.files and s.namespaces), "namespace is for WorkQueues on the API server: with --file, leave it out."),
        *(
            (is_name(name), f"namespace is {name!r}: write a Kubernetes name (a-z, 0-9 and '-').")
            for name in s.namespaces
        ),
    ]  # fmt: skip
