"""Where a redirect leads and what may come along.

Methods change as browsers and curl change them. What was read from a Secret, and what names a caller, stays with the
origin that it was meant for, and does not come back when a later hop returns there.
"""

from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from soloist.domain.actions import FailedKnown
from soloist.domain.http_request import HttpReason, HttpRequest, address_problem

REDIRECTS = frozenset({301, 302, 303, 307, 308})
REPEATED = frozenset({307, 308})
MOST_REDIRECTS = 5

_PORTS = {"http": 80, "https": 443}
_OF_THE_BODY = frozenset({"content-type", "content-encoding", "content-language"})


def redirect(request: HttpRequest, status: int, location: str) -> HttpRequest | FailedKnown:
    """The request that follows an answer of ``status`` with ``location``."""
    try:
        url = urljoin(request.url, location)
        wrong = address_problem(url)
    except ValueError:
        wrong = "cannot be read"
    if wrong is not None:
        message = f"The receiver answered {status} with a Location that cannot be followed: it {wrong}."
        return FailedKnown(reason=HttpReason.REQUEST_REFUSED, message=message, retryable=False)
    dropped: frozenset[str] = frozenset() if origin(url) == origin(request.url) else request.confidential
    method, body = request.method, request.body
    if (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST"):
        method, body, dropped = "GET", None, dropped | _OF_THE_BODY
    headers = tuple((name, value) for name, value in request.headers if name.lower() not in dropped)
    return replace(request, url=url, method=method, body=body, headers=headers)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port; a default port equals the same one written out."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
