"""The ``sql`` and ``enqueue`` actions of a spec."""

import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from soloist.domain.actions import EnqueueAction, KeyRef, SqlAction
from soloist.domain.spec_fields import Fields, shown, wrong
from soloist.domain.sql_text import Unreadable, is_name, numbered
from soloist.domain.sql_values import Value, texts_problem
from soloist.domain.templates import template_problem

_MOST_PARAMETERS = 64
_LONGEST_VALUE = 4096
_LARGEST_PAYLOAD = 65536
_DEEPEST_PAYLOAD = 32
_YEAR = 365 * 86400


def parse_sql(sql: Fields) -> SqlAction:
    """Read ``spec.sql``; raises ``Refusal``."""
    database = _database(sql)
    statement = sql.text("statement", "one SQL statement", longest=65536)
    parameters = _parameters(sql)
    try:
        read = numbered(statement, parameters)
    except Unreadable as problem:
        raise wrong(sql.at("statement"), f"{sql.at('statement')} {problem}.") from problem
    unused = [name for name in parameters if name not in read.names]
    if unused:
        path = f"{sql.at('parameters')}.{unused[0]}"
        raise wrong(path, f"{path} is not used: write :{unused[0]} in {sql.at('statement')}, or remove it.")
    return SqlAction(database=database, statement=read.text, values=tuple(parameters[name] for name in read.names))


def parse_enqueue(enqueue: Fields) -> EnqueueAction:
    """Read ``spec.enqueue``; raises ``Refusal``."""
    named = enqueue.has("workQueue")
    database, queue = enqueue.has("databaseRef"), enqueue.has("queue")
    if named == database or database != queue:
        raise wrong(enqueue.path, f"{enqueue.path}: write either workQueue, or databaseRef and queue.")
    return EnqueueAction(
        work_queue=enqueue.text("workQueue", "the name of a WorkQueue", longest=253) if named else "",
        database=None if named else _database(enqueue),
        queue="" if named else enqueue.text("queue", "the name of a queue in soloist.work_items", longest=253),
        payload=_payload(enqueue),
        due_in=timedelta(seconds=enqueue.whole("dueInSeconds", 0, least=0, most=_YEAR)),
        priority=enqueue.whole("priority", 1, least=0, most=3),
        unique_key=_unique_key(enqueue),
    )


def _database(action: Fields) -> KeyRef:
    ref = action.nested("databaseRef", "secretName and key under it")
    return KeyRef(
        kind="Secret",
        name=ref.text("secretName", "the name of a Secret", longest=253),
        key=ref.text("key", "the key that holds a PostgreSQL URI", longest=253),
    )


def _parameters(sql: Fields) -> dict[str, Value]:
    if not sql.has("parameters"):
        return {}
    given = sql.nested("parameters", "names and values")
    if len(given.raw) > _MOST_PARAMETERS:
        raise wrong(
            given.path, f"{given.path} must have at most {_MOST_PARAMETERS} parameters: it has {len(given.raw)}."
        )
    return {_name(given, name): _value(given, name) for name in given.raw if given.has(name)}


def _name(given: Fields, name: Any) -> str:
    if not isinstance(name, str) or not is_name(name):
        raise wrong(
            given.path, f"{given.path}: {shown(name)} cannot be a name: write letters, digits and _, a letter first."
        )
    return name


def _value(given: Fields, name: str) -> Value:
    value, path = given.raw[name], given.at(name)
    if isinstance(value, str):
        text = given.optional_text(name, longest=_LONGEST_VALUE) or ""
        problem = "holds a NUL character, which no text of PostgreSQL may" if "\0" in text else template_problem(text)
        if problem is not None:
            raise wrong(path, f"{path} {problem}.")
        return text
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise wrong(
        path,
        f"{path} must be text, a number, true or false: {shown(value)} is not; write JSON as text and :{name}::jsonb.",
    )


def _payload(enqueue: Fields) -> Mapping[str, Any]:
    if not enqueue.has("payload"):
        return {}
    payload = enqueue.nested("payload", "a JSON object")
    path = payload.path
    if _depth(payload.raw) > _DEEPEST_PAYLOAD:
        raise wrong(path, f"{path} is nested deeper than {_DEEPEST_PAYLOAD} levels: flatten it.")
    try:
        size = len(json.dumps(payload.raw, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise wrong(
            path, f"{path} must be a JSON object: write texts, numbers, true, false, null, lists and objects."
        ) from error
    if size > _LARGEST_PAYLOAD:
        raise wrong(path, f"{path} must be at most {_LARGEST_PAYLOAD} bytes of JSON: it has {size}.")
    if (problem := texts_problem(payload.raw)) is not None:
        raise wrong(path, f"{path} {problem}.")
    return payload.raw


def _depth(value: Any) -> int:
    """Level by level, so that no depth is too deep to be counted."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for outer in level
            for item in (
                outer.values() if isinstance(outer, Mapping) else outer if isinstance(outer, list | tuple) else ()
            )
        ]
    return depth


def _unique_key(enqueue: Fields) -> str | None:
    if not enqueue.has("uniqueKey"):
        return None
    key = enqueue.text("uniqueKey", "a key, such as {key}", longest=253)
    path = enqueue.at("uniqueKey")
    if "\0" in key:
        raise wrong(path, f"{path} holds a NUL character, which no text of PostgreSQL may.")
    if (problem := template_problem(key)) is not None:
        raise wrong(path, f"{path} {problem}.")
    return key
