"""The payroll of manifests/examples as Pods: a worker, and then every backend, is killed between a payment and its record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.adoption.backend_process import EXAMPLES
from tests.adoption.payroll_books import Schedules, middle
from tests.adoption.payroll_stage import SECONDS
from tests.cluster.children import until
from tests.e2e.backend_image import backend_archive
from tests.e2e.site import NAMESPACE, PATIENCE, RESTRICTED, Site

HERE, PORT = EXAMPLES / "payroll", 8080
PUT = {"suspend: true": "suspend: false", **SECONDS}


@pytest.fixture
def schedules(site: Site) -> Iterator[Schedules]:
    """Worked by the workers of the release and two Pods of the backend."""
    archive, tag = backend_archive("payroll")
    site.node.load(archive)
    place = site.postgres.create_database("payroll")
    migrate(place.dsn())
    made = Schedules(place, site.backend)
    site.backend.rule("/payments", delay=0.2)
    api, url = site.node.api(), f"{site.dsn().rpartition('/')[0]}/payroll"
    api.create("/api/v1/namespaces", {"metadata": {"name": "payroll", "labels": RESTRICTED}})
    secret = {"uri": url, "authorization": "Bearer of-the-scene", "token": "of-the-scene"}
    api.create("/api/v1/namespaces/payroll/secrets", {"metadata": {"name": "soloist-payroll"}, "stringData": secret})
    site.node.kubectl("apply", "-f", HERE / "rights.yaml")
    api.create("/apis/apps/v1/namespaces/payroll/deployments", deployment(tag, url, site.backend.url("/payments")))
    ports = [{"port": 80, "targetPort": PORT}]
    service = {"metadata": {"name": "payroll"}, "spec": {"selector": {"app": "payroll"}, "ports": ports}}
    api.create("/api/v1/namespaces/payroll/services", service)
    site.node.kubectl("-n", "payroll", "rollout", "status", "deployment/payroll", "--timeout=120s")
    queue = (HERE / "workqueue.yaml").read_text(encoding="utf-8")
    for written, here in PUT.items():
        assert written in queue
        queue = queue.replace(written, here)
    site.node.kubectl("apply", "-f", "-", stdin=queue)
    yield made
    site.node.kubectl("delete", "namespace", "payroll", "--wait=false")


def deployment(image: str, url: str, payments: str) -> dict[str, Any]:
    token = {"secretKeyRef": {"name": "soloist-payroll", "key": "token"}}
    container = {
        "name": "payroll",
        "image": image,
        "imagePullPolicy": "Never",
        "env": [
            {"name": "PORT", "value": str(PORT)},
            {"name": "DATABASE_URL", "value": url},
            {"name": "PAYMENTS_URL", "value": payments},
            {"name": "INTERNAL_TOKEN", "valueFrom": token},
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    nobody = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    labels = {"app": "payroll"}
    pod = {"metadata": {"labels": labels}, "spec": {"securityContext": nobody, "containers": [container]}}
    return {"metadata": {"name": "payroll"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}}  # fmt: skip


def test_nothing_is_paid_twice_and_what_nobody_knows_is_held(site: Site, schedules: Schedules) -> None:
    ids = schedules.add(60, stuck={"delay": 5})
    outlived = middle(ids)
    schedules.until_paid(outlived)
    site.node.kill(NAMESPACE, schedules.worker_of(outlived))
    until(lambda: schedules.is_recorded(outlived), what="the backend has recorded it", timeout=PATIENCE)
    ids += schedules.add(40, stuck={"hang": True})
    broken_off = middle(ids[60:])
    schedules.until_paid(broken_off)
    for pod in site.node.api().items("/api/v1/namespaces/payroll/pods"):
        site.node.kill("payroll", pod["metadata"]["name"])
    books = schedules.until_settled(ids)
    held = {schedule for schedule, _ in books.held}
    site.tell(f"payroll: {len(books.due)} due, {len(books.recorded)} recorded, {len(held)} held")
    assert len(books.recorded) + len(held) == len(books.due) == 100
    assert broken_off in held
    assert outlived not in held
    site.wait_ready("worker", 2)
