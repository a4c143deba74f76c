"""A real API server for tests: etcd, kube-apiserver and kube-controller-manager, with RBAC and TLS, fresh for each run.

Nothing of an earlier run can be met: the state is a new folder, the ports are free ones. etcd does not wait for the
disk: a machine that crashes loses a test cluster, and nobody minds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster import kubeconfigs, server_flags
from tests.cluster.binaries import locate
from tests.cluster.certificates import Authority, make_authority
from tests.cluster.children import Child, ChildDied, until
from tests.cluster.client import ApiClient, ApiError
from tests.cluster.free_ports import free_ports
from tests.cluster.request_counts import RequestCounts, read_counts
from tests.cluster.state_folder import make_state_folder

START_TIMEOUT = 90.0


class ControlPlane:
    """`with ControlPlane() as cluster:` … or up() and down(). `controllers=None` leaves the controller manager its own set."""

    def __init__(
        self,
        *,
        directory: Path | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
        controllers: Sequence[str] | None = server_flags.CONTROLLERS,
        controller_flags: Sequence[str] = server_flags.FAST,
        api_flags: Sequence[str] = (),
        audit: bool = False,
        detached: bool = False,
    ) -> None:
        self.directory = directory or make_state_folder()
        self.users = {"admin": ("system:masters",), "nobody": (), **(users or {})}
        self.tokens = {name: f"{name}-token" for name in self.users}
        self.audit_log = self.directory / "audit.log" if audit else None
        self.controllers, self.controller_flags, self.api_flags = controllers, controller_flags, api_flags
        self._detached = detached
        self.port, self._etcd_port, self._peer_port = free_ports(3)
        self.etcd: Child
        self.api_server: Child
        self.controller_manager: Child
        self._children: list[Child] = []
        self._binaries: dict[str, Path] = {}
        self._authority: Authority

    # Life

    def up(self) -> Self:
        """Returns when the API server is ready and the `default` ServiceAccount is there: some four seconds."""
        self._binaries = locate()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._authority = make_authority(self.directory / "pki")
        self._write_tokens()
        self.kubeconfig(self.directory / "kubeconfig")
        try:
            self._make_children()
            self.etcd.start()
            self.api_server.start()
            self.wait_ready()
            # It gives up for good after ten seconds without a healthy API server, which a busy machine may need.
            self.controller_manager.start()
            self._wait_controllers()
        except BaseException:
            self.down()
            raise
        return self

    def _make_children(self) -> None:
        files = server_flags.Files(directory=self.directory, authority=self._authority, audit_log=self.audit_log)
        etcd = server_flags.etcd(files, self._etcd_port, self._peer_port)
        api = [*server_flags.api_server(files, self.port, self._etcd_port), *self.api_flags]
        controllers = [*server_flags.controller_manager(files, self.controllers), *self.controller_flags]
        self.etcd = self._child("etcd", etcd)
        self.api_server = self._child("kube-apiserver", api)
        self.controller_manager = self._child("kube-controller-manager", controllers)
        self._children = [self.etcd, self.api_server, self.controller_manager]

    def _child(self, name: str, flags: Sequence[str]) -> Child:
        log = self.directory / f"{name}.log"
        env = {"GOGC": server_flags.GOGC}
        return Child(name, [self._binaries[name], *flags], log=log, detached=self._detached, env=env)

    def down(self) -> None:
        """Kills everything and removes the folder; safe to call twice."""
        self.end(self._children, self.directory)

    @staticmethod
    def end(children: Sequence[Child], directory: Path) -> None:
        for child in reversed(children):
            child.stop()
        shutil.rmtree(directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def processes(self) -> list[Child]:
        return list(self._children)

    def check(self) -> None:
        for child in self._children:
            child.check()

    # Faults of the server itself

    def stop_api(self, *, grace: float = 0.0) -> None:
        """SIGKILL, or SIGTERM first where `grace` is given: open watches make it take a minute. etcd keeps the state."""
        self.api_server.stop(grace=grace)

    def start_api(self) -> None:
        self.api_server.start()
        self.wait_ready()

    def restart_api(self) -> None:
        self.stop_api()
        self.start_api()

    def pause_api(self) -> None:
        """SIGSTOP: connections are accepted by the kernel and nothing answers."""
        self.api_server.pause()

    def resume_api(self) -> None:
        self.api_server.resume()

    def restart_controllers(self, *, controllers: Sequence[str] | None, flags: Sequence[str]) -> None:
        """The controller manager again, with another set of controllers (None: its default) or other flags."""
        self.controller_manager.stop()
        self.controllers, self.controller_flags = controllers, flags
        files = server_flags.Files(directory=self.directory, authority=self._authority, audit_log=self.audit_log)
        argv = [*server_flags.controller_manager(files, controllers), *flags]
        self.controller_manager = self._children[2] = self._child("kube-controller-manager", argv)
        self.controller_manager.start()

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        until(self._ready, what="/readyz says ok", timeout=timeout, needs=[self.etcd, self.api_server])

    def _ready(self) -> bool:
        try:
            return self.api().raw("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def _wait_controllers(self) -> None:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        until(
            lambda: self.api().find(account) is not None,
            what="the default ServiceAccount is there",
            timeout=START_TIMEOUT,
            needs=self._children,
        )

    # Ways in

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        return self._authority.ca.certificate

    @property
    def authority(self) -> Authority:
        return self._authority

    def api(self, user: str = "admin", *, token: str | None = None, timeout: float = 60.0) -> ApiClient:
        return ApiClient(port=self.port, ca=self.ca, token=token or self.tokens[user], timeout=timeout)

    def kubeconfig(self, path: Path, user: str = "admin", *, server: str | None = None, **more: Any) -> Path:
        """Writes a kubeconfig; `server` is a proxy's url, `token`, `token_file` and `namespace` are understood too."""
        if not {"token", "token_file"} & more.keys():
            more["token"] = self.tokens[user]
        return kubeconfigs.write(path, user=user, server=server or self.server, ca=self.ca, **more)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, user: str = "admin") -> str:
        """What kubectl printed. CalledProcessError, with what it said on stderr as a note, where it failed."""
        config = self.directory / f"kubeconfig-{user}"
        argv = [self._binaries["kubectl"], "--kubeconfig", self.kubeconfig(config, user), *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            failed = subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
            failed.add_note(done.stderr.strip())
            raise failed
        return done.stdout

    def apply(self, *paths: str | Path) -> str:
        """`kubectl apply --server-side` of files or folders."""
        files = [part for path in paths for part in ("-f", path)]
        return self.kubectl("apply", "--server-side", "--force-conflicts", *files)

    def add_user(self, name: str, *groups: str) -> str:
        """A new token. The API server reads its token file at its start only, so it is restarted (3 s) if it runs."""
        self.users[name], self.tokens[name] = groups, f"{name}-token"
        self._write_tokens()
        if self._children and self.api_server.alive():
            self.restart_api()
        return self.tokens[name]

    def service_account_token(
        self, namespace: str, name: str, *, seconds: int = 3600, bound: dict[str, str] | None = None
    ) -> str:
        """`bound` to a Pod (kind, apiVersion, name), as a kubelet asks for one."""
        spec: dict[str, Any] = {"expirationSeconds": seconds, **({"boundObjectRef": bound} if bound else {})}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.api().create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        return str(answer["status"]["token"])

    def _write_tokens(self) -> None:
        lines = [f'{self.tokens[name]},{name},{name},"{",".join(groups)}"\n' for name, groups in self.users.items()]
        (self.directory / "tokens.csv").write_text("".join(lines))

    # What the server saw

    def requests(self) -> RequestCounts:
        status, text = self.api().raw("GET", "/metrics")
        if status != 200:
            raise ApiError("GET", "/metrics", status, text.decode(errors="replace"))
        return read_counts(text.decode())

    def count_requests(
        self, verb: str | tuple[str, ...] | None, resource: str | None, subresource: str | None = None
    ) -> int:
        return self.requests().total(verb, resource, subresource)

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """Each answered request, oldest first, at Metadata level; the cluster must have been made with audit=True."""
        if self.audit_log is None:
            raise RuntimeError("There is no audit log: make the cluster with ControlPlane(audit=True).")
        for line in self.audit_log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # else it is being written
                yield json.loads(line)


__all__ = ["ChildDied", "ControlPlane"]
