"""The probes answer what the checks say."""

import asyncio
from collections.abc import Mapping

import aiohttp
from prometheus_client import CollectorRegistry, Gauge

from soloist.shells.health import Check, health_server


def ask(path: str, *, alive: Mapping[str, Check], ready: Mapping[str, Check]) -> tuple[int, str, str]:
    registry = CollectorRegistry()
    Gauge("soloist_leader", "…", registry=registry).set(1)

    async def asked() -> tuple[int, str, str]:
        async with health_server(address="127.0.0.1", port=0, alive=alive, ready=ready, registry=registry) as port:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as reply:
                return reply.status, reply.headers["Content-Type"], await reply.text()

    return asyncio.run(asked())


def well() -> tuple[bool, str]:
    return True, "the watch spoke 1 s ago"


def unwell() -> tuple[bool, str]:
    return False, "no list of ScheduledJobs yet"


def failing() -> tuple[bool, str]:
    raise KeyError("x")


def test_a_probe_says_each_check_with_its_sentence() -> None:
    status, _, text = ask("/healthz", alive={"watch": well}, ready={"list": unwell})
    assert (status, text) == (200, "ok   watch: the watch spoke 1 s ago\nok\n")
    status, _, text = ask("/readyz", alive={}, ready={"watch": well, "list": unwell})
    assert status == 503
    assert "FAIL list: no list of ScheduledJobs yet\nnot ok" in text


def test_a_check_that_fails_is_unwell() -> None:
    status, _, text = ask("/healthz", alive={"x": failing}, ready={})
    assert status == 503
    assert "KeyError" in text


def test_metrics_are_exposed_as_prometheus_reads_them() -> None:
    status, content_type, text = ask("/metrics", alive={}, ready={})
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert "soloist_leader 1.0" in text
