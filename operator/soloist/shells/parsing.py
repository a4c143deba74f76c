"""From the text of a flag or of a variable to the value of a settings field, or to a sentence that says what to write."""

import dataclasses
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args, get_origin

from soloist.domain.errors import ConfigError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
LINK = re.compile(r"(tcp|udp|sctp)://")
"""What Kubernetes writes into NAME_PORT for each Service: one named soloist-health must not keep a controller from starting."""


def setting(default: Any, meaning: str, *, flag: str | None = "") -> Any:
    """A field with its row of the table; ``flag`` None: by the environment only."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "flag": flag})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting: ``kind`` is its Python type, ``several`` whether the flag may be repeated (the variable: with commas)."""

    name: str
    flag: str | None
    env: str
    kind: Any
    several: bool
    default: Any
    meaning: str

    @classmethod
    def of(cls, field: "dataclasses.Field[Any]") -> "Row":
        own = field.metadata["flag"]
        flag = own if own or own is None else "--" + field.name.replace("_", "-")
        several = get_origin(field.type) is tuple
        return cls(
            name=field.name,
            flag=flag,
            env="SOLOIST_" + (flag or field.name).lstrip("-").replace("-", "_").upper(),
            kind=get_args(field.type)[0] if several else field.type,
            several=several,
            default=field.default,
            meaning=field.metadata["meaning"],
        )


def table(kind: type[Any]) -> list[Row]:
    """The rows of a settings class, in the order of its fields."""
    return [Row.of(field) for field in dataclasses.fields(kind)]


def gathered(rows: Sequence[Row], flags: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """What was given, by field name: a flag (None or () where it was not given), else the variable."""
    values: dict[str, Any] = {}
    for row in rows:
        given = flags.get(row.name)
        if given is not None and given != ():
            values[row.name] = parse(row, given, named=row.flag or row.env)
        elif env.get(row.env) and not LINK.match(env[row.env]):
            values[row.name] = parse(row, env[row.env], named=row.env)
    return values


def parse(row: Row, given: Any, *, named: str) -> Any:
    """The value of ``row`` from what was given under the name ``named``."""
    if not row.several:
        return _one(row.kind, given, named)
    parts = given.split(",") if isinstance(given, str) else given
    return tuple(_one(row.kind, part.strip(), named) for part in _listed(parts) if part.strip())


def _listed(parts: Sequence[str]) -> list[str]:
    return [piece for part in parts for piece in part.split(",")]


def _one(kind: Any, given: Any, named: str) -> Any:
    if kind is Network:
        try:
            return ipaddress.ip_network(given)
        except ValueError as error:
            raise ConfigError(
                f"{named} is {given!r}: write a network such as 10.0.0.0/8 or fd00::/8 ({error})."
            ) from error
    if kind is bool:
        known = given if isinstance(given, bool) else _WORDS.get(given.lower())
        if known is None:
            raise ConfigError(f"{named} is {given!r}: write true or false.")
        return known
    if issubclass(kind, StrEnum):
        try:
            return kind(given.lower())
        except ValueError as error:
            raise ConfigError(f"{named} is {given!r}: write one of {', '.join(kind)}.") from error
    try:
        value = kind(given)
    except ValueError as error:
        raise ConfigError(f"{named} is {given!r}: write a {'whole ' if kind is int else ''}number.") from error
    if isinstance(value, float) and not abs(value) < 1e9:
        raise ConfigError(f"{named} is {given!r}: write a number of seconds.")
    return value
