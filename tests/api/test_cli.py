"""The command line on a real API server. No controller is up: what one would have written is written by hand."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from soloist.domain.gate import still_auto_paused
from soloist.domain.instants import stamp
from soloist.domain.lease_bodies import micro_time
from soloist.domain.parsing import parse_job
from soloist.shells.cli import cli
from tests.api.crew import Crew
from tests.api.desk import LONG
from tests.cluster.backend import Backend
from tests.cluster.binaries import locate
from tests.cluster.children import until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.free_ports import free_ports
from tests.domain.why_world import EPOCH

pytestmark = pytest.mark.cluster

LEASES = {"group": "coordination.k8s.io"}
Soloist = Callable[..., Result]
Books = Callable[[dict[str, Any]], dict[str, Any]]


def hour() -> datetime:
    """The hourly job's last time."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def soloist(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> Soloist:
    """`soloist("why", "report", user="nobody")`, in the test's own namespace, with the Lease of that namespace."""

    def invoke(*arguments: str, user: str = "admin", lease: bool = True, **kubeconfig: Any) -> Result:
        config = control_plane.kubeconfig(tmp_path / f"kc-{user}", user, namespace=namespace.name, **kubeconfig)
        where = ["--lease-namespace", namespace.name] if lease else []
        result = CliRunner().invoke(cli, [*arguments, "--kubeconfig", str(config), *where])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        return result

    return invoke


def make_job(namespace: Namespace, name: str = "report", status: dict[str, Any] | None = None, **spec: Any) -> Any:
    whole = {"schedule": "0 * * * *", "http": {"url": "http://backend/run"}, **spec}
    body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "ScheduledJob", "metadata": {"name": name}, "spec": whole}
    made = namespace.api.create(namespace.ours("scheduledjobs"), body)
    if status is None:
        return made
    observed = {"schedule": "0 * * * *", "timeZone": "UTC", "daylightSaving": "Shift", "suspend": False, "since": stamp(hour() - timedelta(days=1))}  # fmt: skip
    whole_status = {"observedGeneration": 1, "observedSchedule": observed, **status}
    return namespace.api.patch(namespace.ours("scheduledjobs", name) + "/status", {"status": whole_status})


def make_run(namespace: Namespace, job: Any, name: str, tick: datetime, **status: Any) -> Any:
    spec = {
        "scheduledJobName": job["metadata"]["name"],
        "scheduledJobUID": job["metadata"]["uid"],
        "trigger": "Schedule",
        "scheduledTime": stamp(tick),
        "lease": {"namespace": namespace.name, "name": "soloist", "uid": "l", "epoch": EPOCH},
    }
    body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "JobRun", "metadata": {"name": name}, "spec": spec}
    namespace.api.create(namespace.ours("jobruns"), body)
    return namespace.api.patch(namespace.ours("jobruns", name) + "/status", {"status": status})


