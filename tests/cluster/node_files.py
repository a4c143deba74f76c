"""The command lines, certificates and configuration files of a node, and why each line that is not plain.

The node, its API server and whatever a test runs beside them meet at one address of this machine, ADDRESS, on a bridge that
no wire is in. Pods are behind another bridge. Both are ours alone, as are all folders.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.certificates import Authority, Pair, signed
from tests.cluster.front_proxy import FrontProxy, make_front_proxy
from tests.cluster.node_binaries import CNI
from tests.cluster.node_images import PAUSE

NAME, ADDRESS, PODS = "node1", "10.245.0.1", "10.244.0.0/24"
DNS_SERVICE, METRICS_PORT = "10.96.0.10", 16501
HOST_BRIDGE, POD_BRIDGE = "soloist-host", "soloist-pods"
NETWORK = {"cniVersion": "0.4.0", "name": "pods"}
# At their defaults an autoscaler waits minutes, so that nothing flaps; a test waits for it.
QUICK_AUTOSCALER = (
    "--horizontal-pod-autoscaler-sync-period=5s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=5s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=10s",
    "--horizontal-pod-autoscaler-downscale-stabilization=10s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """`front` speaks for the API server to aggregated ones, `client` to the kubelet; `kubelet` and `metrics` are servers."""

    front: FrontProxy
    client: Pair
    kubelet: Pair
    metrics: Pair


def certificates(folder: Path, authority: Authority) -> Certificates:
    ca = authority.ca
    names = f"subjectAltName=IP:{ADDRESS},DNS:{NAME}\n"
    return Certificates(
        front=make_front_proxy(folder),
        client=signed(folder, "api-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client", ca, ""),
        kubelet=signed(folder, "kubelet", f"/CN={NAME}", ca, names),
        metrics=signed(
            folder, "metrics", "/CN=metrics", ca, "subjectAltName=DNS:metrics-server.kube-system.svc\n"
        ),
    )  # fmt: skip


def api_server(made: Certificates, authority: Authority) -> list[str]:
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={ADDRESS}",
        "--allow-privileged=true",
        # Else it looks up the node's name for logs and exec.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={made.client.certificate}",
        f"--kubelet-client-key={made.client.key}",
        f"--kubelet-certificate-authority={authority.ca.certificate}",
        *made.front.flags,
        "--enable-aggregator-routing=true",
    ]


def containerd(folder: Path) -> list[str]:
    path = folder / "containerd.toml"
    # restrict_oom_score_adj: where this machine may not lower its own score, no sandbox would start without it.
    path.write_text(
        f'version = 2\nroot = "{folder}/containerd"\nstate = "{folder}/containerd-state"\n'
        f'[grpc]\n  address = "{folder}/containerd.sock"\n'
        f'[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "{PAUSE}"\n  restrict_oom_score_adj = true\n'
        f'[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "{CNI}"\n  conf_dir = "{folder}/cni"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n  runtime_type = "io.containerd.runc.v2"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n  SystemdCgroup = false\n'
    )
    return ["--config", str(path)]


def bridge(folder: Path) -> dict[str, Any]:
    """What gives a Pod its network."""
    ranges = [[{"subnet": PODS}]]
    addresses = {
        "type": "host-local",
        "ranges": ranges,
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": f"{folder}/addresses",
    }
    return {
        "type": "bridge",
        "bridge": POD_BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What runs on the node as processes of this machine: flags by program. `folder` is theirs, `kubeconfig` an admin's."""

    folder: Path
    kubeconfig: Path
    ca: Path
    made: Certificates

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def containerd(self) -> list[str]:
        (self.folder / "cni").mkdir(exist_ok=True)
        network = {
            **NETWORK,
            "plugins": [bridge(self.folder), {"type": "portmap", "capabilities": {"portMappings": True}}],
        }
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
        return containerd(self.folder)

    def kubelet(self) -> list[str]:
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDomain": "cluster.local",
            "clusterDNS": [DNS_SERVICE],
            "tlsCertFile": str(self.made.kubelet.certificate),
            "tlsPrivateKeyFile": str(self.made.kubelet.key),
            "enforceNodeAllocatable": [],
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.ca)},
            },
            "authorization": {"mode": "Webhook"},
            # A disk that is half full is no reason to evict what is tested.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
        }
        path = self.folder / "kubelet.yaml"
        path.write_text(yaml.safe_dump(config))
        root = self.folder / "kubelet"
        return [*self._as_admin(), f"--config={path}", f"--root-dir={root}", f"--hostname-override={NAME}", f"--node-ip={ADDRESS}"]  # fmt: skip

    def scheduler(self) -> list[str]:
        return [*self._as_admin(), "--leader-elect=false", "--bind-address=127.0.0.1"]

    def proxy(self) -> list[str]:
        untouched = [f"--conntrack-{name}=0" for name in ("max-per-core", "tcp-timeout-established", "tcp-timeout-close-wait")]  # fmt: skip
        where = [f"--hostname-override={NAME}", "--proxy-mode=iptables", f"--cluster-cidr={PODS}"]
        return [*self._as_admin(), *where, f"--bind-address={ADDRESS}", *untouched]

    def coredns(self) -> list[str]:
        path = self.folder / "Corefile"
        kubernetes = f"kubernetes cluster.local in-addr.arpa {{\n kubeconfig {self.kubeconfig} soloist-test\n pods insecure\n ttl 5\n }}"  # fmt: skip
        path.write_text(
            f"cluster.local:53 in-addr.arpa:53 {{\n bind {ADDRESS}\n errors\n {kubernetes}\n}}\n"
            f".:53 {{\n bind {ADDRESS}\n errors\n template ANY ANY . {{\n rcode NXDOMAIN\n }}\n}}\n"
        )
        return ["-conf", str(path)]

    def metrics_server(self) -> list[str]:
        config, served = self.kubeconfig, self.made.metrics
        return [
            *(f"--{whose}={config}" for whose in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")),
            f"--secure-port={METRICS_PORT}",
            f"--bind-address={ADDRESS}",
            f"--tls-cert-file={served.certificate}",
            f"--tls-private-key-file={served.key}",
            f"--kubelet-certificate-authority={self.ca}",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-use-node-status-port",
            # The time-out must be below the resolution, which is at least 10 s, or it exits at once.
            "--metric-resolution=10s",
            "--kubelet-request-timeout=5s",
        ]  # fmt: skip

    def _as_admin(self) -> Sequence[str]:
        return (f"--kubeconfig={self.kubeconfig}",)
