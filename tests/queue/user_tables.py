"""Tables as applications have them, each with the mapping that a manifest would give. All are in the schema `app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WEBHOOK = """
INSERT INTO app."Webhook" ("id", "url", "secret") VALUES ('wh1', 'http://receiver.test/hook', 'whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0');
"""
PRISMA_DDL = (Path(__file__).parent / "prisma" / "migration.sql").read_text(encoding="utf-8") + WEBHOOK
PRISMA_INLINE_DDL = """
ALTER TABLE app."WebhookDelivery" ADD COLUMN "claimFence" BIGINT, ADD COLUMN "claimUntil" TIMESTAMP(3),
    ADD COLUMN "claimLost" INTEGER NOT NULL DEFAULT 0, ADD COLUMN "claimedBy" TEXT;
"""
PRISMA_NEW = """
INSERT INTO app."WebhookDelivery" ("id", "webhookId", "eventId", "payload", "nextAttemptAt", "updatedAt")
SELECT 'c' || md5(random()::text), 'wh1', md5(random()::text), jsonb_build_object('n', n), {due} AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'
FROM generate_series(1, {count}) AS n RETURNING ARRAY["id"]"""
PRISMA = {
    "name": 'app."WebhookDelivery"',
    "id": "id",
    "dueAt": "nextAttemptAt",
    "status": {"column": "status", "pending": ["PENDING"], "done": "DELIVERED", "failed": "FAILED"},
    "attempts": "attempts",
    "maxAttempts": {"column": "maxAttempts"},
    "record": {"lastAttemptAt": "lastAttemptAt", "lastError": "lastError", "doneAt": "deliveredAt"},
    "touch": ["updatedAt"],
}
SNAKE_DDL = """
CREATE TABLE app.deliveries (
    id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'new', tries smallint, next_try timestamptz DEFAULT now(),
    error varchar(40), finished_at timestamptz, body text NOT NULL DEFAULT 'hello', version integer NOT NULL DEFAULT 1,
    fence text, lease_until timestamptz, lost integer
);
CREATE INDEX deliveries_due ON app.deliveries (next_try) WHERE state = 'new';
CREATE INDEX deliveries_again ON app.deliveries (next_try) WHERE state = 'again';
CREATE INDEX deliveries_running ON app.deliveries (next_try) WHERE state = 'running';
"""
SNAKE = {
    "name": "app.deliveries",
    "id": "id",
    "dueAt": "next_try",
    "status": {"column": "state", "pending": ["new", "again"], "done": "done", "failed": "dead"},
    "attempts": "tries",
    "maxAttempts": 8,
    "record": {"lastError": "error", "doneAt": "finished_at"},
    "touch": ["version"],
}
UUID_DDL = """
CREATE TABLE app.jobs (
    job_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status varchar(20) NOT NULL DEFAULT 'pending', run_at timestamp NOT NULL, payload json
);
CREATE INDEX jobs_due ON app.jobs (status, run_at);
"""
COMPOSITE_DDL = """
CREATE TABLE app.tenant_events (
    tenant integer NOT NULL, at timestamptz NOT NULL, seq bigint NOT NULL, status smallint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0, due timestamptz, error jsonb, fence bigint, lease timestamptz, lost integer,
    PRIMARY KEY (tenant, at, seq)
);
CREATE INDEX tenant_events_due ON app.tenant_events (due) WHERE status = 0;
"""
COMPOSITE_NEW = """
INSERT INTO app.tenant_events (tenant, at, seq, due)
SELECT mod(n, 7), '2026-01-01 00:00:00.123456+00'::timestamptz + n * interval '1 us', (random() * 1e15)::bigint, {due}
FROM generate_series(1, {count}) AS n
RETURNING ARRAY[tenant::text, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), seq::text]"""
COMPOSITE = {
    "name": "app.tenant_events",
    "id": ["tenant", "at", "seq"],
    "dueAt": "due",
    "status": {"column": "status", "pending": ["0"], "done": "1", "failed": "2"},
    "attempts": "attempts",
    "record": {"lastError": "error"},
}
BARE_DDL = """
CREATE TABLE app.outbox (id serial PRIMARY KEY, sent char(1) NOT NULL DEFAULT 'n', made timestamp NOT NULL DEFAULT now());
CREATE INDEX outbox_unsent ON app.outbox (sent);
"""
SCHEDULES_DDL = """
CREATE TABLE app.schedules (
    id serial PRIMARY KEY, status varchar(20) NOT NULL DEFAULT 'active', next_run_timestamp timestamp without time zone,
    "interval" interval NOT NULL DEFAULT '1 month', updated_at timestamp without time zone NOT NULL DEFAULT now()
);
CREATE INDEX schedules_due ON app.schedules (next_run_timestamp) WHERE status = 'active';
CREATE FUNCTION app.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at = now(); RETURN NEW; END $$;
CREATE TRIGGER schedules_touch BEFORE UPDATE ON app.schedules FOR EACH ROW EXECUTE FUNCTION app.touch();
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTable:
    """`new` inserts {count} rows due at {due} (a timestamptz) and gives their keys as arrays of text."""

    label: str
    ddl: str
    table: Mapping[str, Any]
    new: str
    body: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    refusing: str = ""

    def manifest(self, **spec: Any) -> dict[str, Any]:
        """The WorkQueue's spec."""
        http = {"url": "http://receiver.test/hook", **({"bodyColumn": self.body} if self.body else {})}
        base = {"database": {"secretName": "db", "key": "uri"}, "table": dict(self.table), "deliver": {"http": http}}
        return {**base, **self.more, **spec}

    @property
    def name(self) -> str:
        return str(self.table["name"])

    @property
    def inline(self) -> Mapping[str, str] | None:
        return self.table.get("inline")


