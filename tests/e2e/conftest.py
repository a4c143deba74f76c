"""The site of the scenes, made once. Scenes are not collected by `make test`: `make e2e` names their files."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import kind
from tests.cluster.backend import Backend
from tests.cluster.kind import Kind
from tests.cluster.node import Node
from tests.cluster.versions import Unavailable
from tests.e2e.image import build
from tests.e2e.site import EVERY_SECOND, NAMESPACE, QUEUE, Site
from tests.postgres.server import Postgres


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        node: Node | Kind = Kind() if kind.is_possible() else Node()
        image = build()
    except Unavailable as reason:
        pytest.skip(f"no real node here: {reason}")
    folder: Path = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        stack.enter_context(node)
        backend = stack.enter_context(Backend(folder / "backend", address=node.address))
        postgres = stack.enter_context(Postgres(settings={"listen_addresses": f"127.0.0.1,{node.address}"}))
        node.load(image.archive)
        if isinstance(node, Kind):
            node.make_autoscalers_quick()
        let_pods_in(postgres, node.networks)
        made = Site(node=node, backend=backend, postgres=postgres, image=image)
        try:
            made.install()
            made.make("ScheduledJob", "scheduledjobs", EVERY_SECOND, every_second(backend))
            made.make("WorkQueue", "workqueues", QUEUE, webhooks(backend))
            yield made
        finally:
            print("\n" + "\n".join(made.told))
            keep_logs(made)


def let_pods_in(postgres: Postgres, networks: Sequence[str]) -> None:
    with (postgres.data / "pg_hba.conf").open("a") as rules:
        rules.writelines(f"host all all {network} trust\n" for network in networks)
    os.kill(postgres.postmaster.pid, signal.SIGHUP)


def every_second(backend: Backend) -> dict[str, object]:
    http = {"url": backend.url(f"/{EVERY_SECOND}"), "method": "POST"}
    return {"schedule": "@every 1s", "concurrencyPolicy": "Allow", "missedRunPolicy": "RunAll", "maxMissedRuns": 100, "http": http}  # fmt: skip


def webhooks(backend: Backend) -> dict[str, object]:
    http = {"url": backend.url(f"/{QUEUE}"), "timeoutSeconds": 10}
    return {"database": {"secretName": "backend-db", "key": "uri"}, "deliver": {"http": http}}


def keep_logs(site: Site) -> None:
    """Of the Pods, for whoever asks why a scene went wrong."""
    for component in ("controller", "worker"):
        for pod in site.pods_of(component):
            name = pod["metadata"]["name"]
            try:
                log = site.node.kubectl("-n", NAMESPACE, "logs", name, "--all-containers")
            except subprocess.CalledProcessError as failed:
                log = "\n".join(failed.__notes__)
            (site.node.directory / f"{name}.log").write_text(log)
