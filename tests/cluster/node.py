"""A whole cluster of one node for tests: the control plane with kubelet, scheduler, proxy, DNS and metrics, and real Pods.

    with Node() as node:
        node.load(image.archive)                       # the kubelet pulls from nowhere
        node.kubectl(...); node.api() ...              # all of tests.cluster.ControlPlane
        node.kill(namespace, pod)                      # SIGKILL to a container
        node.pause_kubelet(namespace, pod); node.resume_kubelet()

It needs root, system packages, and the machine to itself: one node at a time, and no other kubelet. What an earlier one
left that was killed is taken away first. What runs on this machine is reached from Pods at node_files.ADDRESS.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO, Any

from tests.cluster import node_probe, node_remains, server_flags
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node_binaries import SYSTEM_FOLDERS, built, installed
from tests.cluster.node_files import (
    ADDRESS,
    DNS_SERVICE,
    HOST_BRIDGE,
    METRICS_PORT,
    NAME,
    PODS,
    QUICK_AUTOSCALER,
    Servers,
    api_server,
    certificates,
)  # fmt: skip
from tests.cluster.node_images import busybox_archive, pause_archive
from tests.cluster.versions import Unavailable, cache

START_TIMEOUT = 120.0
LOCK = Path("/var/lock/soloist-node.lock")


class Node(ControlPlane):
    """`with Node() as node:` …; Unavailable, with what to install or why not, where this machine cannot have one."""

    address = ADDRESS
    """Of this machine, as Pods reach it."""
    networks = (PODS, f"{ADDRESS}/32")
    """Where they come from."""

    def __init__(self) -> None:
        self._lock = _refuse_if_impossible()
        flags = (*server_flags.FAST, *QUICK_AUTOSCALER)
        folder = cache() / "node"
        if folder.exists() or node_remains.kubelet_was_here():
            node_remains.clear(folder)
        self._programs = installed()
        try:
            node_probe.ask(folder, self._programs)
        except Unavailable:
            self._lock.close()
            raise
        finally:
            node_remains.clear(folder)
        super().__init__(directory=folder, controllers=None, controller_flags=flags)
        self._servers: Servers
        self.kubelet: Child
        self.containerd: Child
        self._on_node: list[Child] = []

    def up(self) -> Node:
        """Returns when a Pod could start: the node is Ready, names resolve, metrics are served."""
        super().up()
        try:
            self._start_node()
        except BaseException:
            self.down()
            raise
        return self

    def _make_children(self) -> None:
        """After the authority is there, and before the API server starts."""
        self._binaries |= built() | self._programs
        self._bridge()
        made = certificates(self.directory / "pki", self.authority)
        self.api_flags = api_server(made, self.authority)
        config = self.directory / "kubeconfig"
        self._servers = Servers(folder=self.directory, kubeconfig=config, ca=self.ca, made=made)
        super()._make_children()

    def _bridge(self) -> None:
        ip = self._programs["ip"]
        for words in (f"link add {HOST_BRIDGE} type bridge", f"addr add {ADDRESS}/24 dev {HOST_BRIDGE}", f"link set {HOST_BRIDGE} up"):  # fmt: skip
            subprocess.run([ip, *words.split()], check=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _start_node(self) -> None:
        servers = self._servers
        self.containerd = self._run("containerd", servers.containerd())
        until(servers.socket.exists, what="containerd listens", timeout=START_TIMEOUT, needs=[self.containerd])
        self.load(pause_archive())
        self.kubelet = self._run("kubelet", servers.kubelet())
        self._run("kube-scheduler", servers.scheduler())
        self._run("kube-proxy", servers.proxy())
        self._run("coredns", servers.coredns())
        self._run("metrics-server", servers.metrics_server())
        self._serve("kube-dns", {"dns": (53, 53, "UDP"), "dns-tcp": (53, 53, "TCP")}, clusterIP=DNS_SERVICE)
        self._serve("metrics-server", {"https": (443, METRICS_PORT, "TCP")})
        self._aggregate()
        until(self._is_ready, what="the node is Ready", timeout=START_TIMEOUT, needs=self._on_node)

    def _run(self, name: str, flags: list[str]) -> Child:
        child = self._child(name, flags)
        child.env = {**(child.env or {}), "PATH": f"{os.environ['PATH']}:{SYSTEM_FOLDERS}"}
        child.start()
        self._on_node.append(child)
        return child

    def _serve(self, name: str, ports: dict[str, tuple[int, int, str]], **spec: Any) -> None:
        """A Service in kube-system for a process of this machine."""
        listed = [{"name": port, "port": outer, "protocol": kind} for port, (outer, _, kind) in ports.items()]
        behind = [{"name": port, "port": inner, "protocol": kind} for port, (_, inner, kind) in ports.items()]
        api = self.api()
        api.create("/api/v1/namespaces/kube-system/services", {"metadata": {"name": name}, "spec": {"ports": listed, **spec}})  # fmt: skip
        labels = {"kubernetes.io/service-name": name}
        body = {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": [{"addresses": [ADDRESS]}], "ports": behind}  # fmt: skip
        api.create("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", body)

    def _aggregate(self) -> None:
        spec = {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"namespace": "kube-system", "name": "metrics-server"},
            "caBundle": base64.b64encode(self.ca.read_bytes()).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        body = {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec}
        self.api().create("/apis/apiregistration.k8s.io/v1/apiservices", body)

    def _is_ready(self) -> bool:
        found = self.api().find(f"/api/v1/nodes/{NAME}") or {}
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "True"

    def down(self) -> None:
        """Takes everything away, Pods and network too; safe to call twice."""
        for child in reversed(self._on_node):
            child.stop()
        self._keep_logs()
        node_remains.clear(self.directory)
        super().down()
        self._lock.close()

    def _keep_logs(self) -> None:
        """The last node's, for whoever asks why it did not do as it should."""
        kept = cache() / "node-logs"
        kept.mkdir(parents=True, exist_ok=True)
        for log in self.directory.glob("*.log"):
            shutil.copy(log, kept / log.name)

    # What is on it

    def load(self, archive: Path) -> None:
        """Gives the kubelet the image of a docker archive."""
        self.ctr("images", "import", str(archive))

    def load_busybox(self) -> None:
        """What the examples name, where it cannot be pulled."""
        self.load(busybox_archive())

    def ctr(self, *arguments: str) -> str:
        argv = [self._programs["ctr"], "-a", str(self._servers.socket), "-n", "k8s.io", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def tag(self, image: str, other: str) -> None:
        """Another name of an image."""
        self.ctr("images", "tag", "--force", image, other)

    def kill(self, namespace: str, pod: str, *, child: bool = False) -> None:
        """SIGKILL to the first process of a Pod's first container, or to the one that it has started."""
        pid = self._process(namespace, pod)
        if child:
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def pause_kubelet(self, namespace: str, pod: str) -> None:
        """Of the node that the Pod is on: there is one."""
        self.kubelet.pause()

    def resume_kubelet(self) -> None:
        self.kubelet.resume()

    def _process(self, namespace: str, pod: str) -> int:
        status = self.api().get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["status"]["containerStatuses"][0]
        name = status["containerID"].removeprefix("containerd://")
        found = {line.split()[0]: line.split()[1] for line in self.ctr("tasks", "ls").splitlines()[1:]}
        return int(found[name])


def _refuse_if_impossible() -> IO[str]:
    """The lock that makes this the only node of the machine. Raises Unavailable."""
    if os.geteuid() != 0:
        raise Unavailable("A node needs root, for containerd, network and cgroups; this is not root.")
    installed()
    lock = LOCK.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise Unavailable(f"Another node is up on this machine ({LOCK} is held): one at a time.") from None
    if node_remains.kubelet_was_here() and not (cache() / "node").exists():
        lock.close()
        raise Unavailable("Another kubelet has Pods on this machine: its cgroups and network are left alone.")
    return lock


__all__ = ["ADDRESS", "Node"]
