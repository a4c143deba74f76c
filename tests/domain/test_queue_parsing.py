"""Reading a WorkQueue's spec: its defaults, every field, and what depends on what.

The words of each refusal are in tests/crds/bad.yaml, beside what the API server says of the same manifest.
"""

from datetime import timedelta
from typing import Any

import pytest

from soloist.domain.actions import Header, KeyRef
from soloist.domain.queue_parsing import Invalid, parse_queue
from soloist.domain.queue_spec import (
    AfterCrash,
    Column,
    Concurrency,
    DatabaseRef,
    Encoding,
    External,
    FixedUrl,
    HmacSha256,
    HttpDelivery,
    Inline,
    KeyPer,
    Lookup,
    ManagedTable,
    MappedTable,
    OnDead,
    OutcomeBy,
    PerKey,
    Poll,
    QueueSpec,
    Record,
    RetryRules,
    Sidecar,
    StandardWebhooks,
    StatusMapping,
    TableName,
    UrlColumn,
)

URL = "http://backend.default.svc/internal/webhooks"
LEAST: dict[str, Any] = {"database": {"secretName": "backend-db", "key": "uri"}, "deliver": {"http": {"url": URL}}}
STATUS: dict[str, Any] = {"column": "status", "pending": ["pending"], "done": "delivered", "failed": "failed"}
TABLE: dict[str, Any] = {"name": 'public."WebhookDelivery"', "id": "id", "dueAt": "nextAttemptAt", "status": STATUS}
MAPPED: dict[str, Any] = {**LEAST, "table": TABLE}
SCHEDULES: dict[str, Any] = {
    **LEAST,
    "table": {
        "name": "public.schedules",
        "id": "id",
        "dueAt": "next_run_timestamp",
        "status": {"column": "status", "pending": ["active"]},
        "outcome": "Handler",
    },
}
FULL: dict[str, Any] = {
    "suspend": True,
    "database": {"secretName": "backend-db", "key": "uri"},
    "table": {
        "name": 'public."WebhookDelivery"',
        "id": ["tenantId", "number"],
        "dueAt": "nextAttemptAt",
        "status": {**STATUS, "pending": ["pending", "retrying"], "running": "sending"},
        "attempts": "attempts",
        "maxAttempts": {"column": "maxAttempts"},
        "record": {"lastAttemptAt": "lastAttemptAt", "lastError": "error", "doneAt": "deliveredAt"},
        "touch": ["updatedAt"],
        "claim": "Inline",
        "inline": {"fence": "fence", "leaseUntil": "leaseUntil", "reclaims": "reclaims", "claimedBy": "worker"},
        "outcome": "Worker",
    },
    "afterCrash": "Retry",
    "maxReclaims": 3,
    "deliver": {
        "http": {
            "lookup": {"table": 'public."Webhook"', "key": "webhookId", "by": "id", "url": "url", "active": "isActive"},
            "method": "PUT",
            "bodyColumn": "payload",
            "headers": [
                {"name": "x-idempotency-key", "value": "{key} {event_type} {id}"},
                {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "backend", "key": "token"}}},
            ],
            "signature": "HmacSha256",
            "hmacSha256": {"header": "X-Signature", "encoding": "Base64", "prefix": "sha256="},
            "secretRef": {"name": "webhooks", "key": "secret"},
            "timeoutSeconds": 20,
            "expectedStatus": "2xx, 409",
            "tls": {"caConfigMapRef": {"name": "ca", "key": "ca.crt"}},
        }
    },
    "idempotencyKey": "PerAttempt",
    "leaseSeconds": 30,
    "poll": {"minMilliseconds": 10, "maxMilliseconds": 1000, "listen": True},
    "retry": {"schedule": ["1s", "1h30m", "2d"], "jitter": 0.5, "maxRetryAfterSeconds": 60},
    "concurrency": {"perWorker": 8, "perKey": {"column": "endpointId", "limit": 4}},
    "onDead": {"sql": "UPDATE orders SET note = :error WHERE tenant = :id1 AND number = :id2::int"},
}
EXTERNAL: dict[str, Any] = {**LEAST, "deliver": {"external": {}}}
GOOD = [LEAST, MAPPED, SCHEDULES, FULL, EXTERNAL]


def good(raw: dict[str, Any]) -> QueueSpec:
    spec = parse_queue(raw)
    assert isinstance(spec, QueueSpec), spec
    return spec


def http(raw: dict[str, Any], **changes: Any) -> HttpDelivery:
    deliver = good({**raw, "deliver": {"http": changes}}).deliver
    assert isinstance(deliver, HttpDelivery)
    return deliver


