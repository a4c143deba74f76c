"""The payroll of manifests/examples as Pods, by its page: a worker, and then every backend, is killed between a payment and its record.

Of the page's fourth step, `kubectl apply -k` over the plain installation, only what is the payroll's own is done (rights.yaml): the
node has Soloist by the chart already, and two installations would work one queue. tests/adoption/test_payroll.py does all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.page import Reader
from tests.adoption.payroll_books import Schedules, middle
from tests.adoption.payroll_stage import SECONDS, TOKEN
from tests.cluster.children import until
from tests.cluster.fixtures import Namespace
from tests.e2e.backend_image import backend_archive
from tests.e2e.site import NAMESPACE, PATIENCE, RESTRICTED, Site

SPACE, PORT = "payroll", 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Payroll:
    """The page's reader, once the queue is resumed, and the schedules."""

    reader: Reader
    schedules: Schedules


@pytest.fixture
def payroll(site: Site, tmp_path: Path) -> Iterator[Payroll]:
    """Worked by the workers of the release and two Pods of the backend."""
    archive, tag = backend_archive("payroll")
    site.node.load(archive)
    place = site.postgres.create_database("payroll")
    role = site.postgres.role("soloist_payroll")
    site.backend.rule("/payments", delay=0.2)
    at, api = f"{site.node.address}:{site.postgres.port}/{place.name}", site.node.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": RESTRICTED}})
    reader = Reader(
        "payroll",
        tmp_path,
        Namespace(name=SPACE, cluster=site.node),
        put=SECONDS,
        DATABASE_URL=f"postgresql://postgres@{at}",
        SOLOIST_DATABASE_URL=f"postgresql://{role}@{at}",
        INTERNAL_TOKEN=TOKEN,
    )
    made = Payroll(reader=reader, schedules=Schedules(place, site.backend))
    reader.do(3)
    site.node.kubectl("apply", "-f", reader.example / "rights.yaml")
    said = reader.do(5)
    assert "Nothing stops the queue but spec.suspend: true." in said, said
    deployed(site, deployment(tag, reader.env["DATABASE_URL"], site.backend.url("/payments")))
    reader.do(6)
    yield made
    site.node.kubectl("delete", "namespace", SPACE, "--wait=false")


def deployed(site: Site, backend: dict[str, Any]) -> None:
    """The reader's own backend, of which the page has no file: without its timer, behind a Service of that name."""
    api = site.node.api()
    api.create(f"/apis/apps/v1/namespaces/{SPACE}/deployments", backend)
    ports = [{"port": 80, "targetPort": PORT}]
    service = {"metadata": {"name": "payroll"}, "spec": {"selector": {"app": "payroll"}, "ports": ports}}
    api.create(f"/api/v1/namespaces/{SPACE}/services", service)
    site.node.kubectl("-n", SPACE, "rollout", "status", "deployment/payroll", "--timeout=120s")


def deployment(image: str, url: str, payments: str) -> dict[str, Any]:
    container = {
        "name": "payroll",
        "image": image,
        "imagePullPolicy": "Never",
        "env": [
            {"name": "PORT", "value": str(PORT)},
            {"name": "DATABASE_URL", "value": url},
            {"name": "PAYMENTS_URL", "value": payments},
            {"name": "INTERNAL_TOKEN", "value": TOKEN},
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    nobody = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    labels = {"app": "payroll"}
    pod = {"metadata": {"labels": labels}, "spec": {"securityContext": nobody, "containers": [container]}}
    return {"metadata": {"name": "payroll"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}}  # fmt: skip


def test_nothing_is_paid_twice_and_what_nobody_knows_is_held(site: Site, payroll: Payroll) -> None:
    schedules = payroll.schedules
    ids = schedules.add(60, stuck={"delay": 5})
    outlived = middle(ids)
    schedules.until_paid(outlived)
    site.node.kill(NAMESPACE, schedules.worker_of(outlived))
    until(lambda: schedules.is_recorded(outlived), what="the backend has recorded it", timeout=PATIENCE)
    ids += schedules.add(40, stuck={"hang": True})
    broken_off = middle(ids[60:])
    schedules.until_paid(broken_off)
    for pod in site.node.api().items(f"/api/v1/namespaces/{SPACE}/pods"):
        site.node.kill(SPACE, pod["metadata"]["name"])
    books = schedules.until_settled(ids)
    held = {schedule for schedule, _ in books.held}
    site.tell(f"payroll: {len(books.due)} due, {len(books.recorded)} recorded, {len(held)} held")
    assert len(books.recorded) + len(held) == len(books.due) == 100
    assert broken_off in held
    assert outlived not in held
    assert "Interrupted" in payroll.reader.do(7, only="queue dead")
    letters = payroll.reader.said("queue", "dead", "payroll", "-n", SPACE, "--limit", "1000")["letters"]
    listed = {(int(letter["row"][0]), letter["reason"]) for letter in letters}
    assert listed == {(schedule, reason) for (schedule, _), reason in books.held.items()}
    site.wait_ready("worker", 2)
