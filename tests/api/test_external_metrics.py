"""external.metrics.k8s.io through a real API server: who is answered, what an autoscaler makes of it, and with which rights."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from soloist.adapters.postgres.migrate import migrate
from tests.api.crew import Crew
from tests.api.desk import LONG
from tests.api.tending import not_ready, ready
from tests.cluster import server_flags
from tests.cluster.certificates import Pair, make_authority, signed
from tests.cluster.children import until
from tests.cluster.client import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace, install_crds
from tests.cluster.free_ports import free_ports
from tests.cluster.front_proxy import FrontProxy, make_front_proxy
from tests.cluster.node_files import QUICK_AUTOSCALER
from tests.postgres.server import Database, Postgres

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
MANIFESTS = Path(__file__).parents[2] / "manifests"
RIGHTS = MANIFESTS / "rbac" / "external-metrics.yaml"
ACCOUNT = "system:serviceaccount:soloist:soloist"
GROUP = "external.metrics.k8s.io"
ROOT = f"/apis/{GROUP}/v1beta1"
SERVICE = "soloist-external-metrics"
NAMES = f"subjectAltName=DNS:{SERVICE}.soloist.svc\n"
PATIENCE = 120.0


class Aggregating(ControlPlane):
    """A control plane that passes requests on to API servers beside it, and has autoscalers."""

    front: FrontProxy

    def __init__(self) -> None:
        controllers = (*server_flags.CONTROLLERS, "horizontal-pod-autoscaler-controller")
        super().__init__(
            controllers=controllers,
            controller_flags=(*server_flags.FAST, *QUICK_AUTOSCALER),
            users={"anna": (), "boris": ()},
            audit=True,
        )

    def _make_children(self) -> None:
        self.front = make_front_proxy(self.directory / "pki")
        self.api_flags = self.front.flags
        super()._make_children()


class Stage:
    """One controller under the ServiceAccount of the manifests, behind an APIService, and a queue in another namespace."""

    def __init__(self, cluster: Aggregating, place: Database, folder: Path) -> None:
        self.cluster, self.place, self.folder = cluster, place, folder
        self.port, self.health = free_ports(2)
        self.shown = folder / "shown"
        self.work = Namespace(name="work", cluster=cluster)
        self.crew = Crew(cluster, Namespace(name="soloist", cluster=cluster), folder)

    def up(self) -> None:
        api = self.cluster.api()
        install_crds(self.cluster)
        self.cluster.apply(MANIFESTS / "rbac" / "controller.yaml", RIGHTS)
        api.create("/api/v1/namespaces", {"metadata": {"name": "work"}})
        binding = ("rolebinding", "soloist-keys", "--clusterrole=soloist-keys", "--serviceaccount=soloist:soloist")
        self.work.kubectl("create", *binding)
        data = {"uri": base64.b64encode(self.place.dsn().encode()).decode()}
        api.create(self.work.path("secrets"), {"metadata": {"name": "db"}, "data": data})
        for name, secret in (("emails", "db"), ("mails", "db"), ("lost", "nowhere")):
            spec = {"database": {"secretName": secret, "key": "uri"}, "deliver": {"external": {}}}
            body = {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": name}, "spec": spec}
            api.create(self.work.ours("workqueues"), body)
        self.shown.mkdir()
        self.show(self.signed("metrics"))
        self.start("a", health=self.health, port=self.port, shown=self.shown)
        self.crew.wait(lambda: ready(self.health), what="a is ready", timeout=PATIENCE)
        self.aggregate()

    def start(self, name: str, *, health: int, port: int, shown: Path) -> None:
        """A controller that shows the certificate in that folder."""
        token = self.cluster.service_account_token("soloist", "soloist")
        config = self.cluster.kubeconfig(self.folder / f"{name}.rights", user="soloist", token=token)
        env = {
            "KUBECONFIG": str(config),
            "SOLOIST_NAMESPACE": "",
            "SOLOIST_HEALTH_PORT": str(health),
            "SOLOIST_EXTERNAL_METRICS": "true",
            "SOLOIST_EXTERNAL_METRICS_PORT": str(port),
            "SOLOIST_EXTERNAL_METRICS_CERTIFICATE": str(shown),
        }
        self.crew.start(name, **LONG, **env)

    def aggregate(self) -> None:
        api = self.cluster.api()
        service = {"metadata": {"name": SERVICE}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        api.create("/api/v1/namespaces/soloist/services", service)
        spec = {
            "group": GROUP,
            "version": "v1beta1",
            "service": {"namespace": "soloist", "name": SERVICE, "port": self.port},
            "caBundle": base64.b64encode(self.cluster.ca.read_bytes()).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        name = f"v1beta1.{GROUP}"
        api.create(path, {"metadata": {"name": name}, "spec": spec})

        def available() -> bool:
            conditions = api.get(f"{path}/{name}").get("status", {}).get("conditions", [])
            return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)

        until(available, what="the APIService is available", timeout=PATIENCE, needs=self.cluster.processes())

    def signed(self, name: str) -> Pair:
        return signed(self.cluster.directory / "pki", name, f"/CN={name}", self.cluster.authority.ca, NAMES)

    def show(self, made: Pair, folder: Path | None = None) -> None:
        """What the controller is to show from now on."""
        folder = folder or self.shown
        for file, name in ((made.key, "tls.key"), (made.certificate, "tls.crt")):
            (folder / f"{name}.new").write_bytes(file.read_bytes())
            (folder / f"{name}.new").replace(folder / name)

    def get(self, path: str, user: str = "anna") -> Raw:
        found: Raw = self.cluster.api(user).get(ROOT + path)
        return found

    def metric(self, metric: str, selector: str = "queue%3Demails", *, user: str = "anna", space: str = "work") -> Raw:
        return self.get(f"/namespaces/{space}/{metric}?labelSelector={selector}", user)

    def value(self, metric: str) -> str:
        (item,) = self.metric(metric)["items"]
        return str(item["value"])

    def dial(self, certificate: Pair | None, headers: dict[str, str]) -> tuple[int, Raw]:
        """Past the API server. OSError where the handshake is refused."""
        context = ssl.create_default_context(cafile=str(self.cluster.ca))
        context.check_hostname = False
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=30)
        with closing(connection):
            connection.request(
                "GET", f"{ROOT}/namespaces/work/soloist_queue_ready?labelSelector=queue%3Demails", headers=headers
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def serial(self) -> str:
        """Of the certificate that is shown."""
        context = ssl.create_default_context(cafile=str(self.cluster.ca))
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=30)
        with closing(connection):
            connection.connect()
            shown: Any = connection.sock.getpeercert()
            return str(shown["serialNumber"])


@pytest.fixture(scope="module")
def place(postgres: Postgres) -> Iterator[Database]:
    made = postgres.create_database(f"w_{uuid.uuid4().hex[:12]}")
    migrate(made.dsn())
    yield made
    postgres.drop_database(made.name)


@pytest.fixture(scope="module")
def stage(cluster_binaries: None, place: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Aggregating() as cluster:
        made = Stage(cluster, place, tmp_path_factory.mktemp("external-metrics"))
        try:
            made.up()
            grant(made, "anna")
            yield made
        finally:
            made.crew.stop()
            for member in made.crew.members.values():
                print(f"---- log of {member.name}\n{member.log()[-6000:]}")


def grant(stage: Stage, user: str) -> None:
    group = "rbac.authorization.k8s.io"
    metrics = ["soloist_queue_ready", "soloist_queue_oldest_age_seconds", "soloist_queue_in_flight"]
    rules = [{"apiGroups": [GROUP], "resources": metrics, "verbs": ["list"]}]
    api = stage.cluster.api()
    api.create(stage.work.path("roles", group=group), {"metadata": {"name": "reads-depths"}, "rules": rules})
    stage.work.kubectl("create", "rolebinding", "reads-depths", "--role=reads-depths", f"--user={user}")


def enqueue(place: Database, queue: str, count: int, due: str = "now()") -> None:
    with place.connect() as connection:
        text = f"SELECT soloist.enqueue(%s, '{{}}', due_at => {due}) FROM generate_series(1, %s)"
        connection.execute(text, (f"work/{queue}", count))


def refused(stage: Stage, *arguments: Any, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as found:
        stage.metric(*arguments, **more)
    return found.value


def test_the_api_server_hands_on_what_was_measured(stage: Stage) -> None:
    enqueue(stage.place, "emails", 3)
    enqueue(stage.place, "emails", 2, "now() + interval '1 hour'")
    enqueue(stage.place, "mails", 4)
    until(lambda: stage.value("soloist_queue_ready") == "3", what="what was enqueued is seen", timeout=PATIENCE)
    age = "soloist_queue_oldest_age_seconds"
    until(lambda: thousandths(stage.value(age)) >= 1000, what="the oldest has waited for a second", timeout=PATIENCE)
    with stage.place.connect() as connection:
        connection.execute("SELECT count(*) FROM soloist.claim('work/emails', 1)")
    until(lambda: stage.value("soloist_queue_in_flight") == "1", what="the claim is seen", timeout=PATIENCE)
    assert stage.value("soloist_queue_ready") == "2"
    both = stage.metric("soloist_queue_ready", "queue+in+(emails,mails)")["items"]
    assert {each["metricLabels"]["queue"]: each["value"] for each in both} == {"emails": "2", "mails": "4"}
    found = stage.get("", "boris")["resources"]
    assert {each["name"] for each in found} >= {"soloist_queue_ready", "soloist_queue_in_flight"}


def thousandths(quantity: str) -> int:
    return int(quantity.removesuffix("m")) * (1 if quantity.endswith("m") else 1000)


def test_who_has_no_right_to_a_metric_there_is_refused(stage: Stage) -> None:
    without = refused(stage, "soloist_queue_ready", user="boris")
    assert (without.status, without.reason) == (403, "Forbidden")
    assert "boris" in without.message
    elsewhere = refused(stage, "soloist_queue_ready", space="soloist")
    assert elsewhere.status == 403


def test_what_makes_no_sense_is_refused_with_a_sentence(stage: Stage) -> None:
    everything = refused(stage, "soloist_queue_ready", "")
    assert (everything.status, everything.reason) == (400, "BadRequest")
    assert "queues are measured by name" in everything.message
    absent = refused(stage, "soloist_queue_ready", "queue%3Dabsent")
    assert (absent.status, absent.message) == (
        404,
        "WorkQueue work/absent does not exist: create it, or name another one.",
    )
    assert refused(stage, "soloist_queue_lag", user="admin").status == 404
    lost = refused(stage, "soloist_queue_ready", "queue+in+(emails,lost)")
    assert (lost.status, "Secret work/nowhere does not exist" in lost.message) == (404, True), "no part of a sum"


def test_nobody_is_believed_but_the_api_server(stage: Stage) -> None:
    admin = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    token = {"Authorization": f"Bearer {stage.cluster.tokens['admin']}"}
    for headers in ({}, admin, token):
        status, said = stage.dial(None, headers)
        assert (status, said["kind"], said["reason"]) == (401, "Status", "Unauthorized")
    of_users = signed(stage.folder, "user", "/O=system:masters/CN=front-proxy-client", stage.cluster.authority.ca, "")
    stranger = make_authority(stage.folder / "stranger").ca
    for certificate in (of_users, stranger):
        with pytest.raises(OSError):
            stage.dial(certificate, admin)
    misnamed = signed(stage.folder, "misnamed", "/CN=another", stage.cluster.front.ca, "")
    status, said = stage.dial(misnamed, admin)
    assert (status, "not one of the front proxy's" in said["message"]) == (401, True)
    assert stage.dial(stage.cluster.front.front, admin)[0] == 200
    assert stage.dial(stage.cluster.front.front, {"X-Remote-User": "boris"})[0] == 403


def test_an_autoscaler_follows_the_depth(stage: Stage) -> None:
    """No kubelet: what it asks for is seen, not the Pods."""
    enqueue(stage.place, "emails", 45)  # with the few of other tests still three times 20
    labels = {"app": "worker"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "worker"}]}}
    deployment = {"metadata": {"name": "worker"}, "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}}  # fmt: skip
    api, deployments = stage.cluster.api(), stage.work.path("deployments", group="apps")
    api.create(deployments, deployment)
    metric = {"name": "soloist_queue_ready", "selector": {"matchLabels": {"queue": "emails"}}}
    by_depth = {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "20"}},
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"},
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [by_depth],
    }
    scalers = stage.work.path("horizontalpodautoscalers", group="autoscaling", version="v2")
    api.create(scalers, {"metadata": {"name": "worker"}, "spec": spec})

    wanted = f"{deployments}/worker"
    until(lambda: api.get(wanted)["spec"]["replicas"] == 3, what="three are wanted", timeout=PATIENCE)
    status = api.get(f"{scalers}/worker")["status"]
    (active,) = [each for each in status["conditions"] if each["type"] == "ScalingActive"]
    assert (active["status"], active["reason"]) == ("True", "ValidMetricFound")


def test_another_certificate_is_shown_without_a_restart(stage: Stage) -> None:
    before, pid = stage.serial(), stage.crew.members["a"].child()
    stage.show(stage.signed("metrics-anew"))
    until(lambda: stage.serial() != before, what="the new one is shown", timeout=PATIENCE)
    assert stage.value("soloist_queue_ready")
    assert stage.crew.members["a"].child() == pid


def test_a_controller_without_a_certificate_says_so_and_serves_when_it_has_one(stage: Stage) -> None:
    health, port = free_ports(2)
    shown = stage.folder / "empty"
    shown.mkdir()
    stage.start("b", health=health, port=port, shown=shown)
    sentence = f"{shown} must hold tls.crt and tls.key, and cannot be read"
    until(lambda: sentence in not_ready(health), what="b says why it is not ready", timeout=PATIENCE)
    events = stage.crew.namespace.path("events", group="events.k8s.io")

    def told() -> list[Raw]:
        return [each for each in stage.cluster.api().items(events) if each["reason"] == "ExternalMetricsUnavailable"]

    event = until(told, what="an Event says so", timeout=PATIENCE)[0]
    assert (event["type"], event["regarding"]["kind"], event["reportingInstance"]) == ("Warning", "Lease", "b")
    assert sentence in event["note"]
    stage.show(stage.signed("metrics-late"), shown)
    until(lambda: ready(health), what="b is ready", timeout=PATIENCE)
    assert len({event["note"] for event in told()}) == len(told()), "each sentence once"


def test_its_rights_are_enough_and_each_is_used(stage: Stage) -> None:
    rules = [rule for doc in yaml.safe_load_all(RIGHTS.read_text()) for rule in doc.get("rules", ())]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    used, others = set(), []
    for event in stage.cluster.audit_events():
        about = event.get("objectRef") or {}
        if event["user"]["username"] != ACCOUNT:
            continue
        used.add((about.get("resource"), event["verb"]))
        if event["responseStatus"]["code"] in (401, 403):
            others.append((about.get("resource"), event["verb"]))
    assert granted - used == set()
    assert others == []


def test_while_it_is_answered_namespaces_go(stage: Stage) -> None:
    """The API server looks for what is served as somebody of no group, once a minute after a failure."""
    api = stage.cluster.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    api.delete("/api/v1/namespaces/leaving")
    until(lambda: api.find("/api/v1/namespaces/leaving") is None, what="it goes", timeout=3 * PATIENCE)
