"""What an answer means, and the little of it that is kept.

A status that the action expects is a success, whatever it is. 408, 425, 429 and 5xx are the receiver saying "not now":
known failures worth another attempt, not before its Retry-After. Any other answer stays the same however often it is asked.
Retry-After as a date is read against the Date of the same reply: both are on the receiver's clock.

Receivers echo. Whatever secret was sent is struck out of the excerpt, in the spellings that it may come back in, and the
ragged end of a reply that was cut short is left out, since it may hold the first half of one.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import quote, quote_plus

from soloist.domain.actions import FailedKnown, Outcome, Response, Succeeded
from soloist.domain.http_request import HttpReason

EXCERPT_BYTES = 1024
LOOKED_AT = 4 * EXCERPT_BYTES
"""Of a reply, at the most: some charsets, and secrets that are sought in it, take a time that grows with its square."""
NOT_NOW = frozenset({408, 425, 429})
_CHARSET = re.compile(
    r";\s*charset\s*=\s*\"?"
    r"(utf-?8|utf-?16(?:le|be)?|us-ascii|iso-8859-\d\d?|windows-125\d|koi8-[ru]|shift_jis|euc-(?:jp|kr)|gb(?:k|2312|18030)|big5)"
    r"(?![\w-])",
    re.IGNORECASE,
)
_LONGEST_WAIT = timedelta(days=366)
_SHORTEST_PART = 6


def classify(
    response: Response, *, status: int, expected: tuple[tuple[int, int], ...], headers: Mapping[str, str]
) -> Outcome:
    """The outcome of an attempt that was answered with ``status``; ``headers`` by lower-case names."""
    if any(low <= status <= high for low, high in expected):
        return Succeeded(message=f"The receiver answered {status}.", response=response)
    asked = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in expected)
    message = f"The receiver answered {status}, expected was {asked}."
    if status in NOT_NOW or 500 <= status <= 599:
        return FailedKnown(
            reason=HttpReason.UNEXPECTED_STATUS,
            message=message,
            retryable=True,
            response=response,
            retry_after=retry_after(headers.get("retry-after"), date=headers.get("date")),
        )
    if 300 <= status <= 399:
        message += " Set followRedirects, or write the address that it points to."
    return FailedKnown(reason=HttpReason.UNEXPECTED_STATUS, message=message, retryable=False, response=response)


def retry_after(value: str | None, *, date: str | None) -> timedelta | None:
    """How long the receiver asks to be left alone; None where it does not say, or not so that it can be understood."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:12]), int(_LONGEST_WAIT.total_seconds())))
    until, now = _http_date(text), _http_date((date or "").strip())
    if until is None or now is None:
        return None
    return min(max(until - now, timedelta(0)), _LONGEST_WAIT)


def charset_of(content_type: str | None) -> str | None:
    """The charset that a Content-Type names, if texts are written in it. A parser of mail would read whatever else it holds,
    and break on some of it; and Python looks for a module of any name that it is given as a charset."""
    found = _CHARSET.search(content_type or "")
    return None if found is None else found.group(1)


def excerpt(raw: bytes, *, charset: str | None, secrets: Iterable[str], complete: bool) -> str:
    """At most ``EXCERPT_BYTES`` of UTF-8: no control characters, no secret that was sent."""
    complete = complete and len(raw) <= LOOKED_AT
    # Characters that nobody sees go first: a secret with some in between would be one again without them.
    text = _readable(_decode(raw[:LOOKED_AT], charset))
    found = {_readable(form) for secret in secrets for form in _spellings(secret)} - {""}
    spellings = sorted(found, key=len, reverse=True)
    for spelling in spellings:
        text = text.replace(spelling, "***")
    if not complete and spellings:
        text = _without_ragged_end(text, spellings)
    return text.strip().encode()[:EXCERPT_BYTES].decode(errors="ignore")


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _decode(raw: bytes, charset: str | None) -> str:
    try:
        return raw.decode(charset or "utf-8", errors="replace")
    except (LookupError, ValueError):
        return raw.decode(errors="replace")


def _readable(text: str) -> str:
    return "".join(" " if char.isspace() else char for char in text if char.isspace() or _printable(char))


def _printable(char: str) -> bool:
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


def _spellings(secret: str) -> set[str]:
    """The secret, its words ("Bearer", token), and how JSON and URLs write each."""
    parts = {secret, *(word for word in secret.split() if len(word) >= _SHORTEST_PART)} - {""}
    forms = set(parts)
    for part in parts:
        forms |= {json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1], quote(part, safe="")}
        forms |= {quote(part), quote_plus(part)}
    return forms


def _without_ragged_end(text: str, spellings: list[str]) -> str:
    """Cut off an end that is the beginning of a secret, and with it what is left of a character that was cut in two."""
    text = text.rstrip("\N{REPLACEMENT CHARACTER}")
    for size in range(min(len(text), len(spellings[0]) - 1), 0, -1):
        tail = text[-size:]
        if any(spelling.startswith(tail) for spelling in spellings):
            return text[:-size]
    return text
