"""The example sweeps: on either road one instance of three sweeps each slot, whoever is lost, and each item has one webhook, or a
second with the same key where it was in hand when somebody was killed or frozen.

Both roads at the same time, each in a namespace of its own behind a wire of its own, by the commands of the page and the values
of its manifests: only addresses are put in their place, and two seconds in place of five minutes.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.adoption.backend_process import EXAMPLES, BackendProcess
from tests.adoption.page import Reader, steps
from tests.adoption.service import Service
from tests.adoption.sweep_roads import INSTANCES, ByElection, ByEndpoint, instance, pod
from tests.adoption.sweeping import PERIOD, SWEEPS, Road, Story
from tests.adoption.valkey import valkey
from tests.api.crew import Crew
from tests.api.elect_pods import EXAMPLES as OF_THE_PAGE
from tests.api.elect_pods import Pod
from tests.cluster.backend import Backend, Received
from tests.cluster.children import Child, until
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import Namespace
from tests.cluster.proxy import TcpProxy

pytestmark = [pytest.mark.cluster, pytest.mark.adoption, pytest.mark.slow]

OUTAGE = 30.0
ROADS = ("a", "b")
LOOK = {"a": 6, "b": 9}
"""The step of the page at which its reader looks what came of it."""
NEAR = timedelta(seconds=2)


@pytest.fixture(scope="module")
def stories(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Story]]:
    """Both, over."""
    folder = tmp_path_factory.mktemp("sweeps")
    with ExitStack() as stack:
        receiver = stack.enter_context(Backend(folder / "receiver"))
        redis = stack.enter_context(valkey(folder))
        sites = {name: _site(name, control_plane, folder, stack, redis, receiver) for name in ROADS}
        roads: list[Road] = [_by_endpoint(sites["a"], stack), _by_election(sites["b"], stack)]
        told = {road.name: Story(road, receiver, sites[road.name].redis) for road in roads}
        with ThreadPoolExecutor(len(ROADS)) as pool:
            for future in [pool.submit(story.run, OUTAGE) for story in told.values()]:
                future.result()
        for name, story in told.items():
            story.looked, story.steps = sites[name].reader.do(LOOK[name]), sites[name].reader.done
        yield told


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A reader of the page with a namespace, a Service, a wire to the API server and a database of Redis."""

    reader: Reader
    namespace: Namespace
    service: Service
    wire: TcpProxy
    redis: str
    folder: Path


def _site(road: str, cluster: ControlPlane, folder: Path, stack: ExitStack, redis: str, receiver: Backend) -> Site:
    """The reader has put own addresses, and shorter times, into the files."""
    namespace = Namespace(name=f"t-sweeps-{road}-{uuid.uuid4().hex[:8]}", cluster=cluster)
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": namespace.name}})
    service, database = stack.enter_context(Service()), f"{redis}/{ROADS.index(road)}"
    put = {
        "@every 5m": "@every 2s",
        "timeoutSeconds: 270": "timeoutSeconds: 3",
        "value: 300s": "value: 2s",
        "redis://redis:6379": database,
        "http://hooks:8080": receiver.url(f"/{road}"),
    }
    return Site(
        reader=Reader("sweeps", folder / road, namespace, put=put, BACKEND=service.url),
        namespace=namespace,
        service=service,
        wire=stack.enter_context(TcpProxy(cluster.port)),
        redis=database,
        folder=folder / road,
    )


def _by_endpoint(site: Site, stack: ExitStack) -> ByEndpoint:
    site.reader.do(3)
    site.reader.do(4)
    secret = site.namespace.api.get(site.namespace.path("secrets", "backend-sweeps"))
    token = b64decode(secret["data"]["token"]).decode()
    made = {name: instance(site.reader, "backend.yaml", name, site.folder, INTERNAL_TOKEN=token) for name in INSTANCES}
    site.service.stands_for([each.port for each in made.values()])
    crew = Crew(site.namespace.cluster, site.namespace, site.folder, server=site.wire.server)
    road = ByEndpoint(crew, site.wire, made)
    stack.callback(_told, [each.child for each in made.values()])
    stack.callback(road.stop)
    road.start()
    site.reader.do(5)
    return road


def _by_election(site: Site, stack: ExitStack) -> ByElection:
    site.reader.do(7)
    site.reader.do(8)
    token = site.namespace.cluster.service_account_token(site.namespace.name, "backend")
    config = site.namespace.cluster.kubeconfig(
        site.folder / "kubeconfig", user="backend", token=token, server=site.wire.server
    )
    made = {name: pod(site.reader, site.namespace.name, name, site.folder, config) for name in INSTANCES}
    road = ByElection(
        site.namespace,
        site.wire,
        {name: each for name, (each, _) in made.items()},
        {name: app for name, (_, app) in made.items()},
    )
    stack.callback(_told, [child for each, _ in made.values() for child in (each.sidecar, each.app)])
    stack.callback(road.stop)
    road.start()
    return road


