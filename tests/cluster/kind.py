"""The same cluster for tests on kind, where Docker may run privileged containers: real Pods, without root and Debian packages.

    with Kind() as cluster:                       # kind create cluster, as in manifests/kind.yaml
        cluster.kubectl(...); cluster.api() ...   # all of tests.cluster.ControlPlane but its faults
        cluster.load(archive); cluster.kill(namespace, pod)   # as tests.cluster.Node

kind, kubectl and docker are those on PATH. What runs on this machine is reached from Pods at ``address``, the machine's own end
of Docker's network for kind, so Docker must be on this machine and not in one of its own.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.children import Child, until
from tests.cluster.control_plane import START_TIMEOUT, ControlPlane
from tests.cluster.node_files import QUICK_AUTOSCALER
from tests.cluster.versions import Unavailable

MANIFEST = Path(__file__).parents[2] / "manifests" / "kind.yaml"
SERVER = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
PROGRAMS = {"kind": "https://kind.sigs.k8s.io", "docker": "https://docs.docker.com/engine", "kubectl": "https://kubernetes.io/docs/tasks/tools"}  # fmt: skip
NAME, ACCOUNT = "soloist-test", "soloist-test"
METRICS_SERVER = "https://github.com/kubernetes-sigs/metrics-server/releases/download/v0.9.0/components.yaml"


def is_possible() -> bool:
    """Whether there are the programs, and a Docker that answers."""
    docker = shutil.which("docker")
    return all(map(shutil.which, PROGRAMS)) and _ok([docker or "", "version"])


class Kind(ControlPlane):
    """Made by ``up``, which takes minutes the first time, and deleted by ``down``. Unavailable names the program that is missing."""

    def __init__(self, name: str = NAME) -> None:
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise Unavailable(f"{missing[0]} is not on PATH: install it, see {PROGRAMS[missing[0]]}.")
        super().__init__()
        self.name = name
        self.address, self.networks = "", tuple[str, ...]()
        self._paused: list[str] = []

    def up(self) -> Kind:
        """Returns when an administrator's token is taken."""
        self._binaries = {program: Path(shutil.which(program) or program) for program in PROGRAMS}
        config = self.directory / "kind.kubeconfig"
        try:
            where = ("--name", self.name, "--kubeconfig", str(config))
            self._run("kind", "create", "cluster", *where, "--config", str(MANIFEST), "--wait", "5m")
            self._take(yaml.safe_load(config.read_text())["clusters"][0]["cluster"], config)
            self._find_address()
            until(self._ready, what="/readyz says ok", timeout=START_TIMEOUT)
            self._wait_controllers()
        except BaseException:
            self.down()
            raise
        return self

    def _take(self, cluster: dict[str, str], config: Path) -> None:
        """The administrator of kind's kubeconfig has a certificate; ours has a token, as in every other cluster."""
        self._ca = self.directory / "ca.crt"
        self._ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        self.port = int(cluster["server"].rpartition(":")[2])
        kube = ("--kubeconfig", str(config), "--namespace", "kube-system")
        self._run("kubectl", *kube, "create", "serviceaccount", ACCOUNT)
        subject = f"--serviceaccount=kube-system:{ACCOUNT}"
        self._run("kubectl", *kube, "create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", subject)
        self.tokens = {"admin": self._run("kubectl", *kube, "create", "token", ACCOUNT, "--duration=24h").strip()}
        self.kubeconfig(self.directory / "kubeconfig")

    def _find_address(self) -> None:
        ranges = json.loads(self._run("docker", "network", "inspect", "kind"))[0]["IPAM"]["Config"]
        found = [each for each in ranges if each.get("Gateway") and ipaddress.ip_network(each["Subnet"]).version == 4]
        self.address, self.networks = found[0]["Gateway"], tuple(each["Subnet"] for each in found)

    def make_autoscalers_quick(self) -> None:
        """With metrics-server, which kind does not have, and without the minutes that they wait by default.

        kind's kubelets show certificates of nobody. The controller manager is started anew when its manifest changes.
        """
        added = "".join(f"\\n    - {flag}" for flag in QUICK_AUTOSCALER)
        edit = ("sed", "-i", f"s|^    - kube-controller-manager$|&{added}|", SERVER)
        self._run("docker", "exec", f"{self.name}-control-plane", *edit)
        self.kubectl("apply", "-f", METRICS_SERVER)
        flag = {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--kubelet-insecure-tls"}
        deployment = ("-n", "kube-system", "deployment", "metrics-server")
        self.kubectl("patch", *deployment, "--type=json", "-p", json.dumps([flag]))
        self.kubectl("rollout", "status", "-n", "kube-system", "deployment/metrics-server", "--timeout=5m")

    def down(self) -> None:
        if self._binaries:
            _ok([str(self._binaries["kind"]), "delete", "cluster", "--name", self.name])
        super().down()

    @property
    def ca(self) -> Path:
        return self._ca

    def processes(self) -> list[Child]:
        """None of this machine."""
        return []

    # What is on it

    def load(self, archive: Path) -> None:
        """Gives its nodes the image of a docker archive."""
        self._run("kind", "load", "image-archive", str(archive), "--name", self.name)

    def load_busybox(self) -> None:
        """Its nodes pull it themselves."""

    def tag(self, image: str, other: str) -> None:
        """Another name of an image on all nodes."""
        for node in self._run("kind", "get", "nodes", "--name", self.name).split():
            self._run("docker", "exec", node, "ctr", "-n", "k8s.io", "images", "tag", "--force", image, other)

    def kill(self, namespace: str, pod: str, *, child: bool = False) -> None:
        """SIGKILL to the first process of a Pod's first container, or to the one that it has started."""
        node, pid = self._process(namespace, pod)
        if child:
            pid = self._run("docker", "exec", node, "cat", f"/proc/{pid}/task/{pid}/children").split()[0]
        self._run("docker", "exec", node, "kill", "-KILL", pid)

    def pause_kubelet(self, namespace: str, pod: str) -> None:
        """Of the node that the Pod is on."""
        node, _ = self._process(namespace, pod)
        self._run("docker", "exec", node, "pkill", "-STOP", "-x", "kubelet")
        self._paused.append(node)

    def resume_kubelet(self) -> None:
        while self._paused:
            self._run("docker", "exec", self._paused.pop(), "pkill", "-CONT", "-x", "kubelet")

    def _process(self, namespace: str, pod: str) -> tuple[str, str]:
        """The node's name, and the pid as the node has it."""
        found: dict[str, Any] = self.api().get(f"/api/v1/namespaces/{namespace}/pods/{pod}")
        node = found["spec"]["nodeName"]
        container = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        told = self._run("docker", "exec", node, "crictl", "inspect", "--output", "json", container)
        return node, str(json.loads(told)["info"]["pid"])

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run([self._binaries[program], *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"`{program} {' '.join(arguments[:4])} …` failed: {done.stderr.strip()[-1500:]}")
        return done.stdout


def _ok(argv: list[str]) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
