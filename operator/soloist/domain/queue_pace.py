"""How fast a queue is worked, how often a row is tried, and what follows when it is given up."""

import re
from datetime import timedelta

from soloist.domain.queue_columns import required_column
from soloist.domain.queue_mapping import parse_max_attempts
from soloist.domain.queue_spec import Column, Concurrency, OnDead, PerKey, Poll, RetryRules
from soloist.domain.spec_fields import Fields, forbidden, shown, wrong
from soloist.domain.sql_text import NoParameter, Unreadable, numbered

WAITS = ("5s", "5m", "30m", "2h", "5h", "10h", "10h")
"""What webhook senders have settled on: eight attempts in a little more than a day."""

_WAIT = re.compile(r"(?:[0-9]{1,7}[smhd]){1,4}")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_WAIT = timedelta(days=30)
_MOST_WAITS = 32
_MOST_ATTEMPTS = 1000


def parse_poll(spec: Fields) -> Poll:
    if not spec.has("poll"):
        return Poll()
    poll = spec.nested("poll", "")
    least = poll.whole("minMilliseconds", 5, least=1, most=60000)
    most = poll.whole("maxMilliseconds", 250, least=1, most=60000)
    if least > most:
        path = poll.at("minMilliseconds")
        raise wrong(path, f"{path} must not exceed {poll.at('maxMilliseconds')}: lower the one or raise the other.")
    return Poll(least=timedelta(milliseconds=least), most=timedelta(milliseconds=most), listen=poll.flag("listen"))


def parse_retry(spec: Fields, table: Fields | None) -> RetryRules:
    """``table`` is None where the rows are ours; then the number of attempts is under ``retry``, else under ``table``."""
    retry = spec.nested("retry", "") if spec.has("retry") else Fields({}, spec.at("retry"))
    schedule = _schedule(retry)
    return RetryRules(
        schedule=schedule,
        jitter=retry.number("jitter", 0.2, least=0, most=1),
        max_attempts=_max_attempts(retry, table, default=len(schedule) + 1),
        retry_after_cap=timedelta(seconds=retry.whole("maxRetryAfterSeconds", 3600, least=0, most=604800)),
    )


def parse_concurrency(spec: Fields, *, mapped: bool) -> Concurrency:
    if not spec.has("concurrency"):
        return Concurrency()
    concurrency = spec.nested("concurrency", "")
    per_worker = concurrency.whole("perWorker", 64, least=1, most=1000)
    if not concurrency.has("perKey"):
        return Concurrency(per_worker=per_worker)
    per_key = concurrency.nested("perKey", "")
    if not mapped:
        raise forbidden(
            per_key.path, f"{per_key.path} names a column of your own table: write spec.table, or remove perKey."
        )
    return Concurrency(
        per_worker=per_worker,
        per_key=PerKey(
            column=required_column(per_key, "column", "the column whose equal values share the limit"),
            limit=per_key.whole("limit", 1, least=1, most=1000),
        ),
    )


def parse_on_dead(spec: Fields, *, keys: int) -> OnDead | None:
    """``keys`` is how many columns the primary key has."""
    if not spec.has("onDead"):
        return None
    on_dead = spec.nested("onDead", "")
    statement = on_dead.text("sql", "one SQL statement", longest=65536)
    ids = ("id",) if keys == 1 else tuple(f"id{number}" for number in range(1, keys + 1))
    path, known = on_dead.at("sql"), (*ids, "queue", "reason", "error", "attempt")
    try:
        read = numbered(statement, known)
    except NoParameter as problem:
        there_are = ", ".join(f":{name}" for name in known)
        raise wrong(path, f"{path} names {problem.text}, which is no parameter; there are {there_are}.") from problem
    except Unreadable as problem:
        raise wrong(path, f"{path} {problem}.") from problem
    return OnDead(statement=read.text, values=read.names)


def _schedule(retry: Fields) -> tuple[timedelta, ...]:
    if not retry.has("schedule"):
        return tuple(_wait("", text) for text in WAITS)
    texts = retry.raw["schedule"]
    path = retry.at("schedule")
    if not isinstance(texts, list | tuple) or not 1 <= len(texts) <= _MOST_WAITS:
        raise wrong(path, f"{path} must be a list of 1 to {_MOST_WAITS} waits, such as [5s, 5m, 2h].")
    return tuple(_wait(f"{path}[{number}]", text) for number, text in enumerate(texts))


def _wait(path: str, text: object) -> timedelta:
    if isinstance(text, str) and _WAIT.fullmatch(text):
        parts = re.findall(r"([0-9]+)([smhd])", text)
        wait = timedelta(seconds=sum(int(count) * _SECONDS[unit] for count, unit in parts))
        if timedelta(seconds=1) <= wait <= _LONGEST_WAIT:
            return wait
    raise wrong(
        path,
        f"{path} must be whole seconds, minutes, hours or days, from 1s to 30d, such as 5s or 1h30m: {shown(text)} is not.",
    )


def _max_attempts(retry: Fields, table: Fields | None, *, default: int) -> int | Column:
    if table is None:
        return retry.whole("maxAttempts", default, least=1, most=_MOST_ATTEMPTS)
    if retry.has("maxAttempts"):
        path = retry.at("maxAttempts")
        raise forbidden(path, f"{path} is for the rows of soloist.work_items: write {table.at('maxAttempts')} instead.")
    return parse_max_attempts(table, default, _MOST_ATTEMPTS)
