"""A WorkQueue's spec out of the mapping that somebody wrote, or the one sentence that says why it cannot be used.

As ``parse_spec`` for a ScheduledJob: whatever it is given, it returns; every default is applied and every bound checked
here, so that it means the same with an API server, with an older schema, and without Kubernetes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from soloist.domain.queue_delivery import VARIABLES
from soloist.domain.queue_http import parse_deliver
from soloist.domain.queue_mapping import parse_table
from soloist.domain.queue_pace import parse_concurrency, parse_on_dead, parse_poll, parse_retry
from soloist.domain.queue_spec import (
    AfterCrash,
    Column,
    Concurrency,
    DatabaseRef,
    Deliver,
    External,
    HttpDelivery,
    KeyPer,
    Lookup,
    ManagedTable,
    MappedTable,
    OutcomeBy,
    QueueSpec,
    RetryRules,
    UrlColumn,
)
from soloist.domain.spec_fields import Fields, Invalid, Refusal, fields, forbidden, wrong
from soloist.domain.templates import names_in

__all__ = ["Invalid", "parse_queue"]


def parse_queue(raw: Mapping[str, Any]) -> QueueSpec | Invalid:
    """Read ``WorkQueue.spec`` as the API server gives it; defaults may be absent. Never raises."""
    try:
        return _queue(fields(raw, "spec"))
    except Refusal as refusal:
        return refusal.invalid


def _queue(spec: Fields) -> QueueSpec:
    database = spec.nested("database", "secretName and key under it")
    table_fields = spec.nested("table", "") if spec.has("table") else None
    table = ManagedTable() if table_fields is None else parse_table(table_fields)
    deliver = parse_deliver(spec, mapped=table_fields is not None)
    _refuse_what_only_our_workers_do(spec, deliver)
    retry = parse_retry(spec, table_fields)
    concurrency = parse_concurrency(spec, mapped=table_fields is not None)
    if isinstance(table, MappedTable):
        table = replace(table, columns=tuple(dict.fromkeys(_read(deliver, retry, concurrency))))
    after_crash = spec.choice("afterCrash", AfterCrash.RETRY)
    return QueueSpec(
        suspend=spec.flag("suspend"),
        database=DatabaseRef(
            secret_name=database.text("secretName", "the name of a Secret", longest=253),
            key=database.text("key", "the key that holds a PostgreSQL URI", longest=253),
        ),
        table=table,
        after_crash=after_crash,
        max_reclaims=_max_reclaims(spec, after_crash),
        deliver=deliver,
        idempotency_key=_key(spec, table),
        lease=_lease(spec, deliver),
        poll=parse_poll(spec),
        retry=retry,
        concurrency=concurrency,
        on_dead=parse_on_dead(spec, keys=len(table.id) if isinstance(table, MappedTable) else 1),
    )


def _max_reclaims(spec: Fields, after_crash: AfterCrash) -> int:
    if spec.has("maxReclaims") and after_crash is AfterCrash.HOLD:
        path = spec.at("maxReclaims")
        raise forbidden(
            path, f"{path} has no meaning with afterCrash: Hold, which hands out no such row again: remove it."
        )
    return spec.whole("maxReclaims", 5, least=0, most=100)


def _key(spec: Fields, table: ManagedTable | MappedTable) -> KeyPer:
    """A row that the application moves comes due again, and each time is another message."""
    path = spec.at("idempotencyKey")
    again = isinstance(table, MappedTable) and table.outcome is OutcomeBy.HANDLER
    dated = isinstance(table, MappedTable) and table.due_at is not None
    key = spec.choice("idempotencyKey", KeyPer.DUE if again and dated else KeyPer.MESSAGE)
    if key is KeyPer.DUE and not (again and dated):
        raise wrong(
            path,
            f"{path}: PerDue is for rows that come due again, with outcome: Handler and dueAt; otherwise a retry changes the due "
            "time, and the key with it: write PerMessage or PerAttempt.",
        )
    if key is KeyPer.ATTEMPT and again:
        raise wrong(
            path,
            f"{path}: PerAttempt would repeat with outcome: Handler, whose attempts are counted anew each time that a row comes "
            "due: write PerDue or PerMessage.",
        )
    return key


def _lease(spec: Fields, deliver: Deliver) -> timedelta:
    lease = timedelta(seconds=spec.whole("leaseSeconds", 60, least=5, most=86400))
    if isinstance(deliver, HttpDelivery) and lease <= deliver.timeout:
        path = spec.at("leaseSeconds")
        raise wrong(
            path,
            f"{path} must be greater than spec.deliver.http.timeoutSeconds, or a slow request could outlive its claim: raise the "
            "one or lower the other.",
        )
    return lease


def _refuse_what_only_our_workers_do(spec: Fields, deliver: Deliver) -> None:
    if not isinstance(deliver, External):
        return
    for name in ("poll", "concurrency", "onDead"):
        if spec.has(name):
            path = spec.at(name)
            raise forbidden(
                path, f"{path} is for Soloist's own workers, which leave an external queue alone: remove it."
            )


def _read(deliver: Deliver, retry: RetryRules, concurrency: Concurrency) -> Iterator[str]:
    """The columns that a delivery needs of a row."""
    if isinstance(deliver, HttpDelivery):
        if deliver.body_column is not None:
            yield deliver.body_column
        match deliver.target:
            case UrlColumn(column=column):
                yield column
            case Lookup(key=key, url_column=url_column):
                yield key
                if url_column is not None:
                    yield url_column
        for header in deliver.headers:
            yield from (name for name in names_in(header.value or "") if name not in VARIABLES)
    if isinstance(retry.max_attempts, Column):
        yield retry.max_attempts.name
    if concurrency.per_key is not None:
        yield concurrency.per_key.column
