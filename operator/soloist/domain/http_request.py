"""What an ``http`` action sends: headers and body from templates over a fixed list of variables.

Values are names, numbers and times of ours: none can break out of a JSON string or a header. The URL is no template. The
delivery of a row has a list of its own, in which values are data of the row (``delivery_request``).

The headers that identify a run are ours alone. All that depends on the receiver's honesty (the idempotency key, the
fence) would be worth nothing if a manifest could overwrite it. So are those that frame a message (request smuggling).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from soloist.domain.actions import FailedKnown, Header, HttpAction, KeyRef, Order
from soloist.domain.instants import rfc3339
from soloist.domain.templates import render, template_problem


class HttpReason(StrEnum):
    """Why an attempt of an ``http`` action did not succeed; what a run shows as its reason."""

    REQUEST_REFUSED = "RequestRefused"
    SECRET_UNAVAILABLE = "SecretUnavailable"
    ADDRESS_REFUSED = "AddressRefused"
    NAME_NOT_RESOLVED = "NameNotResolved"
    CONNECTION_FAILED = "ConnectionFailed"
    TLS_FAILED = "TLSFailed"
    NOT_SENT_IN_TIME = "NotSentInTime"
    UNEXPECTED_STATUS = "UnexpectedStatus"
    TOO_MANY_REDIRECTS = "TooManyRedirects"
    TIMED_OUT = "TimedOut"
    REPLY_LOST = "ReplyLost"


LONGEST_HEADER = 65536
"""Characters of a value; most receivers take fewer."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_OURS = frozenset({"idempotency-key", "soloist-run", "soloist-scheduled-time", "soloist-attempt", "soloist-fence"})
_MESSAGE = frozenset({"content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"})
_CONNECTION = frozenset({"connection", "keep-alive", "proxy-connection"})
NO_HOST = "must begin with http:// or https:// and a host"
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Ready to be sent. ``confidential`` are the names (lower case) that do not follow a redirect to another origin."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    confidential: frozenset[str]


def build_request(order: Order, secrets: Mapping[KeyRef, str], *, version: str) -> HttpRequest | FailedKnown:
    """The request of one attempt; ``secrets`` holds the value of every header's ``ref`` (see ``without_line_break``)."""
    action = order.action
    if not isinstance(action, HttpAction):
        raise TypeError(f"not an http action: {type(action).__name__}")
    values = variables(order)
    if (problem := _problem(action, secrets)) is not None:
        return problem
    headers = [(header.name, _value(header, values, secrets)) for header in action.headers]
    body = None if action.body is None else render(action.body, values).encode(errors="replace")
    return HttpRequest(
        method=action.method.upper(),
        url=action.url,
        headers=(*headers, *missing_defaults(headers, version=version, body=body), *identity(order)),
        body=body,
        confidential=frozenset(header.name.lower() for header in action.headers if header.ref is not None)
        | _CREDENTIALS,
    )


def variables(order: Order) -> dict[str, str]:
    """The values of ``templates.VARIABLES``. ``scheduledTime`` is empty for a manual run, which has none."""
    return {
        "namespace": order.namespace,
        "job": order.job_name,
        "run": order.run_name,
        "key": order.key,
        "scheduledTime": "" if order.scheduled_time is None else rfc3339(order.scheduled_time),
        "attempt": str(order.attempt),
        "fence": str(order.fence),
    }


def identity(order: Order) -> list[tuple[str, str]]:
    """The headers that say which run, which attempt and which term this is."""
    headers = [
        ("Idempotency-Key", order.key),
        ("Soloist-Run", order.run_name),
        ("Soloist-Attempt", str(order.attempt)),
        ("Soloist-Fence", str(order.fence)),
    ]
    if order.scheduled_time is not None:
        headers.append(("Soloist-Scheduled-Time", rfc3339(order.scheduled_time)))
    return headers


def url_problem(url: str) -> str | None:
    """What is wrong with an action's url, as the end of a sentence that begins with its field."""
    if "{" in url or "}" in url:
        return "is no template; send variables in the body or in headers (a literal brace is %7B or %7D)"
    return address_problem(url)


