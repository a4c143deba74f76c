"""A statement with named parameters (``:days``) as PostgreSQL takes one: ``$1``, with the values beside it.

Nothing is ever spliced in: a name becomes a number, and the value goes to the server by itself. What is quoted, commented
or a cast (``::text``) is left as it is, by PostgreSQL's own rules for quotes, so that a colon in a text is no parameter.
Read strictly: what cannot be told apart for sure is refused with a sentence, not guessed.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<quoted>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*
        |\$(?P<tag>(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?)\$.*?\$(?P=tag)\$)
      |(?P<plain>::|:=|[0-9]+)
      |:(?P<name>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<dollar>\$[0-9]+)
      |(?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)
      |(?P<open>/\*)
      |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_ENDS_THE_TRANSACTION = frozenset(
    {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE"}
)
_OUTLASTS_THE_TRANSACTION = frozenset({"SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "LOAD", "DEALLOCATE"})


class Unreadable(Exception):
    """The end of a sentence that begins with the statement's field."""


class NoParameter(Unreadable):
    """``text`` stands where a parameter does, and is none of those that are known."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(problem)
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """The statement with ``$1`` for the first of ``names``, and so on."""

    text: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    parts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    brackets: int = 0
    ended: bool = False

    def number(self, name: str) -> str:
        if name not in self.names:
            self.names.append(name)
        return f"${self.names.index(name) + 1}"


def is_name(name: str) -> bool:
    """Whether a parameter may be called so."""
    return _NAME.fullmatch(name) is not None


def numbered(statement: str, known: Collection[str]) -> Numbered:
    """Raises ``Unreadable``. Only names that are ``known`` are parameters."""
    if "\0" in statement:
        raise Unreadable("holds a NUL character; take it out")
    reading = _Reading()
    for kind, text in _tokens(statement):
        if reading.ended and kind not in ("comment", "space", "end"):
            if "ATOMIC" not in reading.words:
                raise Unreadable(
                    "holds more than one statement; write one (WITH, a DO block or a function may hold several)"
                )
            reading.ended = False
        reading.parts.append(_part(reading, kind, text, known))
    if not reading.words:
        raise Unreadable("holds no statement; write one, such as DELETE FROM sessions WHERE expires_at < now()")
    if reading.words[0] in _ENDS_THE_TRANSACTION:
        raise Unreadable(
            f"begins with {reading.words[0]}; the statement runs inside a transaction of Soloist's, which also records the run"
        )
    if reading.words[0] in _OUTLASTS_THE_TRANSACTION:
        raise Unreadable(
            f"begins with {reading.words[0]}; connections are shared, and nothing may last longer than the transaction"
        )
    return Numbered(text="".join(reading.parts), names=tuple(reading.names))


def _part(reading: _Reading, kind: str, text: str, known: Collection[str]) -> str:
    match kind:
        case "name" if text[1:] in known:
            return reading.number(text[1:])
        case "name" if not reading.brackets:
            raise NoParameter(text, f"names {text}, which is not among its parameters; add it there")
        case "dollar":
            raise NoParameter(
                text, f"holds {text}; write named parameters, such as :days, and their values in parameters"
            )
        case "word":
            reading.words.append(text.upper())
        case "end":
            reading.ended = True
        case "other":
            reading.brackets += (text == "[") - (text == "]")
    return text


def _tokens(statement: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(statement):
        match = _TOKEN.match(statement, at)
        if match is None:
            raise Unreadable("cannot be read")
        kind, text = str(match.lastgroup), match.group()
        if kind == "tag":
            kind = "quoted"
        if kind == "open":
            kind, text = "comment", statement[at : _end_of_comment(statement, at)]
        elif kind == "quoted" and text.startswith("--"):
            kind = "comment"
        elif kind == "other":
            kind = _kind(text, statement, at)
        yield kind, text
        at += len(text)


def _kind(text: str, statement: str, at: int) -> str:
    if text in "'\"" or (text == "$" and re.match(r"\$(?:[A-Za-z_]\w*)?\$", statement[at : at + 80])):
        raise Unreadable("has a quote that is not closed; close it")
    if text == ";":
        return "end"
    return "space" if text.isspace() else "other"


def _end_of_comment(statement: str, start: int) -> int:
    """Comments nest."""
    depth = 0
    for mark in _COMMENT.finditer(statement, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    raise Unreadable("has a comment that is not closed; close it")
