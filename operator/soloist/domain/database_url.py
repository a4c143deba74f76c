"""A database URL, or libpq's keyword string, taken apart into libpq's own words: user, password, host, port, dbname …

Read as Prisma and browsers read one, not as libpq does: the last @ before the path ends the password, so one that holds
an @ works as it does in the application. Several hosts are libpq's way. No message repeats a piece of the text: a value
that is misread may be part of the password.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from soloist.domain.errors import PermanentError

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user:password@host:5432/database"
UNREADABLE = (
    "The database URL's host cannot be read; where the password holds one of / ? # [ ] @ it has to be encoded, "
    "%2F %3F %23 %5B %5D %40."
)
_SCHEME = re.compile(r"([A-Za-z][\w+.:-]*?)://")
_HALF_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(\[[^\]\[]*\]|[^:\[\]]*)(?::(\d*))?")
# key = value, where a value with spaces stands in quotes and a backslash takes the next character as it is.
_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^'\\\s]|\\.)(?:[^\\\s]|\\.)*)|)(?=\s|$)", re.DOTALL)


def taken_apart(text: str) -> dict[str, str]:
    """Every piece by its keyword, decoded. Raises PermanentError where it is neither a URL nor a keyword string."""
    text = text.strip()
    if not text:
        raise PermanentError(f"The database URL is empty: write {EXAMPLE}.")
    if text[0] in "\"'`":
        raise PermanentError("The database URL begins with a quotation mark, which is no part of a URL: take it out.")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _keywords(text)
    if scheme[1] not in SCHEMES:
        raise PermanentError(_foreign(scheme[1]))
    return dict(_url(text[scheme.end() :]))


def _foreign(scheme: str) -> str:
    begins = f"The database URL begins with {scheme[:40]}://"
    if scheme.startswith("prisma"):
        return f"{begins}, which is Prisma's own protocol over HTTP: give the direct URL of the database, {EXAMPLE}."
    if any(name in scheme for name in SCHEMES):
        return f"{begins}, which names a driver of another language or library too: write {EXAMPLE}."
    return f"{begins}, which is not PostgreSQL's: write {EXAMPLE}."


def _url(rest: str) -> Iterator[tuple[str, str]]:
    if "#" in rest:
        raise PermanentError("The database URL has a # in it, which ends a URL: write %23 for one in the password.")
    before, _, query = rest.partition("?")
    authority, _, path = before.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    if "@" in path or "@" in query or (not at and "@" in rest):
        raise PermanentError(
            UNREADABLE
        )  # a part of a password may have been taken for the database's name, or a parameter's
    user, colon, password = userinfo.partition(":")
    if at and user:
        yield "user", _decoded(user, "user")
    if colon:
        yield "password", _decoded(password, "password")
    yield from _hosts(hosts)
    if path:
        yield "dbname", _decoded(path, "database's name")
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        name = _decoded(name, "name of a parameter")
        # A plus is a space in a query as a browser writes it, and means nothing in libpq's options.
        yield name, _decoded(value.replace("+", " ") if name == "options" else value, f"parameter {name[:40]}")


def _hosts(text: str) -> Iterator[tuple[str, str]]:
    found = [_HOST.fullmatch(part) for part in text.split(",")]
    if None in found:
        raise PermanentError(UNREADABLE)
    hosts = [_decoded(match[1].strip("[]"), "host") for match in found if match]
    ports = [match[2] or "" for match in found if match]
    if any(hosts):
        yield "host", ",".join(hosts)
    if any(ports):
        yield "port", ",".join(ports)


def _decoded(text: str, what: str) -> str:
    if _HALF_ENCODED.search(text):
        raise PermanentError(
            f"The database URL's {what} has a % that is not followed by two hexadecimal digits: write %25 for a percent sign."
        )
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise PermanentError(f"The database URL's {what} is not UTF-8 once it is decoded: encode it anew.") from None
    if "\x00" in decoded:
        raise PermanentError(f"The database URL's {what} holds a zero byte (%00): take it out.")
    return decoded


def _keywords(text: str) -> dict[str, str]:
    found, position = {}, 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            raise PermanentError(
                f"The database URL is neither a URL nor a string of keywords: write {EXAMPLE}, "
                "or host=… user=… dbname=… with values in single quotes where they hold a space."
            )
        value = pair[2] if pair[2] is not None else pair[3] or ""
        found[pair[1]] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        position = pair.end()
        position += len(text[position:]) - len(text[position:].lstrip())
    return found