def table(raw: dict[str, Any], **changes: Any) -> MappedTable:
    found = good({**raw, "table": {**raw["table"], **changes}}).table
    assert isinstance(found, MappedTable)
    return found


def refused(raw: dict[str, Any]) -> Invalid:
    spec = parse_queue(raw)
    assert isinstance(spec, Invalid), spec
    return spec


def test_what_is_left_out_has_its_default() -> None:
    waits = (5, 300, 1800, 7200, 18000, 36000, 36000)
    assert good(LEAST) == QueueSpec(
        suspend=False,
        database=DatabaseRef(secret_name="backend-db", key="uri"),
        table=ManagedTable(),
        after_crash=AfterCrash.RETRY,
        max_reclaims=5,
        deliver=HttpDelivery(
            target=FixedUrl(url=URL),
            method="POST",
            headers=(),
            body_column=None,
            signature=None,
            secrets=(),
            timeout=timedelta(seconds=15),
            expected=((200, 299),),
            verify=True,
            ca=None,
        ),
        idempotency_key=KeyPer.MESSAGE,
        lease=timedelta(seconds=60),
        poll=Poll(least=timedelta(milliseconds=5), most=timedelta(milliseconds=250), listen=False),
        retry=RetryRules(
            schedule=tuple(timedelta(seconds=wait) for wait in waits),
            jitter=0.2,
            max_attempts=8,
            retry_after_cap=timedelta(hours=1),
        ),
        concurrency=Concurrency(per_worker=64, per_key=None),
        on_dead=None,
    )


def test_what_is_left_out_of_a_table_has_its_default() -> None:
    assert good(MAPPED).table == MappedTable(
        name=TableName("public", "WebhookDelivery"),
        id=("id",),
        due_at="nextAttemptAt",
        status=StatusMapping(column="status", pending=("pending",), done="delivered", failed="failed", running=None),
        attempts=None,
        record=Record(last_attempt_at=None, last_error=None, done_at=None),
        touch=(),
        claim=Sidecar(),
        outcome=OutcomeBy.WORKER,
        columns=(),
    )


def test_every_field_is_read() -> None:
    assert good(FULL) == QueueSpec(
        suspend=True,
        database=DatabaseRef(secret_name="backend-db", key="uri"),
        table=MappedTable(
            name=TableName("public", "WebhookDelivery"),
            id=("tenantId", "number"),
            due_at="nextAttemptAt",
            status=StatusMapping(
                column="status", pending=("pending", "retrying"), done="delivered", failed="failed", running="sending"
            ),
            attempts="attempts",
            record=Record(last_attempt_at="lastAttemptAt", last_error="error", done_at="deliveredAt"),
            touch=("updatedAt",),
            claim=Inline(fence="fence", lease_until="leaseUntil", reclaims="reclaims", claimed_by="worker"),
            outcome=OutcomeBy.WORKER,
            columns=("payload", "webhookId", "event_type", "maxAttempts", "endpointId"),
        ),
        after_crash=AfterCrash.RETRY,
        max_reclaims=3,
        deliver=HttpDelivery(
            target=Lookup(table=TableName("public", "Webhook"), key="webhookId", by="id", url="url", active="isActive"),
            method="PUT",
            headers=(
                Header(name="x-idempotency-key", value="{key} {event_type} {id}"),
                Header(name="Authorization", ref=KeyRef(kind="Secret", name="backend", key="token")),
            ),
            body_column="payload",
            signature=HmacSha256(header="X-Signature", encoding=Encoding.BASE64, prefix="sha256="),
            secrets=(KeyRef(kind="Secret", name="webhooks", key="secret"),),
            timeout=timedelta(seconds=20),
            expected=((200, 299), (409, 409)),
            ca=KeyRef(kind="ConfigMap", name="ca", key="ca.crt"),
        ),
        idempotency_key=KeyPer.ATTEMPT,
        lease=timedelta(seconds=30),
        poll=Poll(least=timedelta(milliseconds=10), most=timedelta(seconds=1), listen=True),
        retry=RetryRules(
            schedule=(timedelta(seconds=1), timedelta(minutes=90), timedelta(days=2)),
            jitter=0.5,
            max_attempts=Column("maxAttempts"),
            retry_after_cap=timedelta(minutes=1),
        ),
        concurrency=Concurrency(per_worker=8, per_key=PerKey(column="endpointId", limit=4)),
        on_dead=OnDead(
            statement="UPDATE orders SET note = $1 WHERE tenant = $2 AND number = $3::int",
            values=("error", "id1", "id2"),
        ),
    )


def test_a_null_is_as_good_as_nothing() -> None:
    nulls = dict.fromkeys(
        ("table", "suspend", "afterCrash", "maxReclaims", "idempotencyKey", "poll", "retry", "onDead")
    )
    assert parse_queue({**LEAST, **nulls}) == parse_queue(LEAST)


