"""What commands print: tables and sentences for people, the same as JSON or YAML for programs, and complaints."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml

from soloist.shells.cli_advice import worded

WIDEST = 48


class Complaint(click.ClickException):
    """A sentence on stderr and exit code 1."""

    def __init__(self, message: str) -> None:
        super().__init__(worded(message))


class WrongWords(Complaint):
    """The same for what was wrong in the command line itself: exit code 2."""

    exit_code = 2


def emit(output: str, document: Any, text: Iterable[str]) -> None:
    """``document`` for -o json and -o yaml, the lines of ``text`` for -o table."""
    match output:
        case "json":
            click.echo(json.dumps(worded(document), indent=2, ensure_ascii=False))
        case "yaml":
            click.echo(yaml.safe_dump(worded(document), sort_keys=False, allow_unicode=True), nl=False)
        case _:
            for line in text:
                say(line)


def say(line: str, *, err: bool = False) -> None:
    """One line; ``err``: on stderr."""
    click.echo(worded(line), err=err)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns of even width, two spaces between; an empty cell is a dash, the last column is not cut."""
    cells = [list(header), *([_cut(cell) for cell in row[:-1]] + [row[-1] or "-"] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cut(cell: str) -> str:
    text = cell or "-"
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def indented(lines: Iterable[str], by: str = "  ") -> list[str]:
    return [f"{by}{line}" for line in lines]
