"""A Secret, a table, a grant, a right or a CRD that is missing is named in the readiness reason, in an Event and in the log, and nothing
is started again when it is put right: by the controller that led, and the worker that ran, when it went.

Of a queue the Event is the leader's, one for all workers, which have no right to write any.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.api.crew import Raw
from tests.api.going_on import goes_on
from tests.api.put_right import Scene, granted, without
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import CRDS, Namespace, install_crds, when_served
from tests.postgres.server import Database
from tests.queue.user_tables import TABLES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TABLE = TABLES["prisma"]


@pytest.fixture
def role(own_queue_database: Database) -> Iterator[str]:
    """One that may do what a worker must, and no more."""
    name = own_queue_database.server.role(f"works_{uuid.uuid4().hex[:8]}")
    with own_queue_database.connect() as connection:
        connection.execute(f"SELECT soloist.allow_work('{name}')")
    yield name
    with own_queue_database.connect() as connection:
        connection.execute(f"DROP OWNED BY {name}")


@pytest.fixture
def scene(
    namespace: Namespace, backend: Backend, tmp_path: Path, own_queue_database: Database, role: str
) -> Iterator[Scene]:
    made = Scene(namespace, backend, tmp_path, own_queue_database, own_queue_database.dsn(role))
    try:
        yield made
    finally:
        made.stop()


def begin(scene: Scene) -> None:
    """A queue of rows in soloist.work_items, worked."""
    scene.secret()
    scene.queue("q")
    scene.start()
    scene.works()
    scene.all_is_well()
    scene.controller_is(200)


def test_a_secret_that_is_deleted_stops_no_worker_that_has_read_it_and_is_missed_by_the_next(scene: Scene) -> None:
    begin(scene)
    scene.api.delete(scene.namespace.path("secrets", "db"))
    missing = f"Secret {scene.namespace.name}/db does not exist: create it, or name another one."
    assert scene.until_condition("SecretUnreadable")["message"] == missing
    event = scene.event("SecretUnreadable", missing)
    assert (event["type"], event["regarding"]["kind"], event["regarding"]["name"]) == ("Warning", "WorkQueue", "q")
    scene.controller_logs("queue cannot be worked", missing)
    scene.works()
    scene.worker_is(200, "1 of 1 queues are worked")

    scene.replace_worker()
    scene.enqueue()
    scene.worker_is(503, f"FAIL queues: 0 of 1 queues are worked; {scene.namespace.name}/q: {missing}")
    scene.worker_logs("error survived", missing)
    before = len(scene.backend.received("/q"))
    scene.secret()
    scene.backend.wait(before + 1, path="/q")
    scene.all_is_well()
    assert scene.event("SecretUnreadable", missing)["metadata"]["uid"] == event["metadata"]["uid"], "told once"


def test_a_worker_is_ready_while_it_can_work_one_of_its_queues_and_names_the_others(scene: Scene) -> None:
    scene.secret()
    scene.queue("q")
    scene.queue("lost", database={"secretName": "nowhere", "key": "uri"})
    scene.start()
    scene.works()
    space = scene.namespace.name
    named = f"ok   queues: 1 of 2 queues are worked; {space}/lost: Secret {space}/nowhere does not exist"
    scene.worker_is(200, named)
    scene.until_condition("SecretUnreadable", "lost")
    scene.event("SecretUnreadable", f"Secret {space}/nowhere does not exist")
    scene.secret("nowhere")
    scene.works(queue="lost")
    scene.worker_is(200, "ok   queues: 2 of 2 queues are worked")
    scene.until_condition("Accepted", "lost")


def test_a_queue_whose_deliveries_lack_a_secret_is_named_before_a_row_fails_for_it(scene: Scene) -> None:
    scene.secret()
    token = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "uri"}}}
    http = {"url": scene.backend.url("/q"), "headers": [token]}
    scene.queue("q", deliver={"http": http})
    scene.start()
    missing = f"Secret {scene.namespace.name}/backend does not exist: create it, or name another one."
    assert scene.until_condition("SecretUnreadable")["message"] == missing
    scene.event("SecretUnreadable", missing)
    scene.controller_logs("queue cannot be worked", missing)
    scene.secret("backend")
    scene.works()
    scene.all_is_well()


def test_a_table_that_goes_and_a_grant_that_is_revoked_are_named_until_they_are_back(scene: Scene, role: str) -> None:
    scene.execute(f"CREATE SCHEMA app; {TABLE.ddl}")
    scene.execute(f"GRANT USAGE ON SCHEMA app TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA app TO {role}")
    scene.secret()
    deliver = {"http": {"url": scene.backend.url("/q"), "bodyColumn": "payload"}}
    scene.queue("q", table=dict(TABLE.table), deliver=deliver)
    scene.start()
    add = partial(scene.execute, TABLE.new.format(due="now()", count="1"))
    scene.works(add)
    scene.all_is_well()
    troubles = {
        'ALTER TABLE app."WebhookDelivery" RENAME TO gone': (
            'ALTER TABLE app.gone RENAME TO "WebhookDelivery"',
            "does not exist",
            "there is no table",
        ),
        f'REVOKE UPDATE ON app."WebhookDelivery" FROM {role}': (
            f'GRANT UPDATE ON app."WebhookDelivery" TO {role}',
            "permission denied",
            "Run: GRANT UPDATE",
        ),
    }
    for takes_away, (puts_back, worker_says, controller_says) in troubles.items():
        scene.execute(takes_away)
        scene.worker_is(503, f"0 of 1 queues are worked; {scene.namespace.name}/q: ", worker_says)
        scene.worker_logs("error survived", worker_says)
        unfit = scene.until_condition("TableUnfit")
        scene.event("Invalid", unfit["message"])
        scene.controller_logs("queue cannot be worked", unfit["message"])
        # The first word may be the database's own, until the next look finds the cause.
        assert worker_says in unfit["message"] or controller_says in unfit["message"]
        scene.execute(puts_back)
        scene.works(add)
        scene.all_is_well()


def test_a_grant_on_the_schema_soloist_that_is_revoked_is_named_until_it_is_back(scene: Scene, role: str) -> None:
    begin(scene)
    scene.execute(f"REVOKE UPDATE ON soloist.work_items FROM {role}")
    scene.worker_is(503, "permission denied for table work_items", f"SELECT soloist.allow_work('{role}')")
    scene.worker_logs("error survived", "permission denied for table work_items")
    unfit = scene.until_condition("TableUnfit")
    lacks = f"The role {role} lacks UPDATE ON soloist.work_items. Run, as the owner of the schema soloist: SELECT soloist.allow_work('{role}');"  # fmt: skip
    assert unfit["message"] == lacks
    scene.event("Invalid", lacks)
    scene.controller_logs("queue cannot be worked", lacks)
    scene.execute(f"SELECT soloist.allow_work('{role}')")
    scene.works()
    scene.all_is_well()


def test_a_right_to_read_secrets_that_is_taken_away_is_named_until_it_is_back(scene: Scene) -> None:
    begin(scene)
    for name in ("controller", "worker"):
        scene.may(name, without(granted(f"{name}.yaml"), "secrets"))
    forbidden = 'cannot get resource "secrets"'
    assert forbidden in scene.until_condition("SecretUnreadable")["message"]
    scene.event("SecretUnreadable", forbidden)
    scene.controller_logs("queue cannot be worked", forbidden)
    scene.works()
    scene.replace_worker()
    scene.worker_is(503, f"0 of 1 queues are worked; {scene.namespace.name}/q: ", forbidden)
    scene.worker_logs("error survived", forbidden)
    for name in ("controller", "worker"):
        scene.may(name, granted(f"{name}.yaml"))
    scene.works()
    scene.all_is_well()


def test_a_right_to_see_workqueues_that_is_taken_away_is_named_until_it_is_back(scene: Scene) -> None:
    """Of a worker that lacks it the Event is the kubelet's: its Pod is not ready."""
    for name in ("controller", "worker"):
        scene.may(name, without(granted(f"{name}.yaml"), "workqueues"))
    scene.secret()
    scene.queue("q")
    scene.start()
    forbidden = 'cannot list resource "workqueues"'
    scene.worker_is(503, "FAIL queues: the first list is not through; WorkQueues are not followed: ", forbidden)
    scene.worker_logs("the watch broke; trying again", forbidden)
    scene.event("QueuesUnreadable", forbidden)
    scene.controller_logs("the watch broke; trying again", forbidden)
    scene.controller_is(200, "ok   queues: ", forbidden)
    for name in ("controller", "worker"):
        scene.may(name, without(granted(f"{name}.yaml"), "workqueues", verbs={"watch"}))
    forbidden = 'cannot watch resource "workqueues"'
    scene.works()
    scene.worker_is(200, "1 of 1 queues are worked; WorkQueues are not followed: ", forbidden)
    scene.event("QueuesUnreadable", forbidden)
    for name in ("controller", "worker"):
        scene.may(name, granted(f"{name}.yaml"))
    scene.works()
    scene.all_is_well()
    scene.controller_is(200, "ok   queues: the leader follows them")


