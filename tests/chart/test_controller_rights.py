"""The rights of a controller, as the chart grants them, taken away one after the other: each is missed, in words, and is enough again once given back.

Those that are missed by different things are taken away together; whoever reads what failed finds each in its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from tests.chart.controllers import Right, Stage, granted, rights_of
from tests.cluster.backend import Backend
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import CONFLICT
from tests.cluster.fixtures import install_crds
from tests.cluster.https_proxy import HttpsProxy
from tests.cluster.metrics_page import series
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Sign = Callable[[Stage, Right], bool]
OURS = "soloist.dev"
JOBS, RUNS, QUEUES = (OURS, "scheduledjobs"), (OURS, "jobruns"), (OURS, "workqueues")
BATCH, LEASES, PODS, EVENTS = ("batch", "jobs"), ("coordination.k8s.io", "leases"), ("", "pods"), ("events.k8s.io", "events")  # fmt: skip


def in_the_servers_words(right: Right) -> str:
    resource, _, part = right[1].partition("/")
    return f'cannot {right[2]} resource "{resource}{"/" if part else ""}{part}"'


def logged(stage: Stage, right: Right) -> bool:
    return in_the_servers_words(right) in stage.said().replace('\\"', '"')


def watch_refused(stage: Stage, right: Right) -> bool:
    """The watches beside the elector are told of by their path."""
    return any(
        f"/{right[1]}?watch=1" in line and "grant the right to watch it" in line for line in stage.said().splitlines()
    )


def failed(job: str) -> Sign:
    """A run of it ended Failed and says so."""

    def sign(stage: Stage, right: Right) -> bool:
        return any(
            status["phase"] == "Failed" and in_the_servers_words(right) in status.get("message", "")
            for status in stage.ended_runs(job)
        )

    sign.__name__ = f"{job} fails"
    return sign


def dropped(stage: Stage, right: Right) -> bool:
    """Events that nobody was told of are counted."""
    pages = [member.metrics() for member in stage.crew.members.values()]
    return any(value > 0 for page in pages for value in series(page, "soloist_errors_total", where="event dropped"))


def logged_as_runs_are_deleted(stage: Stage, right: Right) -> bool:
    """Their Jobs are to be stopped. Whoever collects garbage may be the first to delete one: then there is a next one."""
    api = stage.cluster.api()
    for job in api.items(stage.work.path("jobs", group="batch")):
        run = stage.work.ours("jobruns", job["metadata"]["name"])
        if not job["spec"].get("suspend") and api.find(run) is not None:
            api.delete(run)
    return logged(stage, right)


def cut(stage: Stage) -> None:
    stage.wire.cut()


def forestalled(stage: Stage) -> None:
    for method, kind in (("PUT", "scheduledjobs"), ("PATCH", "jobruns")):
        stage.proxy.on(method, rf"/{kind}/[^/]*/status$", CONFLICT, times=20)


def the_lease_is_deleted(stage: Stage) -> None:
    stage.home.api.delete(stage.home.path("leases", "soloist", group=LEASES[0]))


def nothing(_stage: Stage) -> None:
    """They use it all the time."""


@dataclass(frozen=True)
class Scene:
    """What is done once the rights are gone, and for each of them by what it is missed."""

    then: Callable[[Stage], None]
    missed: dict[Right, Sign]


SCENES = {
    "what a term begins with": Scene(
        Stage.anew,
        {
            ("", "secrets", "get"): failed("token"),
            ("", "configmaps", "get"): failed("ca"),
            (*BATCH, "create"): failed("report"),
            (*PODS, "get"): logged,
            (*RUNS, "delete"): logged,
            (*QUEUES[:1], "workqueues/status", "patch"): logged,
            (*EVENTS, "create"): dropped,
        },
    ),
    "what a database is known by": Scene(
        Stage.anew,
        {
            ("", "namespaces", "get"): failed("expire"),
            (*QUEUES, "get"): failed("digest"),
            (*BATCH, "patch"): failed("report"),
            (*EVENTS, "patch"): dropped,
        },
    ),
    "watches": Scene(
        cut,
        {
            (*JOBS, "watch"): logged,
            (*RUNS, "watch"): logged,
            (*QUEUES, "watch"): logged,
            (*BATCH, "watch"): logged,
            (*LEASES, "watch"): watch_refused,
            (*PODS, "watch"): watch_refused,
        },
    ),
    "the list of jobs": Scene(Stage.anew, {(*JOBS, "list"): logged}),
    "the list of runs": Scene(Stage.anew, {(*RUNS, "list"): logged}),
    "the lists of queues and Jobs": Scene(Stage.anew, {(*QUEUES, "list"): logged, (*BATCH, "list"): logged}),
    "what others wrote to": Scene(forestalled, {(*JOBS, "get"): logged, (*RUNS, "get"): logged}),
    "to look for a Job": Scene(nothing, {(*BATCH, "get"): logged_as_runs_are_deleted}),
    "to stop a Job": Scene(nothing, {(*BATCH, "delete"): logged_as_runs_are_deleted}),
    "to make runs": Scene(nothing, {(*RUNS, "create"): logged}),
    "to record": Scene(nothing, {(OURS, "scheduledjobs/status", "update"): logged}),
    "to tell of a run": Scene(nothing, {(OURS, "jobruns/status", "patch"): logged}),
    "to read the Lease": Scene(Stage.anew, {(*LEASES, "get"): logged}),
    "to renew the Lease": Scene(nothing, {(*LEASES, "update"): logged}),
    "to make the Lease": Scene(the_lease_is_deleted, {(*LEASES, "create"): logged}),
}


@pytest.fixture(scope="module")
def stage(
    cluster_binaries: None, postgres: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("controller-rights")
    database = postgres.create_database("controller_rights", template=migrated_template)
    with (
        ControlPlane() as cluster,
        Backend(folder) as backend,
        HttpsProxy(target=cluster.port, authority=cluster.authority) as proxy,
        TcpProxy(proxy.port) as wire,
    ):
        install_crds(cluster)
        made = Stage(cluster, backend, proxy, wire, folder)
        made.fill(database.dsn())
        made.anew()
        yield made
        made.crew.stop()
    for member in made.crew.members.values():
        print(f"---- log of {member.name}\n{member.log()[-6000:]}")
    postgres.drop_database(database.name)


def test_every_right_that_the_chart_grants_is_taken_away_in_one_scene() -> None:
    tried = [right for scene in SCENES.values() for right in scene.missed]
    assert len(tried) == len({*tried})
    assert {*tried} == set().union(*map(rights_of, granted()))


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_a_right_that_is_taken_away_is_missed_in_words_and_given_back_is_enough(name: str, stage: Stage) -> None:
    scene = SCENES[name]
    stage.well()
    stage.take(scene.missed.keys())
    try:
        scene.then(stage)
        for right, sign in scene.missed.items():
            stage.crew.wait(partial(sign, stage, right), what=f"{right} is missed", timeout=120)
    finally:
        stage.proxy.clear()
        stage.give_back()
    stage.well()
