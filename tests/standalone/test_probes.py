"""/healthz, /readyz and /metrics where there is no cluster: of a standalone process, and of an elector on a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.api.elect_pods import Pod, holder
from tests.cluster.children import until
from tests.cluster.health_pages import asked
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database
from tests.standalone.crew import STEADY, Crew
from tests.standalone.test_refusals import grant_in

pytestmark = pytest.mark.slow
SOON = 120.0


def heard(crew: Crew, name: str, page: str = "/readyz") -> tuple[int, str]:
    """Of its present life: one that lost its term on a busy machine is started again, on another port."""
    started = crew.said(name, "started")
    return asked(started[-1]["health_port"], page) if started else (0, "")


def answers(pod: Pod, code: int, says: str) -> bool:
    status, text = asked(pod.health, "/readyz")
    return status == code and says in text


def test_a_standalone_process_is_ready_whatever_is_wrong_with_its_files_and_says_what_that_is(crew: Crew) -> None:
    crew.env = dict(STEADY)
    crew.write("jobs.yaml", crew.job("sweep", schedule="@every 1s"))
    crew.write("jobs.yaml", crew.job("other", schedule="@every 1s"), folder="others")
    crew.env = {}  # at the default lease, which a busy machine does not take from its leader
    crew.ready("a")
    crew.start("b", folder="others")
    for name in ("a", "b"):
        for page in ("/readyz", "/healthz"):
            until(lambda name=name, page=page: heard(crew, name, page)[0] == 200, what=f"{name}: {page}", timeout=SOON)
    for says in ("every process with this database is a replica", "the files here are others: give both the same"):
        until(lambda says=says: says in heard(crew, "a")[1] + heard(crew, "b")[1], what=says, timeout=SOON)
    (crew.files / "jobs.yaml").write_text("half: [a")

    def ready_and_says_so() -> bool:
        code, text = heard(crew, "a")
        return code == 200 and "cannot be read as YAML" in text

    until(ready_and_says_so, what="a is ready, and says that its file is broken", timeout=SOON)


def test_an_elector_says_what_its_database_lacks_and_leads_once_it_is_there(
    own_queue_database: Database, tmp_path: Path
) -> None:
    role = own_queue_database.server.role("elects_by_row")
    env = {"SOLOIST_DATABASE": own_queue_database.dsn(role), "SOLOIST_HEALTH": "", "KUBECONFIG": "/none"}
    pod = Pod("a", tmp_path, tmp_path / "none.js", env, arguments=("--lease", "sweep"))
    own_queue_database.psql("DROP SCHEMA soloist CASCADE")
    pod.sidecar.start()
    try:
        for says, then in {
            "soloist migrate": lambda: migrate(own_queue_database.dsn()),
            "permission denied for schema soloist": lambda: own_queue_database.psql(grant_in(asked(pod.health)[1])),
        }.items():
            until(lambda says=says: answers(pod, 503, says), what=f"/readyz says {says}", timeout=SOON)
            until(lambda says=says: says in pod.sidecar.log.read_text(), what=f"the log says {says}", timeout=SOON)
            then()
        until(lambda: answers(pod, 200, "ok   sweep: read "), what="it is ready", timeout=SOON)
        assert holder([pod]) is pod
        own_queue_database.psql(f"REVOKE UPDATE ON soloist.leases FROM {role}")
        until(lambda: answers(pod, 503, "permission denied for table leases"), what="it says so", timeout=SOON)
        own_queue_database.psql(grant_in(asked(pod.health)[1]))
        until(lambda: answers(pod, 200, "ok   sweep: read "), what="it is ready again", timeout=SOON)
        assert holder([pod]) is pod
    finally:
        pod.stop()
        own_queue_database.psql(f"DROP OWNED BY {role}")
        print(f"---- log of {pod.name}\n{pod.sidecar.tail(40)}")


def test_an_elector_is_ready_while_it_can_read_its_row_and_tells_whether_it_holds_it(
    own_queue_database: Database, tmp_path: Path
) -> None:
    with TcpProxy(own_queue_database.server.port) as wire:
        dsn = own_queue_database.dsn(port=wire.port)
        env = {"SOLOIST_DATABASE": dsn, "SOLOIST_HEALTH": "", "KUBECONFIG": "/none"}
        pod = Pod("a", tmp_path, tmp_path / "none.js", env, arguments=("--lease", "sweep"))
        pod.sidecar.start()
        try:
            for held in (1, 0, 1):
                (wire.forward if held else wire.refuse)()
                wire.cut()
                told = f'soloist_elect_holds{{lease="sweep"}} {held}.0'
                until(lambda told=told: told in asked(pod.health, "/metrics")[1], what=told, timeout=SOON)
                code, says = (200, "ok   sweep: read ") if held else (503, "FAIL sweep: ")
                until(lambda code=code, says=says: answers(pod, code, says), what=f"/readyz: {code}", timeout=SOON)
                until(lambda: asked(pod.health, "/healthz")[0] == 200, what="it lives", timeout=SOON)
            assert holder([pod]) is pod
        finally:
            pod.stop()
            print(f"---- log of {pod.name}\n{pod.sidecar.tail(40)}")
