"""``soloist queue list``, ``register``, ``dead``, ``retry`` and ``purge`` of an installation that lives in rows."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from click.testing import CliRunner

from soloist.shells.cli import cli
from tests.cluster.children import until
from tests.queue.user_tables import TABLES
from tests.standalone.crew import STEADY, Crew

pytestmark = pytest.mark.slow
ORDERS = TABLES["snake"]
DIE = {
    "hooks": "SELECT soloist.fail(ARRAY[id], ARRAY[fence], ARRAY['HTTP 410'], ARRAY[NULL::interval])"
    " FROM soloist.claim('default/hooks', 3)",
    "orders": "SELECT soloist.fail_row('default/orders', pk, fence, 'HTTP 410', NULL)"
    " FROM soloist.claim_rows('default/orders', 3)",
}
WAITS = {
    "hooks": "SELECT count(*) FROM soloist.work_items",
    "orders": "SELECT count(*) FROM app.deliveries WHERE state = 'new'",
}
"""How many rows wait to be worked."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SOLOIST_")]:
        monkeypatch.delenv(name)


def soloist(crew: Crew, *words: str, code: int = 0) -> str:
    """What is said to somebody who has no terminal, and so answers no question."""
    done = CliRunner().invoke(cli, [*words, "--database", crew.url])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    return done.output


def asked(crew: Crew, *words: str) -> Any:
    return json.loads(soloist(crew, *words, "-o", "json"))


def test_dead_rows_of_queues_that_are_rows_are_listed_retried_and_purged(crew: Crew) -> None:
    own: dict[str, Any] = {"database": {"secretName": "own", "key": "uri"}, "suspend": True}
    hooks = {**own, "deliver": {"http": {"url": crew.backend.url("/hooks")}}}
    crew.write(
        "queues.yaml",
        {"apiVersion": "soloist.dev/v1alpha1", "kind": "WorkQueue", "metadata": {"name": "hooks"}, "spec": hooks},
        {
            "apiVersion": "soloist.dev/v1alpha1",
            "kind": "WorkQueue",
            "metadata": {"name": "orders"},
            "spec": ORDERS.manifest(**own),
        },
    )
    with crew.connect() as connection:
        connection.execute("CREATE SCHEMA app")
        connection.execute(ORDERS.ddl)
        connection.execute(ORDERS.new.format(due="now()", count=3))
        connection.execute("SELECT soloist.enqueue('default/hooks', '{}') FROM generate_series(1, 3)")
    crew.env = dict(STEADY)
    crew.ready("a")
    until(lambda: len(asked(crew, "queue", "list")["queues"]) == 2, what="the queues are known", timeout=150)
    said = soloist(crew, "queue", "register", "orders")
    assert "default/orders: its functions work on app.deliveries in the database " in said
    assert "need no registration: call soloist.claim('default/hooks')" in soloist(crew, "queue", "register", "hooks", code=1)  # fmt: skip
    for died in DIE.values():
        assert len(crew.ask(died)) == 3

    told = [f"default/{name}: 3 dead letters wait for a person." for name in DIE]

    def page() -> str:
        """As the leader has measured it last."""
        listed = soloist(crew, "queue", "list", "-A")
        return listed if all(each in listed for each in told) else ""

    listed = until(page, what="the list has the dead", timeout=150)
    assert [name for name in DIE if f"-> soloist queue dead {name} -n default" not in listed] == []
    assert "There are no WorkQueues in namespace other." in soloist(crew, "queue", "list", "-n", "other")
    for name, waiting in WAITS.items():
        dead_and_buried(crew, name, waiting)


def dead_and_buried(crew: Crew, name: str, waiting: str) -> None:
    """Three letters: one goes back, one is purged, and so is what is left."""

    def ids() -> list[int]:
        return [each["id"] for each in asked(crew, "queue", "dead", name)["letters"]]

    back, gone, last = ids()
    assert soloist(crew, "queue", "retry", name, str(back)).splitlines() == [
        f"1 row of default/{name} is due again.",
        "spec.suspend is true: they wait until it is false.",
    ]
    assert crew.ask(waiting) == [(1,)]
    refused = soloist(crew, "queue", "purge", name, str(gone), code=1)
    assert f"This deletes 1 dead letter of default/{name} in the database " in refused
    assert ids() == [gone, last]
    assert f"1 dead letter of default/{name} deleted." in soloist(crew, "queue", "purge", name, str(gone), "--yes")
    assert f"There is no such dead letter: {gone}." in soloist(crew, "queue", "retry", name, str(gone), code=1)
    assert f"1 dead letter of default/{name} deleted." in soloist(crew, "queue", "purge", name, "--all", "--yes")
    assert ids() == []
    assert soloist(crew, "queue", "retry", name, "--all") == f"0 rows of default/{name} are due again.\n"
    assert crew.ask(waiting) == [(1,)]