def inserting(columns: str, values: str, key: str) -> Callable[[str], str]:
    return lambda table: (
        f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, {{count}}) AS n RETURNING ARRAY[{key}::text]"
    )


def inline(table: Mapping[str, Any], **columns: str) -> dict[str, Any]:
    return {**table, "claim": "Inline", "inline": columns}


SNAKE_NEW = inserting("next_try", "{due}", "id")("app.deliveries")
TABLES = {
    made.label: made
    for made in (
        UserTable(label="prisma", ddl=PRISMA_DDL, table=PRISMA, new=PRISMA_NEW, body="payload"),
        UserTable(
            label="prisma inline",
            ddl=PRISMA_DDL + PRISMA_INLINE_DDL,
            table=inline(
                PRISMA, fence="claimFence", leaseUntil="claimUntil", reclaims="claimLost", claimedBy="claimedBy"
            ),
            new=PRISMA_NEW,
            body="payload",
        ),
        UserTable(label="snake", ddl=SNAKE_DDL, table=SNAKE, new=SNAKE_NEW, body="body"),
        UserTable(
            label="snake inline",
            ddl=SNAKE_DDL,
            table=inline(
                {**SNAKE, "status": {**SNAKE["status"], "running": "running"}},  # type: ignore[dict-item]
                fence="fence",
                leaseUntil="lease_until",
                reclaims="lost",
            ),
            new=SNAKE_NEW,
            body="body",
        ),
        UserTable(
            label="uuid",
            ddl=UUID_DDL,
            table={
                "name": "app.jobs",
                "id": "job_id",
                "dueAt": "run_at",
                "status": {"column": "status", "pending": ["pending"], "done": "done", "failed": "failed"},
            },
            new=inserting("run_at", "{due} AT TIME ZONE 'UTC'", "job_id")("app.jobs"),
            body="payload",
        ),
        UserTable(label="composite", ddl=COMPOSITE_DDL, table=COMPOSITE, new=COMPOSITE_NEW),
        UserTable(
            label="composite inline",
            ddl=COMPOSITE_DDL,
            table=inline(COMPOSITE, fence="fence", leaseUntil="lease", reclaims="lost"),
            new=COMPOSITE_NEW,
        ),
        UserTable(
            label="bare",
            ddl=BARE_DDL,
            table={
                "name": "app.outbox",
                "id": "id",
                "status": {"column": "sent", "pending": ["n"], "done": "y", "failed": "f"},
            },
            new=inserting("sent", "'n'", "id")("app.outbox"),
        ),
        UserTable(
            label="schedules",
            ddl=SCHEDULES_DDL,
            table={
                "name": "app.schedules",
                "id": "id",
                "dueAt": "next_run_timestamp",
                "status": {"column": "status", "pending": ["active"]},
                "outcome": "Handler",
            },
            new=inserting("next_run_timestamp", "{due} AT TIME ZONE 'UTC'", "id")("app.schedules"),
            more={"idempotencyKey": "PerDue"},
        ),
    )
}
