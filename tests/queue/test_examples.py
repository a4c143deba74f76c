"""Every example of docs/queues.md does what the page says, as the roles that the page grants to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soloist import queue
from tests.cluster.children import until
from tests.postgres.server import Database
from tests.queue.examples import EXAMPLES, HERE, go_program, node, python, run
from tests.queue.prisma_app import prisma_app
from tests.queue.rows import items, scalar
from tests.queue.workers import ENTRY, Crew

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, total int);
CREATE TABLE bookings (order_id int);
CREATE TABLE payments (amount int);
GRANT SELECT, INSERT ON orders, bookings, payments TO shop, shop_worker"""
RUN = {
    "first-queue", "first-row",
    "grants", "psql-enqueue", "psql-work", "node-enqueue", "node-work", "prisma-enqueue", "go-enqueue", "go-work",
    "python-enqueue", "python-work", "python-complete", "python-once",
}  # fmt: skip
Q = "default/emails"


@pytest.fixture
def shop(own_queue_database: Database) -> Database:
    for role in ("shop", "shop_worker", "shop_timers"):
        own_queue_database.server.role(role)
    own_queue_database.psql(TABLES + ";\n" + EXAMPLES["grants"])
    return own_queue_database


def payloads(database: Database, table: str = "work_items") -> list[Any]:
    with database.connect() as connection:
        return [row["payload"] for row in items(connection, table)]


def asked(database: Database, query: str) -> Any:
    with database.connect() as connection:
        return scalar(connection, query)


def filled(database: Database, *orders: int) -> None:
    with database.connect() as connection:
        queue.enqueue_many(connection, Q, [{"order": order} for order in orders])


def test_every_example_of_the_page_is_run_here() -> None:
    assert set(EXAMPLES) == RUN


def test_the_first_queue_of_the_page_is_worked_by_a_worker_without_a_cluster(crew: Crew) -> None:
    text = EXAMPLES["first-queue"]
    for written, here in (
        ("http://127.0.0.1:8000/emails", crew.backend.url("/emails")),
        ("postgresql://postgres@127.0.0.1/backend", crew.database.dsn()),
    ):
        assert written in text
        text = text.replace(written, here)
    crew.manifest.write_text(text)
    crew.ready("w")
    crew.database.psql(EXAMPLES["first-row"])
    (request,) = crew.backend.wait(1)
    assert (request.method, request.path, json.loads(request.body)) == ("POST", "/emails", {"order": 17})
    assert request.header("Soloist-Attempt") == "1"
    until(lambda: crew.left("emails") == 0, what="the row is gone", timeout=90)
    checked = run([*ENTRY[:-1], "queue", "check", "emails", "-f", str(crew.manifest)], "")
    assert "Nothing stops the queue." in checked


def test_whoever_may_only_enqueue_can_neither_read_nor_take_back(shop: Database) -> None:
    filled(shop, 1)
    for forbidden in ("SELECT payload FROM soloist.work_items", f"SELECT * FROM soloist.claim('{Q}')"):
        with pytest.raises(RuntimeError, match="permission denied"):
            shop.psql(forbidden, user="shop")
    with pytest.raises(RuntimeError, match="permission denied"):
        shop.psql("CREATE TABLE soloist.mine ()", user="shop_worker")


def test_psql_enqueues_and_cancels(shop: Database) -> None:
    shop.psql(EXAMPLES["psql-enqueue"], user="shop_worker")
    assert payloads(shop) == [{"order": 1}, {"order": 2}]
    assert asked(shop, "SELECT total FROM orders WHERE id = 17") == 30


def test_psql_works_a_row(shop: Database) -> None:
    filled(shop, 17)
    shop.psql(EXAMPLES["psql-work"], user="shop_worker")
    assert payloads(shop) == []
    assert asked(shop, "SELECT array_agg(order_id) FROM bookings") == [17]


def test_node_enqueues_in_the_transaction_of_the_order(shop: Database, tmp_path: Path) -> None:
    then = """(async () => {
      const client = new Client({ connectionString: process.env.DATABASE_URL });
      await client.connect();
      await placeOrder(client, { id: 17, total: 30 });
      await placeOrder(client, { id: 17, total: 30 }).catch((error) => console.log(error.code));
      await client.end();
    })();"""
    assert node(tmp_path, ["node-enqueue"], then, shop.dsn("shop")) == "23505"
    assert payloads(shop) == [{"order": 17}]