def _told(children: list[Child]) -> None:
    for child in children:
        print(f"---- end of {child.log}\n{child.tail(30)}")


@pytest.fixture(params=ROADS)
def story(request: pytest.FixtureRequest, stories: dict[str, Story]) -> Story:
    return stories[request.param]


def test_no_slot_is_swept_twice(story: Story) -> None:
    counted = Counter((each.sweep, each.slot) for each in story.began())
    assert {slot: count for slot, count in counted.items() if count > 1} == {}
    for sweep in SWEEPS:
        assert len([each for each in counted if each[0] == sweep]) >= 20


def test_no_slot_is_swept_before_its_time(story: Story) -> None:
    assert [each for each in story.began() if each.at < each.slot - timedelta(milliseconds=50)] == []


def test_slots_that_were_not_swept_have_a_reason(story: Story) -> None:
    assert story.without_reason == []


def test_more_than_one_instance_swept(story: Story) -> None:
    """At each loss the story waited until another than the lost one had swept two slots of each sweep."""
    assert len({each.by for each in story.began()}) >= 2


def test_each_item_has_one_webhook_but_for_what_was_in_hand_at_a_kill_or_a_freeze(story: Story) -> None:
    """By its key. Whoever was killed or frozen, three times in all, had one in hand, which alone is sent again, with that key."""
    for sweep in SWEEPS:
        sent: dict[str, list[Received]] = {}
        for seen in story.webhooks(sweep):
            sent.setdefault(str(seen.header("Idempotency-Key")), []).append(seen)
        assert set(sent) == {f"{sweep}/{item}" for item in story.fed}
        again = {key: times for key, times in sent.items() if len(times) > 1}
        assert len(again) <= 3, "one for each that was killed or frozen"
        for key, times in again.items():
            assert len(times) == 2, key
            assert any(abs(seen.at - moment) < NEAR for seen in times for moment in story.hard), key
            assert {json.loads(seen.body)["id"] for seen in times} == {key.split("/")[1]}


def test_nothing_is_swept_while_the_api_server_is_away(story: Story) -> None:
    """But for the slot that was on record when it went."""
    assert [each for each in story.began() if story.gone + PERIOD < each.slot < story.back - PERIOD] == []
    assert story.back - story.gone >= timedelta(seconds=OUTAGE)


def test_the_page_was_followed_and_shows_what_came_of_it(stories: dict[str, Story]) -> None:
    done = [number for name in ROADS for number in stories[name].steps]
    assert done == [step.number for step in steps(EXAMPLES / "sweeps" / "README.md") if step.commands]
    for sweep in SWEEPS:
        assert sweep in stories["a"].looked
        assert sweep in stories["b"].looked
    assert "NoHolder" in stories["b"].looked


def test_those_without_the_turn_say_why(stories: dict[str, Story]) -> None:
    assert {"NotHolder", "NotRecorded"} <= stories["b"].passed()


def test_the_client_is_that_of_the_page() -> None:
    assert (EXAMPLES / "sweeps" / "backend" / "src" / "tick.ts").read_text(encoding="utf-8") == OF_THE_PAGE["ts-client"]


def test_a_backend_that_is_told_no_road_does_not_start(tmp_path: Path) -> None:
    backend = BackendProcess("sweeps", "untold", tmp_path, program="dist/main.js", WEBHOOK_URL="http://127.0.0.1:9")
    backend.start(ready=False)
    until(lambda: not backend.child.alive(), what="it has ended", timeout=60)
    assert 'SWEEPS is "": write endpoint (' in backend.log()
    assert "Without it every instance would sweep." in backend.log()


def test_instances_whose_sidecars_are_told_no_lease_do_not_sweep(tmp_path: Path) -> None:
    """The sidecar is refused with the sentence, and the application beside it takes that for a no."""
    with valkey(tmp_path) as redis:
        backend = BackendProcess(
            "sweeps", "stranger", tmp_path, program="dist/main.js", SWEEPS="elect", SWEEP_EVERY="2s", REDIS_URL=redis,
            WEBHOOK_URL="http://127.0.0.1:9", SOLOIST_SIDECAR="http://127.0.0.1:9",
        )  # fmt: skip
        sidecar = Pod("stranger-sidecar", tmp_path, tmp_path, {"SOLOIST_LEASE": ""}).sidecar
        sidecar.start()
        backend.start()
        try:
            until(lambda: not sidecar.alive(), what="the sidecar has ended", timeout=60)
            until(lambda: backend.said("Unreachable"), what="it is told nothing", timeout=60)
        finally:
            backend.kill()
            sidecar.stop()
    assert "no Lease is named: write --lease NAME or SOLOIST_LEASE" in sidecar.tail()
    assert backend.said("began") == []
