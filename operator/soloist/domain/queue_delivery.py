"""How a row is delivered, as values: by a request of ours, or by the user's own workers.

A ``FixedUrl`` is the manifest's and trusted, but for link-local and metadata. ``UrlColumn`` and ``Lookup`` are data, written
by whoever may register a webhook: such an address is resolved and checked, and the checked one is dialled.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from soloist.domain.actions import Header, KeyRef
from soloist.domain.queue_tables import TableName

VARIABLES = ("id", "key", "attempt", "fence", "due")
"""What a template may name of every claim; any other name is a column of the row. A column of such a name is hidden."""


class Encoding(StrEnum):
    """How the bytes of a signature are written."""

    HEX = "Hex"
    BASE64 = "Base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedUrl:
    """One address for all rows."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlColumn:
    """The row itself holds the address."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Another table is read just before the send: its row whose ``by`` equals the queued row's ``key``.

    The address is in its ``url``, or in the column ``url_column`` of the queued row, the other being None. A row whose ``active``
    is not true, and one that is missing, is a terminal failure.
    """

    table: TableName
    key: str
    by: str
    url: str | None = None
    url_column: str | None = None
    secret: str | None = None
    active: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardWebhooks:
    """webhook-id, webhook-timestamp and webhook-signature as that specification has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HmacSha256:
    """HMAC-SHA256 over the body, in one header behind ``prefix`` (such as ``sha256=``)."""

    header: str
    encoding: Encoding = Encoding.HEX
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDelivery:
    """One request for each attempt, redirects not followed.

    The body is ``body_column``, or the payload of our table, or else a JSON object of id, key, attempt, fence and due; GET
    and HEAD have none. Headers are templates over ``VARIABLES`` and the columns of the row.
    ``secrets`` sign, the present one first; there are none where ``Lookup.secret`` is read instead. ``expected`` are
    inclusive ranges of status codes; ``ca`` is a PEM bundle to verify the server by (None: the system's).
    """

    target: FixedUrl | UrlColumn | Lookup
    method: str = "POST"
    headers: tuple[Header, ...] = ()
    body_column: str | None = None
    signature: StandardWebhooks | HmacSha256 | None = None
    secrets: tuple[KeyRef, ...] = ()
    timeout: timedelta = timedelta(seconds=15)
    expected: tuple[tuple[int, int], ...] = ((200, 299),)
    verify: bool = True
    ca: KeyRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """The user's own workers, through the SQL functions."""


def keys_of(deliver: "Deliver") -> tuple[KeyRef, ...]:
    """All that a delivery reads out of Secrets and ConfigMaps."""
    if isinstance(deliver, External):
        return ()
    headers = [header.ref for header in deliver.headers if header.ref is not None]
    return (*headers, *deliver.secrets, *([deliver.ca] if deliver.ca is not None else []))


Deliver = HttpDelivery | External
