"""Names of tables and columns in a manifest.

A table is written as in SQL, quotes and all, since people copy it from there; a column as the database spells it, since ORMs
and schemas show it so. Both end up in their exact spelling.
"""

import re

from soloist.domain.queue_tables import TableName
from soloist.domain.spec_fields import Fields, required, shown, wrong

LONGEST_NAME = 63
"""Of an identifier, in bytes; PostgreSQL cuts what is longer."""

_COLUMN = re.compile(r'[^"\x00-\x1f\x7f]+')
_PART = r'(?:"([^"\x00-\x1f\x7f]+)"|([a-z_][a-z0-9_$]*))'
_NAME = re.compile(rf"{_PART}\.{_PART}")
_MEANT = re.compile(r'"[^"\x00-\x1f\x7f]+"|[A-Za-z_][A-Za-z0-9_$]*')
_MOST_COLUMNS = 16


def parse_table_name(parent: Fields, name: str) -> TableName:
    """Schema and table as SQL writes them. Capitals without quotes are refused: SQL would read small letters."""
    text = parent.text(name, 'schema and table, such as public."WebhookDelivery"', longest=2 * LONGEST_NAME + 5)
    path, match = parent.at(name), _NAME.fullmatch(text)
    if match is None:
        if _MEANT.fullmatch(text):
            raise wrong(path, f"{path} has no schema: write it in front, such as public.{_as_sql(text)}.")
        parts = text.split(".")
        if len(parts) == 2 and all(_MEANT.fullmatch(part) for part in parts):
            meant = ".".join(_as_sql(part) for part in parts)
            raise wrong(
                path, f"{path}: {text} has capitals outside quotes, which SQL reads as small letters: write {meant}."
            )
        raise wrong(
            path,
            f"{path} must be schema and table as SQL writes them, in double quotes where there are capitals or signs: "
            'such as public.deliveries or public."WebhookDelivery".',
        )
    schema, table = match[1] or match[2], match[3] or match[4]
    for part in (schema, table):
        _short(path, part)
    return TableName(schema, table)


def parse_column(parent: Fields, name: str) -> str | None:
    """A column's name as the database spells it."""
    if not parent.has(name):
        return None
    column = parent.text(name, "the name of a column, or remove it", longest=LONGEST_NAME)
    if not _COLUMN.fullmatch(column):
        path = parent.at(name)
        raise wrong(
            path, f"{path} must be a column's name as the table has it, without quotes: {shown(column)} is not."
        )
    _short(parent.at(name), column)
    return column


def required_column(parent: Fields, name: str, what: str) -> str:
    column = parse_column(parent, name)
    if column is None:
        raise required(parent.at(name), what)
    return column


def parse_columns(table: Fields, name: str) -> tuple[str, ...]:
    found = table.texts(name, longest=LONGEST_NAME, most=_MOST_COLUMNS)
    numbered = Fields({f"{name}[{number}]": column for number, column in enumerate(found)}, table.path)
    for item in numbered.raw:
        parse_column(numbered, item)
    return found


def _as_sql(part: str) -> str:
    return part if part == part.lower() or part.startswith('"') else f'"{part}"'


def _short(path: str, name: str) -> None:
    if (size := len(name.encode())) > LONGEST_NAME:
        raise wrong(path, f"{path} must have at most {LONGEST_NAME} bytes for a name, as in PostgreSQL: it has {size}.")
