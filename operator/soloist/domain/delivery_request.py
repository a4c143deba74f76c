"""What the delivery of a row sends: address, headers and body, made of the row and of what the manifest says.

The values are data that anybody may have written into the table, so what they may do is little. A value is one header's
value or the body: it never becomes a second header, another message, or a header that receivers know us by. One with a line
break in it is refused, as is an address that is none; and since the next attempt would find the same, for good.

``Idempotency-Key``, ``Soloist-Attempt`` and ``Soloist-Fence`` go with every request, behind everything else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from soloist.domain.actions import FailedKnown, KeyRef
from soloist.domain.claims import Claim
from soloist.domain.http_request import (
    LONGEST_HEADER,
    HttpReason,
    HttpRequest,
    address_problem,
    breaks_lines,
    header_problem,
    missing_defaults,
)
from soloist.domain.instants import stamp
from soloist.domain.queue_spec import FixedUrl, HttpDelivery, Lookup, UrlColumn
from soloist.domain.signature import secret_problem, sign, signing_headers
from soloist.domain.templates import render

MOST_BODY = 1024 * 1024
LONGEST_URL = 2048
_WITHOUT_BODY = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a row goes, and what its request is signed with, the present secret first."""

    url: str
    secrets: Sequence[str] = field(default=(), repr=False)


def endpoint_in(target: FixedUrl | UrlColumn, claim: Claim) -> Endpoint | FailedKnown:
    """The endpoint of a row that needs no other table to be asked."""
    if isinstance(target, FixedUrl):
        return Endpoint(url=target.url)
    url = claim.columns.get(target.column)
    return refused(f"The column {target.column} holds no address.") if not url else Endpoint(url=url)


def build_delivery(
    delivery: HttpDelivery,
    claim: Claim,
    endpoint: Endpoint,
    *,
    key: str,
    managed: bool,
    header_secrets: Mapping[KeyRef, str],
    now: datetime,
    version: str,
) -> HttpRequest | FailedKnown:
    """The request of one attempt. ``managed``: the payload is the body; ``header_secrets`` has each header's ``ref``."""
    if (wrong := _url_problem(endpoint.url)) is not None:
        return refused(f"The address {wrong}.")
    body = _body(delivery, claim, key, managed=managed)
    if isinstance(body, FailedKnown):
        return body
    headers = _headers(delivery, variables(claim, key), header_secrets) if delivery.headers else []
    if isinstance(headers, FailedKnown):
        return headers
    if (wrong := secret_problem(delivery.signature, endpoint.secrets)) is not None:
        from_data = isinstance(delivery.target, Lookup) and delivery.target.secret is not None
        return refused(f"The row of the endpoint {wrong}.") if from_data else unset(f"The Secret to sign with {wrong}.")
    coded = None if body is None else body.encode()
    if coded is not None and len(coded) > MOST_BODY:
        return refused(
            f"The body has {len(coded)} bytes, and {MOST_BODY} are the most that is sent; send a reference to it."
        )
    marks = sign(delivery.signature, body or "", key=key, now=now, secrets=endpoint.secrets)
    return HttpRequest(
        method=delivery.method,
        url=endpoint.url,
        headers=(*headers, *missing_defaults(headers, version=version, body=coded), *marks, *_identity(claim, key)),
        body=coded,
        confidential=frozenset(),
    )


def variables(claim: Claim, key: str) -> dict[str, str]:
    """What a template may name: the columns, and the words of the claim, which win over columns of their names."""
    return {
        **{name: value or "" for name, value in claim.columns.items()},
        "id": ",".join(claim.row),
        "key": key,
        "attempt": str(claim.attempt),
        "fence": str(claim.fence),
        "due": "" if claim.due is None else stamp(claim.due),
    }


def refused(message: str) -> FailedKnown:
    """The row cannot be sent as it is, and no later attempt could: a terminal failure."""
    return FailedKnown(reason=HttpReason.REQUEST_REFUSED, message=message, retryable=False)


def unset(message: str) -> FailedKnown:
    """Something that all rows of the queue need is not as it should be: no row is given up for it before its time."""
    return FailedKnown(reason=HttpReason.SECRET_UNAVAILABLE, message=message, retryable=True)


def _identity(claim: Claim, key: str) -> tuple[tuple[str, str], ...]:
    return (
        ("Idempotency-Key", key),
        ("Soloist-Attempt", str(claim.attempt)),
        ("Soloist-Fence", str(claim.fence)),
    )


def _url_problem(url: str) -> str | None:
    return f"has more than {LONGEST_URL} characters" if len(url) > LONGEST_URL else address_problem(url)


def _body(delivery: HttpDelivery, claim: Claim, key: str, *, managed: bool) -> str | FailedKnown | None:
    if delivery.method in _WITHOUT_BODY:
        return None
    if delivery.body_column is not None:
        text = claim.columns.get(delivery.body_column)
        return refused(f"The column {delivery.body_column} is null, and is to be the body.") if text is None else text
    if managed:
        return _json(claim.payload) if claim.payload_text is None else claim.payload_text
    row = claim.row[0] if len(claim.row) == 1 else claim.row
    due = None if claim.due is None else stamp(claim.due)
    return _json({"id": row, "key": key, "attempt": claim.attempt, "fence": claim.fence, "due": due})


def _json(value: object) -> str | FailedKnown:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return refused("The payload holds a number that is too large for what receivers read of JSON.")


def _headers(
    delivery: HttpDelivery, values: Mapping[str, str], secrets: Mapping[KeyRef, str]
) -> list[tuple[str, str]] | FailedKnown:
    ours = signing_headers(delivery.signature)
    headers: list[tuple[str, str]] = []
    for header in delivery.headers:
        if (wrong := header_problem(header.name, ours)) is not None:
            return refused(f"The header {wrong}.")
        value = render(header.value or "", values) if header.ref is None else secrets[header.ref]
        if (wrong := _value_problem(value)) is not None:
            sentence = f"The header {header.name} cannot be sent: its value {wrong}"
            if header.ref is None:
                return refused(f"{sentence}, which is in the row.")
            return unset(f"{sentence}, which is in {header.ref.kind} {header.ref.name}, key {header.ref.key}.")
        headers.append((header.name, value))
    return headers


def _value_problem(value: str) -> str | None:
    if len(value) > LONGEST_HEADER:
        return f"has more than {LONGEST_HEADER} characters, more than a header holds"
    return "has a line break or another control character" if breaks_lines(value) else None
