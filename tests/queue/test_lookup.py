"""Where a row's endpoint is, and what its secret, read from a table of the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

import tests.queue.databases as databases
from soloist.adapters.postgres.database import Database, Row, Values
from soloist.adapters.postgres.lookup import EndpointLookup
from soloist.adapters.postgres.url import database_url
from soloist.domain.actions import FailedKnown
from soloist.domain.claims import Claim
from soloist.domain.delivery_request import Endpoint
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.queue_spec import HmacSha256, Lookup, StandardWebhooks, TableName
from tests.postgres.pooler import PgBouncer
from tests.postgres.server import Database as Place
from tests.postgres.server import Postgres
from tests.queue.rows import Connection, scalar

T = TypeVar("T")
URL = "https://hooks.example/in?token=hush"
ONE, TWO = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
WEBHOOK = Lookup(
    table=TableName("public", "Webhook"), key="webhookId", by="id", url="url", secret="secret", active="isActive"
)
TABLE = """CREATE TABLE public."Webhook" (id {} PRIMARY KEY, url text, secret text, "isActive" boolean)"""


def claim(key: str | None) -> Claim:
    return Claim(row=("1",), fence=1, attempt=1, tries=1, columns={"webhookId": key})


def looking(
    dsn: str,
    body: Callable[[EndpointLookup], Awaitable[T]],
    lookup: Lookup = WEBHOOK,
    signature: StandardWebhooks | HmacSha256 | None = StandardWebhooks(),  # noqa: B008 - a frozen value
) -> T:
    return databases.with_database(dsn, lambda database: body(EndpointLookup(database, lookup, signature)))


def found(dsn: str, key: str | None, lookup: Lookup = WEBHOOK, **how: Any) -> Endpoint | FailedKnown:
    return looking(dsn, lambda look: look(claim(key)), lookup, **how)


def refusal(dsn: str, key: str | None, lookup: Lookup = WEBHOOK) -> str:
    outcome = found(dsn, key, lookup)
    assert isinstance(outcome, FailedKnown)
    assert not outcome.retryable
    return outcome.message


@pytest.fixture
def webhooks(queue_database: Place, connection: Connection) -> Place:
    connection.execute(TABLE.format("text"))
    connection.execute('INSERT INTO "Webhook" VALUES (%s, %s, %s, true)', ("wh_1", URL, f"{ONE} {TWO}"))
    return queue_database


KEYS = {
    "text": 'Zoë\'s "wh" 100%',
    "uuid": "6f1f9a44-6f53-4c8b-9d2e-0d0b3f8a3c11",
    "bigint": "9007199254740993",
    "integer": "-7",
    "varchar(40)": "wh_1",
    "numeric": "1.50",
}


@pytest.mark.parametrize("type_", KEYS)
def test_a_key_of_any_type_finds_its_endpoint_by_the_index(
    queue_database: Place, connection: Connection, type_: str
) -> None:
    connection.execute(TABLE.format(type_))
    connection.execute('INSERT INTO "Webhook" VALUES (%s, %s, %s, true)', (KEYS[type_], URL, ONE))
    assert found(queue_database.dsn(), KEYS[type_]) == Endpoint(url=URL, secrets=(ONE,))


def test_several_secrets_in_one_column_are_a_rotation(webhooks: Place) -> None:
    assert found(webhooks.dsn(), "wh_1") == Endpoint(url=URL, secrets=(ONE, TWO))
    hmac = found(webhooks.dsn(), "wh_1", signature=HmacSha256(header="X"))
    assert hmac == Endpoint(url=URL, secrets=(f"{ONE} {TWO}",))


def test_it_works_through_a_transaction_pooler(webhooks: Place, pgbouncer: PgBouncer) -> None:
    assert found(pgbouncer.dsn(webhooks.name), "wh_1") == Endpoint(url=URL, secrets=(ONE, TWO))


def test_no_message_and_no_repr_shows_the_secret(webhooks: Place) -> None:
    assert "whsec" not in repr(found(webhooks.dsn(), "wh_1"))


def test_an_endpoint_that_is_missing_inactive_or_without_address_ends_the_row(
    webhooks: Place, connection: Connection
) -> None:
    connection.execute(
        """INSERT INTO "Webhook" VALUES ('off', 'http://a/', 's', false), ('null', 'http://a/', 's', NULL),
        ('bare', NULL, 's', true), ('empty', '', 's', true)"""
    )
    dsn, where = webhooks.dsn(), 'public."Webhook": the row whose id is'
    assert refusal(dsn, "no") == f"The endpoint is not there in {where} 'no'."
    assert refusal(dsn, "off") == f"The endpoint is switched off (isActive) in {where} 'off'."
    assert refusal(dsn, "null") == f"The endpoint is switched off (isActive) in {where} 'null'."
    assert refusal(dsn, "bare") == f"The endpoint has no address (url) in {where} 'bare'."
    assert refusal(dsn, "empty") == f"The endpoint has no address (url) in {where} 'empty'."
    assert refusal(dsn, None) == "The column webhookId is null, so the row has no endpoint."


@pytest.mark.parametrize(
    ("type_", "on", "off"),
    [("boolean", "true", "false"), ("smallint", "1", "0"), ("text", "TRUE", "no"), ("varchar(5)", "t", "")],
)
def test_active_is_a_boolean_or_what_stands_for_one(
    queue_database: Place, connection: Connection, type_: str, on: str, off: str
) -> None:
    connection.execute(f'CREATE TABLE "Webhook" (id text PRIMARY KEY, url text, secret text, "isActive" {type_})')
    connection.execute('INSERT INTO "Webhook" VALUES (1, %s, NULL, %s), (2, %s, NULL, %s)', (URL, on, URL, off))
    assert found(queue_database.dsn(), "1") == Endpoint(url=URL)
    assert "switched off" in refusal(queue_database.dsn(), "2")


def test_without_those_columns_there_is_no_secret_and_all_are_active(
    queue_database: Place, connection: Connection
) -> None:
    connection.execute('CREATE TABLE "odd %s ""name" ("by %% it" text PRIMARY KEY, "u%(r)s" text)')
    connection.execute(f"""INSERT INTO "odd %s ""name" VALUES ('a', '{URL}')""")
    odd = Lookup(table=TableName("public", 'odd %s "name'), key="webhookId", by="by %% it", url="u%(r)s")
    assert found(queue_database.dsn(), "a", odd) == Endpoint(url=URL)


def test_the_address_may_be_in_the_row_itself(webhooks: Place, connection: Connection) -> None:
    connection.execute("""INSERT INTO "Webhook" VALUES ('off', NULL, 's', false)""")
    beside = replace(WEBHOOK, url=None, url_column="target")

    async def body(look: EndpointLookup) -> None:
        def row(key: str, target: str | None) -> Claim:
            return replace(claim(key), columns={"webhookId": key, "target": target})

        assert await look(row("wh_1", "http://own/")) == Endpoint(url="http://own/", secrets=(ONE, TWO))
        for refusal in (await look(row("wh_1", None)), await look(row("wh_1", ""))):
            assert isinstance(refusal, FailedKnown)
            assert refusal.message == "The column target holds no address."
        off = await look(row("off", "http://own/"))
        assert isinstance(off, FailedKnown)
        assert "switched off" in off.message

    looking(webhooks.dsn(), body, beside)


def test_what_was_changed_a_moment_ago_is_what_is_read(webhooks: Place, connection: Connection) -> None:
    async def body(look: EndpointLookup) -> None:
        assert await look(claim("wh_1")) == Endpoint(url=URL, secrets=(ONE, TWO))
        connection.execute("""UPDATE "Webhook" SET url = 'http://moved/', secret = %s""", (TWO,))
        assert await look(claim("wh_1")) == Endpoint(url="http://moved/", secrets=(TWO,))
        connection.execute("""UPDATE "Webhook" SET "isActive" = false""")
        assert isinstance(await look(claim("wh_1")), FailedKnown)
        connection.execute("""DELETE FROM "Webhook" """)
        assert isinstance(await look(claim("wh_1")), FailedKnown)

    looking(webhooks.dsn(), body)


class Counting(Database):
    """Counts its statements."""

    statements = 0

    async def fetch(self, query: bytes, values: Values = (), **how: Any) -> list[Row]:
        self.statements += 1
        return await super().fetch(query, values, **how)


def test_rows_that_ask_together_are_answered_by_few_statements_each_with_its_own(
    webhooks: Place, connection: Connection
) -> None:
    connection.execute(
        """INSERT INTO "Webhook" SELECT n, 'http://' || n || '/', NULL, true FROM generate_series(1, 200) n"""
    )

    async def body() -> None:
        database = Counting(database_url(webhooks.dsn()))
        look = EndpointLookup(database, WEBHOOK, None)
        answers = await asyncio.gather(*(look(claim(str(n % 200 + 1))) for n in range(1000)))
        assert answers == [Endpoint(url=f"http://{n % 200 + 1}/") for n in range(1000)]
        assert database.statements <= 4
        await database.close()

    asyncio.run(body())


def test_a_key_that_the_column_cannot_hold_ends_its_own_row_only(queue_database: Place, connection: Connection) -> None:
    connection.execute(TABLE.format("uuid"))
    connection.execute('INSERT INTO "Webhook" VALUES (%s, %s, %s, true)', (KEYS["uuid"], URL, ONE))

    async def body(look: EndpointLookup) -> list[Endpoint | FailedKnown]:
        return await asyncio.gather(*(look(claim(key)) for key in ("no uuid", KEYS["uuid"], "a\0b", KEYS["uuid"])))

    bad, good, zero, same = looking(queue_database.dsn(), body)
    assert good == same == Endpoint(url=URL, secrets=(ONE,))
    for refused in (bad, zero):
        assert isinstance(refused, FailedKnown)
        assert not refused.retryable


def test_one_that_stops_waiting_takes_nobody_along(webhooks: Place) -> None:
    async def body(look: EndpointLookup) -> None:
        first, second = (asyncio.create_task(look(claim("wh_1"))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == Endpoint(url=URL, secrets=(ONE, TWO))
        with pytest.raises(asyncio.CancelledError):
            await first

    looking(webhooks.dsn(), body)


def test_a_key_is_looked_for_by_the_index_in_a_table_that_was_never_analyzed(
    webhooks: Place, connection: Connection
) -> None:
    connection.execute("""ALTER TABLE "Webhook" SET (autovacuum_enabled = off)""")
    connection.execute("""INSERT INTO "Webhook" SELECT n, 'http://x/', NULL, true FROM generate_series(1, 100000) n""")

    async def body(look: EndpointLookup) -> None:
        await asyncio.gather(*(look(claim(str(n))) for n in range(64)))

    looking(webhooks.dsn(), body)
    assert index_scans(connection, 64) == 64


def index_scans(connection: Connection, least: int) -> int:
    """Of the table. Statistics arrive a little later than what they count."""
    query = """SELECT idx_scan FROM pg_stat_user_tables WHERE relid = 'public."Webhook"'::regclass"""
    for _ in range(1200):
        row = connection.execute(query).fetchone()
        assert row is not None
        if row[0] >= least:
            return int(row[0])
        scalar(connection, "SELECT pg_sleep(0.05)::text")
    raise AssertionError("The statistics of the table tell of fewer scans after a minute.")


def test_a_table_or_a_column_that_is_not_there_is_named(queue_database: Place, connection: Connection) -> None:
    with pytest.raises(PermanentError, match=r'has no table public."Webhook" with a column id: correct'):
        found(queue_database.dsn(), "wh_1")
    connection.execute('CREATE TABLE "Webhook" (id text PRIMARY KEY)')
    with pytest.raises(PermanentError, match=r"column t\.url does not exist"):
        found(queue_database.dsn(), "wh_1")


def test_a_column_whose_type_was_changed_meanwhile_is_read_by_its_new_one(
    queue_database: Place, connection: Connection
) -> None:
    connection.execute(TABLE.format("integer"))
    connection.execute('INSERT INTO "Webhook" VALUES (7, %s, NULL, true)', (URL,))

    async def body(look: EndpointLookup) -> Endpoint | FailedKnown:
        assert await look(claim("7")) == Endpoint(url=URL)
        connection.execute(f"""ALTER TABLE "Webhook" ALTER COLUMN id TYPE uuid USING '{KEYS["uuid"]}'::uuid""")
        with pytest.raises(PermanentError):
            await look(claim("7"))
        return await look(claim(KEYS["uuid"]))

    assert looking(queue_database.dsn(), body) == Endpoint(url=URL)


def test_a_role_that_may_not_read_the_table_is_told_so(webhooks: Place, postgres: Postgres) -> None:
    postgres.role("looker")
    with pytest.raises(PermanentError, match="permission denied"):
        found(webhooks.dsn("looker"), "wh_1")


def test_a_database_that_is_away_is_a_matter_of_time(webhooks: Place) -> None:
    with pytest.raises(TransientError):
        found(webhooks.dsn(port=1), "wh_1")
