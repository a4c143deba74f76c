"""The command lines of the three servers, and why each flag that is not plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.certificates import Authority

CONTROLLERS = (
    "job-controller",
    "cronjob-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "ttl-after-finished-controller",
)
# At its default of 20 requests in a second the controller manager is what a test waits for.
FAST = ("--kube-api-qps=200", "--kube-api-burst=400")
# With so little on their heaps Go's servers collect garbage all the time: a third of their work, at its default of 100.
GOGC = "800"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    directory: Path
    authority: Authority
    audit_log: Path | None


def etcd(files: Files, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={files.directory / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def api_server(files: Files, port: int, etcd_port: int) -> list[str]:
    flags = [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files.authority.accounts}",
        f"--service-account-signing-key-file={files.authority.accounts}",
        f"--tls-cert-file={files.authority.server.certificate}",
        f"--tls-private-key-file={files.authority.server.key}",
        f"--client-ca-file={files.authority.ca.certificate}",
        f"--token-auth-file={files.directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
    ]
    if files.audit_log is not None:
        policy = files.directory / "audit-policy.yaml"
        policy.write_text(AUDIT_POLICY)
        flags += [f"--audit-policy-file={policy}", f"--audit-log-path={files.audit_log}", "--audit-log-mode=blocking"]
    return flags


def controller_manager(files: Files, controllers: Sequence[str] | None) -> list[str]:
    flags = [
        f"--kubeconfig={files.directory / 'kubeconfig'}",
        f"--service-account-private-key-file={files.authority.accounts}",
        f"--root-ca-file={files.authority.ca.certificate}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    return flags if controllers is None else [*flags, f"--controllers={','.join(controllers)}"]