@pytest.mark.parametrize("resource", ["jobruns", "leases"])
def test_a_controller_that_lacks_a_right_which_it_needs_to_lead_is_not_ready_and_says_which(
    resource: str, scene: Scene
) -> None:
    rules = granted("controller.yaml")
    verb, reason = {"jobruns": ("list", "RunsUnreadable"), "leases": ("get", "LeaseRefused")}[resource]
    scene.may("controller", without(rules, resource, verbs={verb}))
    job(scene)
    scene.start()
    forbidden = f'cannot {verb} resource "{resource}"'
    scene.controller_is(503, forbidden)
    scene.event(reason, forbidden)
    scene.controller_logs(forbidden)
    assert scene.backend.received("/s") == []
    scene.may("controller", rules)
    goes_on(scene.backend, "/s")
    scene.controller_is(200)


def job(scene: Scene) -> Raw:
    url = scene.backend.url("/s")
    return when_served(lambda: scene.crew.job("sweep", schedule="@every 1s", http={"url": url}))


@pytest.fixture
def apart(
    fresh_control_plane: Callable[..., ControlPlane],
    backend: Backend,
    tmp_path: Path,
    own_queue_database: Database,
    role: str,
) -> Iterator[Scene]:
    """On a cluster of its own, whose kinds can be taken away."""
    cluster = fresh_control_plane()
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "apart"}})
    dsn = own_queue_database.dsn(role)
    made = Scene(Namespace(name="apart", cluster=cluster), backend, tmp_path, own_queue_database, dsn)
    try:
        yield made
    finally:
        made.stop()


