"""What the chart installs works as it is rendered: its flags are taken, its rights suffice, and what a value takes away is missed in words.

There is no node, so the containers' commands run as processes, with the environment and the account that their Pods would have.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.adapters.postgres.migrate import look
from soloist.domain.spec import Spec, parse_spec
from tests.api.tending import ready
from tests.chart.rendering import NOTES, documents, golden_notes, notes, of_kind, one, rendered
from tests.cluster.backend import Backend
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.postgres.server import Database

SOLOIST = [sys.executable, "-c", "from soloist.shells.main import main; main()"]
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
POD = {"restartPolicy": "Never", "containers": [{"name": "report", "image": "busybox"}]}


class Release:
    """A release in a namespace of its own that serves one other, with every right taken away that a value takes away."""

    def __init__(self, cluster: ControlPlane, served: Namespace, folder: Path) -> None:
        self.cluster, self.served, self.folder = cluster, served, folder
        self.home = Namespace(name=f"t-{uuid.uuid4().hex[:10]}", cluster=cluster)
        cluster.api().create("/api/v1/namespaces", {"metadata": {"name": self.home.name}})
        values = {
            "namespaces": [served.name],
            "actions": {"job": False, "database": False},
            "events": False,
            "crds": {"enabled": False},
            "rbac": {"aggregate": False},
            "flowSchema": {"enabled": False},
        }
        self.text = rendered(values, namespace=self.home.name)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(of_kind(self.text, *RIGHTS)))
        self.children: list[Child] = []

    def environment(self, pod: dict[str, Any], name: str) -> dict[str, str]:
        """As the kubelet would make it; the kubeconfig is in place of the mounted token."""
        account = pod["serviceAccountName"]
        token = self.cluster.service_account_token(self.home.name, account)
        config = self.cluster.kubeconfig(self.folder / f"{name}.kubeconfig", user=account, token=token)
        fields = {"metadata.name": name, "metadata.namespace": self.home.name, "metadata.uid": f"uid-of-{name}"}
        given = {
            variable["name"]: fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for variable in pod["containers"][0].get("env", ())
        }
        return {**given, "KUBECONFIG": str(config)}

    def start(self, component: str) -> None:
        pod = one(self.text, "Deployment", f"soloist-{component}")["spec"]["template"]["spec"]
        port = free_ports(1)[0]
        env = {**self.environment(pod, component), "SOLOIST_HEALTH_PORT": str(port)}
        child = Child(
            component, [*SOLOIST, *pod["containers"][0]["args"]], log=self.folder / f"{component}.log", env=env
        )
        self.children.append(child)
        child.start()
        until(lambda: ready(port), what=f"the {component} is ready", timeout=120, needs=[child])

    def test(self) -> subprocess.CompletedProcess[str]:
        """As `helm test` would."""
        pod = one(self.text, "Pod", "soloist-test")["spec"]
        argv = [*SOLOIST, *pod["containers"][0]["args"]]
        return subprocess.run(
            argv, env=self.environment(pod, "test"), capture_output=True, text=True, check=False, timeout=240
        )

    def job(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}}
        self.served.api.create(self.served.ours("scheduledjobs"), {**body, "spec": {"schedule": "@every 1s", **spec}})

    def reason(self, job: str) -> str:
        """Why a run of the job failed; empty while none has. One may have been missed while the controller started."""
        runs = self.served.api.items(self.served.ours("jobruns"))
        said = [run.get("status", {}) for run in runs if run["spec"]["scheduledJobName"] == job]
        return next((str(status["reason"]) for status in said if status.get("phase") == "Failed"), "")


@pytest.fixture
def release(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Iterator[Release]:
    made = Release(control_plane, namespace, tmp_path)
    yield made
    for child in made.children:
        child.stop()
        print(f"---- log of {child.name}\n{child.log.read_text(errors='replace')[-4000:]}")
    control_plane.api().delete(f"/api/v1/namespaces/{made.home.name}")


@pytest.mark.cluster
def test_with_every_right_taken_away_http_jobs_run_and_the_others_say_what_they_lack(
    release: Release, backend: Backend
) -> None:
    release.job("sweep", http={"url": backend.url("/sweep")})
    release.job("report", job={"template": {"spec": {"template": {"spec": POD}}}})
    token = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}}
    release.job("signed", http={"url": backend.url("/signed"), "headers": [token]})
    release.start("controller")
    release.start("worker")
    tested = release.test()
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.startswith("LEADER  controller for ")
    backend.wait(2, path="/sweep", timeout=120)
    assert until(lambda: release.reason("report"), what="a run with a job action ended", timeout=120) == "JobRefused"
    assert until(lambda: release.reason("signed"), what="a run with a Secret ended", timeout=120) == "SecretUnavailable"
    assert backend.received("/signed") == []


@pytest.mark.cluster
def test_the_test_of_a_release_that_nobody_leads_fails_and_says_so(release: Release) -> None:
    pod = one(release.text, "Pod", "soloist-test")["spec"]
    pod["containers"][0]["args"] = [arg.replace("=60", "=1") for arg in pod["containers"][0]["args"]]
    release.text = yaml.safe_dump_all([{"kind": "Pod", "metadata": {"name": "soloist-test"}, "spec": pod}])
    tested = release.test()
    assert tested.returncode == 1
    assert tested.stdout.startswith("LEADER  none.")


def test_the_migration_of_several_releases_may_run_at_once(database: Database) -> None:
    job = one(rendered({"migration": {"existingSecret": "backend-db", "key": "url"}}), "Job", "soloist-migrate")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "backend-db", "key": "url"}}
    env = {variable["name"]: f"{database.dsn()}?schema=public", "PATH": ""}

    def migrate(_: int) -> subprocess.CompletedProcess[str]:
        argv = [*SOLOIST, *container["args"]]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(migrate, range(3)))
    assert [each.returncode for each in done] == [0, 0, 0], [each.stderr for each in done]
    assert len([each for each in done if each.stdout.startswith("Applied:")]) == 1
    assert look(database.dsn()) == ()


def test_what_is_said_after_an_installation_is_as_it_was() -> None:
    assert NOTES.read_text(encoding="utf-8") == golden_notes(), "out of date: make chart"


def test_the_first_job_that_is_shown_can_be_applied() -> None:
    shown = notes().partition("<<EOF\n")[2].partition("  EOF\n")[0]
    (job,) = documents(shown)
    assert isinstance(parse_spec(job["spec"]), Spec)
