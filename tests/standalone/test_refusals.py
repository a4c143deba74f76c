"""A database that refuses: what is said of it leads to one that does not, and whoever waits for it goes on by itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from soloist.adapters.postgres.migrate import migrate
from soloist.shells.standalone_place import StandalonePlace
from soloist.shells.standalone_settings import load
from tests.api.elect_pods import Pod, holder
from tests.cluster.children import until
from tests.cluster.free_ports import free_ports
from tests.cluster.health_pages import asked
from tests.cluster.proxy import TcpProxy
from tests.postgres.server import Database, Postgres
from tests.standalone.crew import Crew

pytestmark = pytest.mark.slow
SOON = 120.0
GRANT = re.compile(r"Grant it: (SELECT soloist\.allow_standalone\('\w+'\)) ")
CORRECT = "Correct --database (SOLOIST_DATABASE) if that is not on its way."
SECRET = "sesame-opens-it"


def grant_in(text: str) -> str:
    """The statement that a sentence names."""
    found = GRANT.search(" ".join(text.split()))
    return found[1] if found else ""


def test_a_standalone_process_without_any_grant_ends_with_the_statement_that_it_needs(
    crew: Crew, own_queue_database: Database
) -> None:
    role = own_queue_database.server.role("stands_alone")
    crew.url = own_queue_database.dsn(role)
    member = crew.start("a")
    until(lambda: not member.process.alive(), what="it ends", timeout=SOON)
    assert "permission denied for schema soloist" in member.log()
    assert grant_in(member.log()) == f"SELECT soloist.allow_standalone('{role}')"
    own_queue_database.psql(grant_in(member.log()))
    crew.ready("a")
    assert crew.leader().name == "a"
    own_queue_database.psql(f"DROP OWNED BY {role}")


def test_a_standalone_process_that_may_work_rows_only_goes_on_by_the_statement_that_it_names(
    crew: Crew, own_queue_database: Database
) -> None:
    role = own_queue_database.server.role("stands_alone")
    own_queue_database.psql(f"SELECT soloist.allow_work('{role}')")
    crew.url, port = own_queue_database.dsn(role), free_ports(1)[0]
    crew.start("a", SOLOIST_HEALTH_PORT=str(port))
    until(lambda: "permission denied for table objects" in asked(port)[1], what="/readyz says so", timeout=SOON)
    code, text = asked(port)
    assert (code, grant_in(text)) == (503, f"SELECT soloist.allow_standalone('{role}')")
    own_queue_database.psql(grant_in(text))
    until(lambda: asked(port)[0] == 200, what="it is ready", timeout=SOON)
    assert crew.leader().name == "a"
    own_queue_database.psql(f"DROP OWNED BY {role}")


def test_an_elector_that_may_work_rows_only_leads_by_the_statement_that_it_names(
    own_queue_database: Database, tmp_path: Path
) -> None:
    role = own_queue_database.server.role("elects_alone")
    own_queue_database.psql(f"SELECT soloist.allow_work('{role}')")
    env = {"SOLOIST_DATABASE": own_queue_database.dsn(role), "SOLOIST_HEALTH": "", "KUBECONFIG": "/none"}
    pod = Pod("a", tmp_path, tmp_path / "none.js", env, arguments=("--lease", "sweep"))
    pod.sidecar.start()
    try:
        until(lambda: "permission denied for table leases" in asked(pod.health)[1], what="it says so", timeout=SOON)
        statement = grant_in(asked(pod.health)[1])
        assert statement == f"SELECT soloist.allow_standalone('{role}')"
        own_queue_database.psql(statement)
        assert holder([pod]) is pod
    finally:
        pod.stop()
        own_queue_database.psql(f"DROP OWNED BY {role}")
        print(f"---- log of {pod.name}\n{pod.sidecar.tail(40)}")


def test_whoever_waits_for_a_database_says_why_on_readyz_and_goes_on_once_it_is_there_and_migrated(
    crew: Crew, postgres: Postgres
) -> None:
    name, port = "on_its_way", free_ports(1)[0]
    with TcpProxy(postgres.port) as wire:
        wire.refuse()
        there = Database(server=postgres, name=name)
        crew.url = there.dsn(port=wire.port).replace("postgres@", f"postgres:{SECRET}@")
        member = crew.start("a", SOLOIST_HEALTH_PORT=str(port))
        steps = {
            "cannot be reached": wire.forward,
            f'answers and refuses: database "{name}" does not exist. {CORRECT}': lambda: postgres.create_database(name),
            "run soloist migrate": lambda: migrate(there.dsn()),
        }
        try:
            pages = []
            for says, then in steps.items():
                until(lambda says=says: says in asked(port)[1], what=f"/readyz says {says}", timeout=SOON)
                pages.append(asked(port)[1])
                assert asked(port)[0] == 503
                assert asked(port, "/healthz")[0] == 200, "a restart would mend nothing"
                told = crew.said("a", "waiting for the database")[-1]["error"]
                assert says in told
                assert f"FAIL database: {told}" in pages[-1]
                first = member.child()
                then()
            until(lambda: asked(port)[0] == 200, what="it is ready", timeout=SOON)
            assert member.child() == first
            assert crew.leader() is member
            assert SECRET not in member.log() + "".join(pages)
        finally:
            crew.stop()
            postgres.drop_database(name)


def test_what_a_database_is_waited_for_is_said_again_from_time_to_time(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load({"database": postgres.dsn("nope"), "files": (".",)}, {})

    async def body() -> None:
        stopping, place = asyncio.Event(), StandalonePlace(settings, says_again=2.0)
        opening = asyncio.create_task(place.open(stopping))
        async with asyncio.timeout(SOON):
            while len(caplog.records) < 3:
                await asyncio.sleep(0.05)
        stopping.set()
        assert not await opening

    asyncio.run(body())
    said = [(record.getMessage(), record.__dict__["error"]) for record in caplog.records]
    assert said[0] == said[1] == said[2]
    first, second = (
        later.created - before.created for before, later in zip(caplog.records, caplog.records[1:3], strict=False)
    )
    assert min(first, second) >= 2.0


@pytest.mark.parametrize("account", ["nobody-known", "locked_out", "not_let_in"])
def test_an_account_that_is_refused_is_told_from_an_outage(crew: Crew, postgres: Postgres, account: str) -> None:
    postgres.role("locked_out", "NOLOGIN")
    postgres.role("not_let_in")
    there = postgres.create_database("closed_to_all")
    try:
        there.psql("REVOKE CONNECT ON DATABASE closed_to_all FROM PUBLIC")
        crew.url = there.dsn(account)
        crew.start("a")
        error = crew.hear("a", "waiting for the database")["error"]
        assert error.startswith("The database closed_to_all at 127.0.0.1 answers and refuses: ")
        assert error.endswith(CORRECT)
    finally:
        crew.stop()
        postgres.drop_database("closed_to_all")