def make_lease(namespace: Namespace, *, name: str = "soloist") -> None:
    moment = micro_time(datetime.now(UTC))
    spec = {"holderIdentity": "ctl-0_u_n1", "leaseDurationSeconds": 3600, "acquireTime": moment, "renewTime": moment}
    annotations = {"soloist.dev/epoch": str(EPOCH), "soloist.dev/nonce": "n1"}
    namespace.api.create(
        namespace.path("leases", **LEASES), {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


def read(namespace: Namespace, name: str = "report") -> Any:
    return namespace.api.get(namespace.ours("scheduledjobs", name))


def test_status_shows_the_leader_every_job_and_problems_first(soloist: Soloist, namespace: Namespace) -> None:
    make_lease(namespace)
    make_job(
        namespace,
        "fine",
        {"watermark": stamp(hour()), "lastScheduleTime": stamp(hour()), "lastResult": "Succeeded"},
    )
    make_job(namespace, "payroll", schedule="0 2 31 2 *")
    result = soloist("status")
    assert result.exit_code == 0
    assert result.output.startswith("LEADER  ctl-0 for ")
    assert f'{namespace.name}/payroll: spec.schedule "0 2 31 2 *" names a date that never comes' in result.output
    assert result.output.index("\npayroll ") < result.output.index("\nfine ")
    document = json.loads(soloist("status", "-o", "json").output)
    assert document["leases"][0]["leading"] is True
    assert {job["name"]: job["held"] for job in document["jobs"]} == {"payroll": "Invalid", "fine": None}


def test_status_of_all_namespaces_shows_them(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace)
    assert re.search(rf"^{namespace.name} +report ", soloist("status", "-A").output, re.MULTILINE)


def test_status_waits_for_a_leader_where_it_is_told_to_and_fails_without_one(
    soloist: Soloist, namespace: Namespace
) -> None:
    assert soloist("status").exit_code == 0
    nobody = soloist("status", "--leader-within", "0.1")
    assert nobody.exit_code == 1
    assert nobody.output.startswith("LEADER  none.")
    elected = threading.Timer(1.0, make_lease, [namespace])
    elected.start()
    somebody = soloist("status", "--leader-within", "60")
    elected.join()
    assert somebody.exit_code == 0
    assert somebody.output.startswith("LEADER  ctl-0 for ")


def test_the_lease_is_found_without_being_named(soloist: Soloist, namespace: Namespace) -> None:
    make_lease(namespace)
    job = make_job(namespace)
    make_run(namespace, job, "one", hour(), phase="Succeeded")
    leases = json.loads(soloist("status", "-o", "json", lease=False).output)["leases"]
    assert f"{namespace.name}/soloist" in {lease["lease"] for lease in leases}


def test_runs_are_shown_newest_first_with_those_of_people_and_times_without_one(
    soloist: Soloist, namespace: Namespace
) -> None:
    blocked = {"result": "Blocked", "first": stamp(hour() - timedelta(hours=2)), "last": stamp(hour() - timedelta(hours=2)), "count": 1}  # fmt: skip
    job = make_job(namespace, status={"watermark": stamp(hour()), "recent": [blocked]})
    make_job(namespace, "other")
    older = hour() - timedelta(hours=1)
    make_run(namespace, job, "older", older, phase="Failed", attempt=2, reason="ConnectionFailed", message="Nothing was sent.", startTime=stamp(older), completionTime=stamp(older + timedelta(seconds=2)))  # fmt: skip
    make_run(namespace, job, "newer", hour(), phase="Running", attempt=1, startTime=stamp(hour()))
    for name in ("report", "other"):
        by_hand = {"metadata": {"name": f"{name}-by-hand"}, "spec": {"scheduledJobName": name}}
        namespace.api.create(
            namespace.ours("jobruns"), {"apiVersion": "soloist.dev/v1alpha1", "kind": "JobRun", **by_hand}
        )
    output = soloist("runs", "report").output
    assert [line.split()[0] for line in output.splitlines()[1:4]] == ["report-by-hand", "newer", "older"]
    assert "other-by-hand" not in output
    assert re.search(r"older +Failed .* 2 .* 2s +ConnectionFailed: Nothing was sent\.", output)
    assert re.search(r"^Blocked ", output, re.MULTILINE)


def test_why_answers_for_a_time_and_for_now(soloist: Soloist, namespace: Namespace) -> None:
    make_lease(namespace)
    asked = hour() - timedelta(hours=2)
    recent = [{"result": "Blocked", "first": stamp(asked), "last": stamp(asked), "count": 1}]
    make_job(namespace, status={"watermark": stamp(hour()), "recent": recent})
    [answer] = json.loads(soloist("why", "report", "--at", stamp(asked), "-o", "json").output)["answers"]
    assert (answer["verdict"], answer["reason"]) == ("DidNotRun", "Blocked")
    assert "it did not run (Blocked)" in soloist("why", "report", "--at", f"{asked:%Y-%m-%d %H:%M}").output
    assert "Nothing is in the way." in soloist("why", "report").output
    assert soloist("why", "report", "--at", "soon").exit_code == 2


def test_why_says_that_nobody_leads_where_no_lease_is(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace, status={"watermark": stamp(hour() - timedelta(hours=1))})
    output = soloist("why", "report", "--at", stamp(hour())).output
    assert "past, and not decided yet (NoLeader)" in output
    assert "As things stand it will still run, late." in output


def test_a_job_that_no_controller_has_seen_is_dated_by_its_last_edit(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace)
    namespace.api.patch(namespace.ours("scheduledjobs", "report"), {"spec": {"schedule": "* * * * *"}})
    [answer] = json.loads(soloist("why", "report", "--at", stamp(hour()), "-o", "json").output)["answers"]
    assert answer["reason"] == "BeforeSince"


def test_a_triggered_run_is_owned_by_its_job(soloist: Soloist, namespace: Namespace) -> None:
    """k8s #47538."""
    job = make_job(namespace)
    result = soloist("trigger", "report")
    assert result.exit_code == 0
    assert "No Lease of Soloist was found" in result.output
    [run] = namespace.api.items(namespace.ours("jobruns"))
    assert f"jobrun {run['metadata']['name']} created in namespace {namespace.name}" in result.output
    assert run["spec"] == {"scheduledJobName": "report", "scheduledJobUID": job["metadata"]["uid"], "trigger": "Manual"}
    assert run["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert run["metadata"]["labels"]["soloist.dev/scheduled-job"] == "report"
    made = json.loads(soloist("trigger", "report", "-o", "json").stdout)
    assert made["kind"] == "JobRun"


class Controller(threading.Thread):
    """Takes the first run that turns up through the given statuses; or deletes it, with ``books`` of what became of it."""

    def __init__(self, namespace: Namespace, *statuses: dict[str, Any], books: Books | None = None) -> None:
        super().__init__()
        self._namespace, self._statuses, self._books = namespace, statuses, books

    def run(self) -> None:
        api, path = self._namespace.api, self._namespace.ours("jobruns")
        until(lambda: bool(api.items(path)), what="a run is made", timeout=90)
        [run] = api.items(path)
        for status in self._statuses:
            api.patch(f"{path}/{run['metadata']['name']}/status", {"status": status})
        if self._books is not None:
            job = self._namespace.ours("scheduledjobs", run["spec"]["scheduledJobName"])
            api.patch(f"{job}/status", {"status": self._books(run)})
        if not self._statuses:
            api.delete(f"{path}/{run['metadata']['name']}")

    def __enter__(self) -> "Controller":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()


@pytest.mark.parametrize(
    ("end", "code"), [("Succeeded", 0), ("Failed", 1), ("Skipped", 1), ("Unknown", 3), ("Interrupted", 3)]
)
def test_waiting_ends_with_the_run_and_its_outcome_is_the_exit_code(
    end: str, code: int, soloist: Soloist, namespace: Namespace
) -> None:
    make_job(namespace)
    with Controller(namespace, {"phase": "Running", "attempt": 1}, {"phase": end, "attempt": 1, "reason": "AsItIs"}):
        result = soloist("trigger", "report", "--wait", "--timeout", "90")
    assert result.exit_code == code
    assert re.search(rf"report-manual-\S+ {end}, attempt 1 \(AsItIs\)", result.output)


def recorded(run: dict[str, Any]) -> dict[str, Any]:
    return {"active": [{"run": run["metadata"]["name"], "uid": run["metadata"]["uid"], "epoch": EPOCH}]}


def ended(result: str, *, folded: bool = False) -> Books:
    """Its end is in ``recent``; ``folded``: with others before and after it that ended alike, and one that did not."""

    def books(run: dict[str, Any]) -> dict[str, Any]:
        made = run["metadata"]["creationTimestamp"]
        if not folded:
            return {"recent": [{"result": result, "first": made, "last": made, "count": 1}]}
        before, after = (stamp(datetime.fromisoformat(made) + timedelta(hours=hours)) for hours in (-1, 1))
        other = {"result": "Failed", "first": after, "last": after, "count": 1}
        return {"recent": [{"result": result, "first": before, "last": after, "count": 3}, other]}

    return books


@pytest.mark.parametrize(
    ("books", "code", "says"),
    [
        (None, 1, "is gone, and status.recent of report does not say what became of it"),
        (recorded, 1, "was deleted by somebody before it was over: it is given no further attempt"),
        (ended("Cancelled"), 1, "was deleted by somebody before it was over; its action may have begun"),
        (ended("Succeeded"), 0, "Succeeded, as status.recent says; the run itself is no longer kept"),
        (ended("Succeeded", folded=True), 0, "Succeeded, as status.recent says; the run itself is no longer kept"),
        (ended("Failed"), 1, "Failed, as status.recent says"),
        (ended("Interrupted"), 3, "Interrupted, as status.recent says"),
        (ended("Blocked"), 1, "Blocked, as status.recent says"),
    ],
)
def test_waiting_for_a_run_that_goes_away_ends_with_what_is_recorded_of_it(
    books: Books | None, code: int, says: str, soloist: Soloist, namespace: Namespace
) -> None:
    make_job(namespace)
    with Controller(namespace, books=books):
        result = soloist("trigger", "report", "--wait", "--timeout", "90")
    assert says in result.output
    assert result.exit_code == code


def test_waiting_has_an_end(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace)
    result = soloist("trigger", "report", "--wait", "--timeout", "0")
    assert result.exit_code == 4
    assert "it goes on" in result.output


def test_what_cannot_be_launched_is_not_triggered(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace, schedule="0 2 31 2 *")
    result = soloist("trigger", "report")
    assert result.exit_code == 1
    assert "report cannot be run: spec.schedule" in result.output
    assert not namespace.api.items(namespace.ours("jobruns"))


def test_a_pause_is_an_annotation_that_a_resume_takes_away(soloist: Soloist, namespace: Namespace) -> None:
    before = make_job(namespace)
    assert soloist("pause", "report", "--reason", "deploying").exit_code == 0
    assert parse_job(read(namespace)).paused == "true: deploying"
    assert "The job is paused by a person (deploying)." in soloist("why", "report").output
    assert "report goes on" in soloist("resume", "report").output
    after = read(namespace)
    assert parse_job(after).paused is None
    assert parse_job(after).resumed_at is not None
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert "report is not paused." in soloist("resume", "report").output


def test_a_resume_ends_a_jobs_own_pause_even_of_a_leader_whose_clock_is_ahead(
    soloist: Soloist, namespace: Namespace
) -> None:
    paused = {"since": stamp(hour() + timedelta(hours=2)), "reason": "TooManyFailures", "message": "5 runs failed."}
    make_job(namespace, status={"paused": paused, "consecutiveFailures": 5})
    assert still_auto_paused(parse_job(read(namespace)), hour())
    assert soloist("resume", "report").exit_code == 0
    assert not still_auto_paused(parse_job(read(namespace)), hour())


def test_the_whole_installation_is_paused_on_its_lease(soloist: Soloist, namespace: Namespace) -> None:
    make_lease(namespace)
    make_job(namespace)
    assert soloist("pause", "--all", "--reason", "migration").exit_code == 0
    assert "PAUSED  the whole installation (migration)" in soloist("status").output
    refused = soloist("trigger", "report")
    assert refused.exit_code == 1
    assert "The whole installation is paused (migration)" in refused.output
    assert "goes on" in soloist("resume", "--all").output
    assert "is not paused" in soloist("resume", "--all").output


def test_without_a_lease_there_is_nothing_to_pause(soloist: Soloist) -> None:
    result = soloist("pause", "--all")
    assert result.exit_code == 1
    assert "No Lease named soloist was found" in result.output


@pytest.mark.parametrize("command", ["runs", "why", "trigger", "pause", "resume"])
def test_a_job_that_is_not_there_names_those_that_are_near(
    command: str, soloist: Soloist, namespace: Namespace
) -> None:
    make_job(namespace, "overdue-invoices")
    result = soloist(command, "overdue-invoice")
    assert result.exit_code == 1
    assert result.output == (
        f'Error: There is no ScheduledJob "overdue-invoice" in namespace {namespace.name}. Did you mean overdue-invoices?\n'
    )


def test_a_job_of_another_namespace_is_pointed_at(soloist: Soloist, namespace: Namespace) -> None:
    name = f"only-in-{namespace.name}"
    make_job(namespace, name)
    assert f"There is one in {namespace.name}: name it with -n." in soloist("why", name, "-n", "default").output


@pytest.mark.parametrize("command", [("status",), ("status", "-A"), ("runs", "report"), ("why", "report"), ("trigger", "report"), ("pause", "report"), ("pause", "--all")])  # fmt: skip
def test_a_missing_right_is_named(command: tuple[str, ...], soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace)
    result = soloist(*command, user="nobody")
    assert result.exit_code == 1
    assert re.match(r'Error: User "nobody" may not (list|get) (scheduledjobs\.soloist\.dev|leases\.coordination\.k8s\.io) in', result.output)  # fmt: skip
    assert "ask for a " in result.output


def test_whoever_may_only_look_is_answered_without_the_lease(soloist: Soloist, namespace: Namespace) -> None:
    make_job(namespace, status={"watermark": stamp(hour())})
    rules = [{"apiGroups": ["soloist.dev"], "resources": ["scheduledjobs", "jobruns"], "verbs": ["get", "list"]}]
    roles, bindings = (namespace.path(kind, group="rbac.authorization.k8s.io") for kind in ("roles", "rolebindings"))
    namespace.api.create(roles, {"metadata": {"name": "looks"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]
    namespace.api.create(bindings, {"metadata": {"name": "looks"}, "roleRef": reference, "subjects": subjects})
    until(lambda: soloist("status", user="nobody").exit_code == 0, what="the right is known", timeout=90)
    assert 'LEADER  not known: User "nobody" may not get leases' in soloist("status", user="nobody").output
    assert "Whether a controller leads is not known" in soloist("why", "report", user="nobody", lease=False).output
    refused = soloist("trigger", "report", user="nobody")
    assert "resources: [jobruns], verbs: [create]" in refused.output
    assert "resources: [scheduledjobs], verbs: [patch]" in soloist("pause", "report", user="nobody").output


def test_a_server_that_cannot_be_reached_is_a_sentence(soloist: Soloist) -> None:
    [port] = free_ports(1)
    result = soloist("status", server=f"https://127.0.0.1:{port}")
    assert result.exit_code == 1
    assert "the API server cannot be reached" in result.output


def test_a_cluster_without_the_crds_says_how_to_install_them(cluster_binaries: None, tmp_path: Path) -> None:
    with ControlPlane() as bare:
        config = bare.kubeconfig(tmp_path / "kc")
        for command in (["status"], ["why", "report"], ["trigger", "report"]):
            result = CliRunner().invoke(cli, [*command, "--kubeconfig", str(config)])
            assert result.exit_code == 1
            assert "kubectl apply --server-side -f manifests/crds" in result.output


def test_it_is_a_plugin_of_kubectl(control_plane: ControlPlane, namespace: Namespace, tmp_path: Path) -> None:
    make_job(namespace)
    config = control_plane.kubeconfig(tmp_path / "kc", namespace=namespace.name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    argv = [locate("kubectl")["kubectl"], "soloist", "why", "report", "-n", namespace.name]
    done = subprocess.run(argv, env={**os.environ, "PATH": path, "KUBECONFIG": str(config)}, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"report in namespace {namespace.name}")


def test_with_a_controller_up_a_trigger_runs_and_a_pause_of_everything_holds(
    soloist: Soloist, crew: Crew, backend: Backend
) -> None:
    crew.start("ctl-0", **LONG)
    crew.leader()
    crew.job("report", schedule="0 2 1 1 *", http={"url": backend.url("/run")})
    result = soloist("trigger", "report", "--wait", "--timeout", "90")
    assert result.exit_code == 0, result.output
    assert [seen.path for seen in backend.received()] == ["/run"]
    assert "LEADER  ctl-0 for " in soloist("status").output
    assert soloist("pause", "--all").exit_code == 0
    crew.trigger("report", "while-paused")
    until(lambda: crew.phase("while-paused") == "Skipped", what="the pause holds", timeout=90)
    assert "FleetPaused" in soloist("runs", "report").output
    assert soloist("resume", "--all").exit_code == 0
    until(lambda: "PAUSED" not in soloist("status").output, what="it goes on", timeout=90)
    assert backend.most_at_once() == 1