def test_a_field_of_a_newer_schema_is_passed_over() -> None:
    assert parse_queue({**LEAST, "colour": "green"}) == parse_queue(LEAST)


def test_a_lease_is_renewed_four_times_as_often_as_it_ends() -> None:
    assert good({**LEAST, "leaseSeconds": 20}).renew_every == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("written", "schema", "name", "shown"),
    [
        ("public.deliveries", "public", "deliveries", "public.deliveries"),
        ('public."WebhookDelivery"', "public", "WebhookDelivery", 'public."WebhookDelivery"'),
        ('"App".deliveries_2', "App", "deliveries_2", '"App".deliveries_2'),
        ('"a.b"."c d"', "a.b", "c d", '"a.b"."c d"'),
        ('public."2026"', "public", "2026", 'public."2026"'),
        ('public."Ünïcode"', "public", "Ünïcode", 'public."Ünïcode"'),
        ('"public"."orders"', "public", "orders", "public.orders"),
        ("public.order", "public", "order", "public.order"),
    ],
)
def test_a_table_is_read_as_sql_reads_it(written: str, schema: str, name: str, shown: str) -> None:
    found = table(MAPPED, name=written).name
    assert found == TableName(schema, name)
    assert str(found) == shown


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("deliveries", "write it in front, such as public.deliveries."),
        ('"WebhookDelivery"', 'write it in front, such as public."WebhookDelivery".'),
        ("WebhookDelivery", 'write it in front, such as public."WebhookDelivery".'),
        ("public.WebhookDelivery", 'write public."WebhookDelivery".'),
        ('App."Delivery"', 'write "App"."Delivery".'),
    ],
)
def test_a_table_that_sql_would_read_otherwise_is_refused_with_what_was_meant(written: str, remedy: str) -> None:
    problem = refused({**MAPPED, "table": {**TABLE, "name": written}})
    assert problem.field == "spec.table.name"
    assert problem.message.endswith(remedy)


@pytest.mark.parametrize(
    "written", ["a.b.c", 'public."a"b"', "public.", ".a", 'public.""', "public.a-b", "public.ü", '"a\n".b', "a b.c"]
)
def test_what_is_no_table_is_refused(written: str) -> None:
    assert refused({**MAPPED, "table": {**TABLE, "name": written}}).field == "spec.table.name"


@pytest.mark.parametrize("column", ['"nextAttemptAt"', "a\nb", "", 7, "ü" * 32])
def test_what_is_no_column_is_refused(column: Any) -> None:
    assert refused({**MAPPED, "table": {**TABLE, "dueAt": column}}).field == "spec.table.dueAt"


def test_a_column_may_have_any_name_that_a_database_gives_it() -> None:
    assert table(MAPPED, dueAt="näch ster; DROP TABLE x --").due_at == "näch ster; DROP TABLE x --"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attempts": "nextAttemptAt"}, "spec.table.attempts"),
        ({"touch": ["id"]}, "spec.table.touch"),
        ({"dueAt": "status"}, "spec.table.status.column"),
        ({"record": {"lastError": "e", "doneAt": "e"}}, "spec.table.record.doneAt"),
        ({"claim": "Inline", "inline": {"fence": "a", "leaseUntil": "nextAttemptAt", "reclaims": "b"}}, "spec.table.inline.leaseUntil"),
        ({"claim": "Inline", "inline": {"fence": "a", "leaseUntil": "b", "reclaims": "c", "claimedBy": "a"}}, "spec.table.inline.claimedBy"),
    ],
)  # fmt: skip
def test_a_column_with_two_meanings_is_refused(changes: dict[str, Any], field: str) -> None:
    assert refused({**MAPPED, "table": {**TABLE, **changes}}).field == field


def test_the_secret_may_be_read_where_the_address_is() -> None:
    lookup = {"table": "public.hooks", "key": "hook_id", "by": "id", "url": "url", "secret": "secret"}
    found = http(MAPPED, lookup=lookup)
    assert found.signature == StandardWebhooks()
    assert found.secrets == ()


def test_a_secret_without_a_scheme_signs_as_standard_webhooks() -> None:
    found = http(LEAST, url=URL, secretRef={"name": "a", "key": "b"}, previousSecretRefs=[{"name": "a", "key": "c"}])
    assert found.signature == StandardWebhooks()
    assert [ref.key for ref in found.secrets] == ["b", "c"]


def test_the_address_may_be_in_the_row() -> None:
    assert http(MAPPED, urlColumn="url").target == UrlColumn(column="url")