def all_is_there(apart: Scene) -> None:
    install_crds(apart.namespace.cluster)
    apart.queue("q")
    job(apart)
    apart.works()
    goes_on(apart.backend, "/s")
    apart.all_is_well()
    apart.controller_is(200)


def test_a_kind_that_is_deleted_is_named_until_it_is_back(apart: Scene) -> None:
    cluster = apart.namespace.cluster
    apart.secret()
    apart.queue("q")
    job(apart)
    apart.start()
    apart.works()
    goes_on(apart.backend, "/s")
    for kind in ("workqueues", "jobruns", "scheduledjobs"):
        cluster.kubectl("delete", "crd", f"{kind}.soloist.dev")
    apart.worker_is(
        503, "there are no queues to work; WorkQueues are not followed: ", "The API server knows no WorkQueues"
    )
    apart.worker_logs("the watch broke; trying again", "The API server knows no WorkQueues")
    apart.event("QueuesUnreadable", "apply manifests/crds/workqueues.yaml")
    apart.controller_is(503, "FAIL cache: 0 jobs are known, and the last list failed: ", "scheduledjobs", "404")
    apart.event("JobsUnreadable", "Apply manifests/crds where the kind is missing")
    apart.event("RunsUnreadable", "Apply manifests/crds where the kind is missing")
    apart.controller_logs("error survived", "relist", "404")
    all_is_there(apart)


def test_a_cluster_without_the_kinds_is_named_from_the_start_until_they_are_there(apart: Scene) -> None:
    cluster = apart.namespace.cluster
    cluster.kubectl("delete", "crd", *(f"{kind}.soloist.dev" for kind in ("workqueues", "jobruns", "scheduledjobs")))
    apart.secret()
    apart.start()
    apart.worker_is(
        503, "the first list is not through; WorkQueues are not followed: The API server knows no WorkQueues"
    )
    apart.controller_is(503, "FAIL cache: the first list is not through: ", "404")
    apart.event("JobsUnreadable", "Apply manifests/crds where the kind is missing")
    apart.controller_logs("error survived", "relist", "404")
    all_is_there(apart)


def test_a_kind_of_an_older_version_is_named_until_that_of_this_one_is_applied(apart: Scene) -> None:
    """The API server drops what its schema does not know, without a word."""
    cluster = apart.namespace.cluster
    older = yaml.safe_load((CRDS / "scheduledjobs.yaml").read_text())
    (version,) = older["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    entry = status["active"]["items"]
    del entry["properties"]["launchTime"]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(older))
    job(apart)
    apart.start()
    cut_short = "The API server does not keep ScheduledJob status.active[].launchTime: apply the CRDs of this version"
    apart.controller_is(503, f"FAIL crds: {cut_short}")
    event = apart.event("CrdsTooOld", cut_short)
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("ScheduledJob", "sweep")
    apart.controller_logs("stands in the way", "CrdsTooOld", cut_short)
    install_crds(cluster)
    goes_on(apart.backend, "/s", 3)
    apart.controller_is(200)
