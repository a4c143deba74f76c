"""The control plane that other tests stand on does what they take for granted, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.children import ChildDied, born, until
from tests.cluster.client import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.state_folder import OWNER, make_state_folder

pytestmark = pytest.mark.cluster

JOB: dict[str, Any] = {
    "metadata": {"name": "work"},
    "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "localhost/none:1"}]}}
    },
}


def test_kubectl_sees_the_namespaces_of_a_real_server(control_plane: ControlPlane) -> None:
    assert "kube-system" in control_plane.kubectl("get", "namespaces")


def test_a_job_gets_its_pod_which_stays_pending_for_there_is_no_node(namespace: Namespace) -> None:
    namespace.api.create(namespace.path("jobs", group="batch"), JOB)
    pods = until(lambda: namespace.api.items(namespace.path("pods")), what="the Job's Pod", timeout=90)
    assert [pod["status"]["phase"] for pod in pods] == ["Pending"]


def test_deletion_of_a_job_takes_its_pod_along(namespace: Namespace) -> None:
    namespace.api.create(namespace.path("jobs", group="batch"), JOB)
    until(lambda: namespace.api.items(namespace.path("pods")), what="the Job's Pod", timeout=90)
    namespace.api.delete(namespace.path("jobs", "work", group="batch"), {"propagationPolicy": "Background"})
    until(lambda: not namespace.api.items(namespace.path("pods")), what="no Pod is left", timeout=90)


def test_a_user_without_rights_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        control_plane.api("nobody").get("/api/v1/namespaces")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_a_service_account_has_the_rights_it_was_given_and_no_others(namespace: Namespace) -> None:
    namespace.kubectl("create", "serviceaccount", "reader")
    namespace.kubectl(
        "create", "rolebinding", "read", "--clusterrole=view", f"--serviceaccount={namespace.name}:reader"
    )
    token = namespace.cluster.service_account_token(namespace.name, "reader")
    api = namespace.cluster.api(token=token)
    until(lambda: allowed(lambda: api.get(namespace.path("configmaps"))), what="the binding holds", timeout=90)
    with pytest.raises(ApiError, match="cannot create resource"):
        api.create(namespace.path("configmaps"), {"metadata": {"name": "no"}})


def test_a_namespace_that_is_deleted_goes_away(control_plane: ControlPlane) -> None:
    control_plane.api().create("/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    control_plane.api().delete("/api/v1/namespaces/short-lived")
    until(lambda: control_plane.api().find("/api/v1/namespaces/short-lived") is None, what="it is gone", timeout=90)


def test_writes_are_counted_at_the_server(namespace: Namespace) -> None:
    """Of a kind that no other test writes: the count is the whole server's. It clears namespaces of others meanwhile, of each kind."""
    before = namespace.cluster.requests()
    for name in ("one", "two", "three"):
        made = {"metadata": {"name": name}, "spec": {"limits": []}}
        namespace.api.create(namespace.path("limitranges"), made)
    namespace.api.patch(namespace.path("limitranges", "one"), {"metadata": {"labels": {"key": "value"}}})

    def since() -> tuple[int, int]:
        """A request is counted a little after it is answered."""
        counted = namespace.cluster.requests() - before
        return counted.total("POST", "limitranges"), counted.total("PATCH", "limitranges")

    until(lambda: sum(since()) >= 4, what="all four are counted", timeout=90)
    assert since() == (3, 1)


def test_the_audit_log_names_who_did_what(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    cluster = fresh_control_plane(audit=True, users={"bob": ["system:masters"]})
    cluster.api("bob").create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "seen"}})

    def seen() -> list[tuple[str, str]]:
        by_bob = (event for event in cluster.audit_events() if event["user"]["username"] == "bob")
        return [(event["verb"], event["objectRef"]["name"]) for event in by_bob]

    until(lambda: ("create", "seen") in seen(), what="it is on record", timeout=60)


@pytest.mark.slow
def test_state_survives_a_killed_api_server_and_new_users_come_with_a_restart(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    cluster = fresh_control_plane()
    cluster.api().create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "kept"}})
    cluster.stop_api()
    with pytest.raises(ConnectionRefusedError):
        cluster.api().get("/version")
    # Started from a thread that ends at once: the server must not die with it.
    starter = threading.Thread(target=cluster.start_api)
    starter.start()
    starter.join()
    assert cluster.api().find("/api/v1/namespaces/default/secrets/kept")
    token = cluster.add_user("late", "system:masters")
    assert cluster.api(token=token).get("/api/v1/namespaces/default")
    cluster.check()


def test_a_paused_api_server_answers_nothing_until_it_is_resumed(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    cluster = fresh_control_plane()
    cluster.pause_api()
    with pytest.raises(TimeoutError):
        cluster.api(timeout=0.5).get("/version")
    cluster.resume_api()
    assert cluster.api().get("/version")


def test_a_server_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path, cluster_binaries: None) -> None:
    with pytest.raises(ChildDied, match="unknown flag: --no-such-flag"):
        ControlPlane(directory=tmp_path / "cluster", api_flags=["--no-such-flag"]).up()


def test_after_down_nothing_is_left(fresh_control_plane: Callable[..., ControlPlane]) -> None:
    cluster = fresh_control_plane()
    pids = [child.pid for child in cluster.processes()]
    cluster.down()
    assert [pid for pid in pids if born(pid)] == []
    assert not cluster.directory.exists()


def test_the_folder_of_a_killed_run_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept, left = make_state_folder(), make_state_folder()
    (left / OWNER).write_text('{"pid": 1, "born": "never"}')
    made = make_state_folder()
    assert set(tmp_path.iterdir()) == {kept, made}


def test_when_the_test_run_itself_is_killed_nothing_is_left(tmp_path: Path, cluster_binaries: None) -> None:
    script = (
        "import sys, time, pathlib; from tests.cluster.control_plane import ControlPlane\n"
        f"cluster = ControlPlane(directory=pathlib.Path({str(tmp_path / 'cluster')!r})).up()\n"
        "print(*(child.pid for child in cluster.processes()), flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(pid) for pid in run.stdout.readline().split()]
        assert len(pids) == 3
        assert all(born(pid) for pid in pids)
        os.kill(run.pid, signal.SIGKILL)
    until(lambda: not any(born(pid) for pid in pids), what="all three are dead", timeout=60)


def test_a_detached_cluster_outlives_its_command_and_ends_with_down(tmp_path: Path, cluster_binaries: None) -> None:
    cached = Path(os.environ.get("SOLOIST_CACHE") or Path.home() / ".cache" / "soloist")
    for name in ("bin", "modules"):
        if (cached / name).exists():
            (tmp_path / name).symlink_to(cached / name)

    def command(word: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "tests.cluster", word]
        env = {**os.environ, "SOLOIST_CACHE": str(tmp_path)}
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)

    try:
        assert command("up").stdout.strip() == str(tmp_path / "cluster" / "kubeconfig")
        said = command("status")
        assert (said.returncode, said.stdout.count(" runs, ")) == (0, 3)
    finally:
        ended = command("down")
    assert "The cluster is down." in ended.stderr
    assert command("status").stdout == "no cluster\n"


def allowed(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except ApiError as refused:
        if refused.status != 403:
            raise
        return False
    return True
