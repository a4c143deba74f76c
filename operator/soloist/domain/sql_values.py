"""What a ``sql`` or ``enqueue`` action sends to the database: values for parameters, a payload, a key, and never text of SQL.

Templates have the variables of an http action's body. A parameter that is nothing but ``{scheduledTime}`` is NULL for a
manual run, which has no such time.
"""

from collections.abc import Mapping
from typing import Any

from soloist.domain.actions import EnqueueAction, Order, SqlAction
from soloist.domain.http_request import variables
from soloist.domain.templates import render, template_problem

Value = str | int | float | bool | None

_TIME = "{scheduledTime}"


def bound(order: Order, action: SqlAction) -> list[Value]:
    """One value for each ``$n``, in their order. Text goes without a type, so that the statement decides it."""
    values = variables(order)
    return [_value(value, values) for value in action.values]


def payload(order: Order, action: EnqueueAction) -> Any:
    """The row's payload, the variables in its texts filled in."""
    return _rendered(action.payload, variables(order))


def unique_key(order: Order, action: EnqueueAction) -> str | None:
    return None if action.unique_key is None else render(action.unique_key, variables(order))


def texts_problem(value: Any) -> str | None:
    """What is wrong with a text anywhere in a payload, as the end of a sentence that begins with its field."""
    match value:
        case str():
            return _text_problem(value) or template_problem(value)
        case Mapping():
            problems = (_key_problem(key) or texts_problem(item) for key, item in value.items())
        case list() | tuple():
            problems = (texts_problem(item) for item in value)
        case _:
            return None
    return next((problem for problem in problems if problem is not None), None)


def _key_problem(key: Any) -> str | None:
    return _text_problem(key) if isinstance(key, str) else "has a key that is no text"


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character, which a jsonb cannot"
    half = not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    return "holds half of a character (a lone surrogate); write the whole one" if half else None


def _value(value: Value, values: Mapping[str, str]) -> Value:
    if not isinstance(value, str):
        return value
    if value == _TIME and not values["scheduledTime"]:
        return None
    return render(value, values)


def _rendered(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return render(value, values)
        case Mapping():
            return {key: _rendered(item, values) for key, item in value.items()}
        case list() | tuple():
            return [_rendered(item, values) for item in value]
    return value