def test_the_address_may_be_in_the_row_and_its_secret_in_another_table() -> None:
    lookup = {"table": "public.hooks", "key": "hook_id", "by": "id", "secret": "secret"}
    spec = good({**MAPPED, "deliver": {"http": {"urlColumn": "url", "lookup": lookup}}})
    assert isinstance(spec.deliver, HttpDelivery)
    assert isinstance(spec.deliver.target, Lookup)
    assert (spec.deliver.target.url, spec.deliver.target.url_column) == (None, "url")
    assert isinstance(spec.table, MappedTable)
    assert {"hook_id", "url"} <= set(spec.table.columns)


def test_a_row_that_the_application_moves_has_a_key_for_each_due_time() -> None:
    spec = good(SCHEDULES)
    assert isinstance(spec.table, MappedTable)
    assert spec.table.outcome is OutcomeBy.HANDLER
    assert spec.idempotency_key is KeyPer.DUE
    assert good({**SCHEDULES, "idempotencyKey": "PerMessage"}).idempotency_key is KeyPer.MESSAGE


def test_a_row_without_due_time_that_the_application_moves_has_one_key() -> None:
    spec = good({**SCHEDULES, "table": {**SCHEDULES["table"], "dueAt": None}})
    assert spec.idempotency_key is KeyPer.MESSAGE


def test_a_queue_of_the_users_own_workers_says_nothing_of_ours() -> None:
    assert good(EXTERNAL).deliver == External()
    assert refused({**EXTERNAL, "poll": {}}).field == "spec.poll"
    assert refused({**EXTERNAL, "concurrency": {}}).field == "spec.concurrency"


def test_rows_that_are_held_may_be_worked_by_anybody() -> None:
    assert good({**SCHEDULES, "afterCrash": "Hold"}).after_crash is AfterCrash.HOLD
    assert good({**EXTERNAL, "afterCrash": "Hold"}).after_crash is AfterCrash.HOLD


@pytest.mark.parametrize(("schedule", "attempts"), [(None, 8), (["5s"], 2), (["5s", "5s", "5s"], 4)])
def test_there_is_one_attempt_more_than_there_are_waits(schedule: list[str] | None, attempts: int) -> None:
    retry = {"schedule": schedule}
    assert good({**LEAST, "retry": retry}).retry.max_attempts == attempts
    assert good({**MAPPED, "retry": retry}).retry.max_attempts == attempts


def test_the_number_of_attempts_is_said_where_the_rows_are() -> None:
    assert good({**LEAST, "retry": {"maxAttempts": 3}}).retry.max_attempts == 3
    assert good({**MAPPED, "table": {**TABLE, "maxAttempts": 3}}).retry.max_attempts == 3
    limit = good({**MAPPED, "table": {**TABLE, "maxAttempts": {"column": "limit"}}})
    assert limit.retry.max_attempts == Column("limit")
    assert isinstance(limit.table, MappedTable)
    assert limit.table.columns == ("limit",)


@pytest.mark.parametrize("value", ["8", 0, 1001, 1.5, True, [8], {}, {"column": 8}, {"column": ""}])
def test_what_is_no_number_of_attempts_is_refused(value: Any) -> None:
    problem = refused({**MAPPED, "table": {**TABLE, "maxAttempts": value}})
    assert problem.field.startswith("spec.table.maxAttempts")


@pytest.mark.parametrize("value", [None, "", [], [""], ["a", "a"], ["a", 7], {"a": "b"}, ["c"] * 17, 7])
def test_what_is_no_primary_key_is_refused(value: Any) -> None:
    assert refused({**MAPPED, "table": {**TABLE, "id": value}}).field.startswith("spec.table.id")


@pytest.mark.parametrize("wait", ["5", "0s", "31d", "1.5h", "5 s", "-5s", "1w", "", 5, None, "9999999d", "1s" * 5])
def test_what_is_no_wait_is_refused(wait: Any) -> None:
    assert refused({**LEAST, "retry": {"schedule": ["5s", wait]}}).field == "spec.retry.schedule[1]"


@pytest.mark.parametrize(
    "deliver",
    [
        {"url": "http://me:s3cr3t@backend/"},
        {"url": URL, "headers": [{"name": "Authorization", "value": "Bearer s3cr3t\n"}]},
        {"url": URL, "headers": [{"name": "Authorization", "value": "s3cr3t {nothing}"}]},
        {"url": URL, "secretRef": "s3cr3t" * 20},
        {"url": URL, "secretRef": {"name": ["s3cr3t"], "key": "a"}},
    ],
)
def test_a_refusal_repeats_no_secret(deliver: dict[str, Any]) -> None:
    assert "s3cr3t" not in refused({**LEAST, "deliver": {"http": deliver}}).message