def test_node_works_rows_and_says_which_failed(shop: Database, tmp_path: Path) -> None:
    filled(shop, 1, 2, 3)
    then = """(async () => {
      const client = new Client({ connectionString: process.env.DATABASE_URL });
      await client.connect();
      const send = async (payload, { fence, attempt }) => {
        if (payload.order === 2) throw new Error("mailbox full");
        console.log(JSON.stringify([payload.order, typeof fence, attempt]));
      };
      while (await workOnce(client, send));
      await client.end();
    })();"""
    said = node(tmp_path, ["node-enqueue", "node-work"], then, shop.dsn("shop_worker"))
    assert sorted(map(json.loads, said.splitlines())) == [[1, "string", 1], [3, "string", 1]]
    with shop.connect() as connection:
        (left,) = items(connection)
    assert (left["payload"], left["last_error"], left["attempt"]) == ({"order": 2}, "Error: mailbox full", 2)
    assert left["fence"] is None


def test_prisma_enqueues_in_the_transaction_of_the_order_and_once_for_each_key(shop: Database) -> None:
    place = EXAMPLES["prisma-enqueue"].strip().removeprefix("await ").removesuffix(";")
    with prisma_app(shop.dsn("shop")) as application:
        application.run(place)
        with pytest.raises(AssertionError, match="Unique constraint"):
            application.run(place)
        assert application.run("prisma.order.count()") == 1
    assert payloads(shop) == [{"order": 17}]


def test_go_enqueues_works_and_undoes_what_it_did_under_a_lost_claim(shop: Database) -> None:
    program = str(go_program(HERE / "go" / "main.go.txt", ["go-enqueue", "go-work"]))
    assert run([program, "place"], shop.dsn("shop")) == ""
    assert payloads(shop) == [{"order": 17}]
    assert run([program, "work"], shop.dsn("shop_worker")) == ""
    assert payloads(shop) == []
    filled(shop, 18)
    assert run([program, "lose"], shop.dsn("shop_worker")) == "SO001"
    assert asked(shop, "SELECT array_agg(order_id) FROM bookings") == [17]


def test_python_enqueues_in_the_transaction_of_the_order(shop: Database, tmp_path: Path) -> None:
    then = "import os, psycopg\nwith psycopg.connect(os.environ['DATABASE_URL']) as c: place_order(c, 17, 30)\n"
    python(tmp_path, "python-enqueue", then, shop.dsn("shop"))
    assert payloads(shop) == [{"order": 17}]


def test_python_works_rows_until_sigterm(shop: Database, tmp_path: Path) -> None:
    filled(shop, 1, -1, 2)
    program = tmp_path / "worker.py"
    program.write_text(EXAMPLES["python-work"])
    env = {**os.environ, "DATABASE_URL": shop.dsn("shop_worker")}
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            until(lambda: payloads(shop) == [], what="every row is worked", timeout=90)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 0
    assert sorted(said.splitlines()) == ["sending 1 attempt 1", "sending 2 attempt 1"]
    assert payloads(shop, "dead_items") == [{"order": -1}]


def test_python_ends_a_claim_with_its_effect_and_undoes_it_where_the_claim_is_lost(
    shop: Database, tmp_path: Path
) -> None:
    filled(shop, 1, 2)
    then = """
class Claimed:
    def __init__(self, row, fence, payload): self.row, self.fence, self.payload = row, fence, payload
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as c:
    rows = c.execute("SELECT id, fence, payload FROM soloist.claim('default/emails', 2)").fetchall()
    first, second = sorted((Claimed(*row) for row in rows), key=lambda each: each.row)
    queue.cancel(c, second.row)
book(first)
try:
    book(second)
except queue.ClaimLost:
    print("lost")
"""
    assert python(tmp_path, "python-complete", then, shop.dsn("shop_worker")) == "lost"
    assert payloads(shop) == []
    assert asked(shop, "SELECT array_agg(order_id) FROM bookings") == [1]


def test_python_does_an_effect_once(shop: Database, tmp_path: Path) -> None:
    then = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as c:
    print(pay(c, "k", 7, 100), pay(c, "k", 8, 100), sep=", ")
    try:
        pay(c, "k", 7, 100)
    except queue.StaleFence:
        print("replaced")
"""
    assert python(tmp_path, "python-once", then, shop.dsn("shop_worker")).splitlines() == [
        "paid, paid before",
        "replaced",
    ]
    assert asked(shop, "SELECT count(*) FROM payments") == 1