def address_problem(url: str) -> str | None:
    """What is wrong with any URL that is to be requested, as the end of a sentence."""
    if _CONTROL.search(url) or " " in url or "\t" in url or "\\" in url:
        return "has a space, a backslash or a control character; percent-encode it"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:  # its words would repeat what may be a password
        return "cannot be read; write http://host[:port]/path"
    if parts.scheme not in {"http", "https"} or not host:
        return NO_HOST
    if "@" in parts.netloc:
        return "carries a user name or password; send them in an Authorization header from a Secret"
    return None


def header_problem(name: str, also_ours: Collection[str] = ()) -> str | None:
    """What is wrong with the name of a header, as the end of a sentence. ``also_ours``: further names, in lower case."""
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        return f"name {name!r} is not one; use letters, digits and hyphens"
    if lower in _OURS or lower in also_ours:
        return f"{name} is set by Soloist for every request; use another name"
    if lower in _MESSAGE or lower in _CONNECTION:
        return f"{name} follows from the url, the body and the connection; leave it out"
    return None


def breaks_lines(value: str) -> bool:
    """Whether it holds what no header may: a line break or another control character."""
    return _CONTROL.search(value) is not None


def without_line_break(secret: str) -> str:
    """A Secret's value as it is sent: an editor's or echo's line break at its end is no part of it."""
    return secret.removesuffix("\n").removesuffix("\r")


def missing_defaults(headers: Sequence[tuple[str, str]], *, version: str, body: bytes | None) -> list[tuple[str, str]]:
    """``identity`` asks for an answer that can be read a little of, however large it would unpack to."""
    defaults = [("User-Agent", f"soloist/{version}"), ("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if body is not None:
        defaults.append(("Content-Type", "application/json"))
    given = {name.lower() for name, _ in headers}
    return [(name, value) for name, value in defaults if name.lower() not in given]


def _problem(action: HttpAction, secrets: Mapping[KeyRef, str]) -> FailedKnown | None:
    """The first thing that keeps the request from being built."""
    if not _TOKEN.fullmatch(action.method) or action.method.upper() == "CONNECT":
        return _refused(f"The method {action.method!r} cannot be sent; use GET, POST, PUT, PATCH or DELETE.")
    if (wrong := url_problem(action.url)) is not None:
        return _refused(f"The url {wrong}.")
    if action.body is not None and (wrong := template_problem(action.body)) is not None:
        return _refused(f"The body {wrong}.")
    for header in action.headers:
        if (wrong := header_problem(header.name)) is not None:
            return _refused(f"The header {wrong}.")
        if header.value is not None and (wrong := template_problem(header.value)) is not None:
            return _refused(f"The header {header.name} {wrong}.")
        if header.ref is None and breaks_lines(header.value or ""):
            return _refused(f"The header {header.name} has a line break or another control character; take it out.")
        if header.ref is not None and len(secrets[header.ref]) > LONGEST_HEADER:
            at = f"{header.ref.kind} {header.ref.name}, key {header.ref.key}"
            message = f"The header {header.name} cannot be sent: {at} is longer than {LONGEST_HEADER} characters, more than a header holds."
            return FailedKnown(reason=HttpReason.SECRET_UNAVAILABLE, message=message, retryable=True)
        if header.ref is not None and breaks_lines(secrets[header.ref]):
            at = f"{header.ref.kind} {header.ref.name}, key {header.ref.key}"
            message = (
                f"The header {header.name} cannot be sent: {at} has a line break or another control character in it."
            )
            return FailedKnown(reason=HttpReason.SECRET_UNAVAILABLE, message=message, retryable=True)
    return None


def _refused(message: str) -> FailedKnown:
    return FailedKnown(reason=HttpReason.REQUEST_REFUSED, message=message, retryable=False)


def _value(header: Header, values: Mapping[str, str], secrets: Mapping[KeyRef, str]) -> str:
    return secrets[header.ref] if header.ref is not None else render(header.value or "", values)
