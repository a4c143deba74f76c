"""Reading a mapping that somebody else wrote, one typed field at a time, so that every refusal is a sentence.

The API server has checked most of this already. It is checked again because an object may be older than its schema, and
because without Kubernetes nothing else checks it. A null counts as absent, as it does there. Fields that we do not know
are passed over: during an upgrade the schema may be newer than the program.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """A spec that cannot be used: the field, one word for programs, and a sentence that says what to write instead."""

    field: str
    reason: str
    message: str


class Refusal(Exception):
    """Carries an ``Invalid`` up to ``parse_spec``, which returns it; never leaves the domain."""

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.invalid = Invalid(field=field, reason=reason, message=message)


def required(path: str, what: str) -> Refusal:
    return Refusal(path, "FieldRequired", f"{path} is required: write {what}.")


def wrong(path: str, message: str) -> Refusal:
    return Refusal(path, "FieldInvalid", message)


def forbidden(path: str, message: str) -> Refusal:
    return Refusal(path, "FieldForbidden", message)


@dataclass(frozen=True, slots=True)
class Fields:
    """The mapping at ``path``. Each reader returns a value of its type or raises ``Refusal``."""

    raw: Mapping[str, Any]
    path: str

    def has(self, name: str) -> bool:
        return self.raw.get(name) is not None

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    def text(self, name: str, what: str, *, longest: int, default: str | None = None) -> str:
        """Text of 1 to ``longest`` characters; ``what`` says what to write where it is missing."""
        value = self.raw.get(name, default)
        value = default if value is None else value
        if value is None or value == "":
            raise required(self.at(name), what)
        return self._checked_text(name, value, longest)

    def optional_text(self, name: str, *, longest: int) -> str | None:
        """Text of at most ``longest`` characters, possibly empty, or None where there is none."""
        return self._checked_text(name, self.raw[name], longest) if self.has(name) else None

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        value = self.raw.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise wrong(
                self.at(name), f"{self.at(name)} must be a whole number from {least} to {most}: {shown(value)} is not."
            )
        return value

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        value = self.raw.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise wrong(
                self.at(name), f"{self.at(name)} must be a number from {least:g} to {most:g}: {shown(value)} is not."
            )
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(self.at(name), f"{self.at(name)} must be true or false: {shown(value)} is neither.")
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        value = self.raw.get(name)
        if value is None:
            return default
        known = {str(item): item for item in type(default)}
        if not isinstance(value, str) or value not in known:
            raise wrong(self.at(name), f"{self.at(name)} must be one of {', '.join(known)}: {shown(value)} is not.")
        return known[value]

    def nested(self, name: str, what: str) -> "Fields":
        value = self.raw.get(name)
        if value is None:
            raise required(self.at(name), what)
        return fields(value, self.at(name))

    def items(self, name: str, *, most: int) -> list["Fields"]:
        """The mappings of a list, each with its number in its path."""
        value = self.raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or len(value) > most:
            raise wrong(self.at(name), f"{self.at(name)} must be a list of at most {most} items.")
        return [fields(item, f"{self.at(name)}[{number}]") for number, item in enumerate(value)]

    def texts(self, name: str, *, longest: int, most: int) -> tuple[str, ...]:
        """The texts of a list, each of 1 to ``longest`` characters and there once; none where there is no list."""
        value = self.raw.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > most:
            raise wrong(self.at(name), f"{self.at(name)} must be a list of at most {most} texts.")
        numbered = Fields({f"{name}[{number}]": item for number, item in enumerate(value)}, self.path)
        found = tuple(numbered.text(item, "a text, or remove it", longest=longest) for item in numbered.raw)
        twice = [item for item in found if found.count(item) > 1]
        if twice:
            raise wrong(self.at(name), f"{self.at(name)} has {shown(twice[0])} twice: remove one.")
        return found

    def _checked_text(self, name: str, value: object, longest: int) -> str:
        path = self.at(name)
        if not isinstance(value, str):
            raise wrong(path, f"{path} must be text: put it in quotes.")
        if len(value) > longest:
            raise wrong(path, f"{path} must have at most {longest} characters: it has {len(value)}.")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise wrong(path, f"{path} holds half of a character (a lone surrogate): write the whole one.")
        return value


def fields(value: object, path: str) -> Fields:
    """``value`` as a mapping with text for keys."""
    if not isinstance(value, Mapping):
        raise wrong(path, f"{path} must be a mapping of names to values: {shown(value)} is not.")
    return Fields(value, path)


def shown(value: object) -> str:
    """``value`` as a message shows it, short whatever it is."""
    if isinstance(value, bool | float):
        return repr(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else "so large a number"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:59] + "…")
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list | tuple) else "this"
