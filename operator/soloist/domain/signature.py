"""Signing a delivery, so that its receiver knows who sent it.

Standard Webhooks through the library of that name: the id is the delivery's key, the time is fresh for each attempt, and
there is one signature for each secret, so that a receiver that still holds the old one during a rotation accepts as well.
Or the scheme that the receiver has already: HMAC-SHA256 over the body in one header, of which there can be one only, made
with the present secret.

The library reads any text as base64 and passes over what is none, so a secret of another kind would sign with a key that
nobody else has. It is refused here instead. No message shows a secret.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from standardwebhooks import Webhook

from soloist.domain.queue_spec import Encoding, HmacSha256, StandardWebhooks

Signature = StandardWebhooks | HmacSha256 | None

_PREFIX = "whsec_"
_STANDARD = ("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature")


def signing_headers(signature: Signature) -> frozenset[str]:
    """The names, in lower case, of the headers that the signature is sent in: no manifest may set them."""
    match signature:
        case StandardWebhooks():
            return frozenset(name.lower() for name in _STANDARD)
        case HmacSha256():
            return frozenset({signature.header.lower()})
        case None:
            return frozenset()


def split_secrets(signature: Signature, text: str) -> tuple[str, ...]:
    """The secrets in one value: of Standard Webhooks there may be several, with spaces or lines between, newest first."""
    if isinstance(signature, StandardWebhooks):
        return tuple(text.split())
    return (text,) if text else ()


def secret_problem(signature: Signature, secrets: Sequence[str]) -> str | None:
    """What is wrong with the secrets, as the end of a sentence that begins with where they are from."""
    if signature is None:
        return None
    if not any(secrets):
        return "holds no secret to sign with; write one there"
    if isinstance(signature, StandardWebhooks) and not all(_is_standard(secret) for secret in secrets):
        return f"holds a secret that Standard Webhooks cannot sign with; write {_PREFIX} and 24 to 64 bytes in base64"
    return None


def sign(
    signature: Signature, body: str, *, key: str, now: datetime, secrets: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """The headers that sign ``body`` (as UTF-8) at ``now``, in UTC; ``secrets`` have no ``secret_problem``."""
    match signature:
        case StandardWebhooks():
            marks = " ".join(_webhook(secret).sign(key, now, body) for secret in secrets)
            return tuple(zip(_STANDARD, (key, str(int(now.timestamp())), marks), strict=True))
        case HmacSha256():
            digest = hmac.digest(secrets[0].encode(), body.encode(), hashlib.sha256)
            coded = digest.hex() if signature.encoding is Encoding.HEX else base64.b64encode(digest).decode()
            return ((signature.header, signature.prefix + coded),)
        case None:
            return ()


def _is_standard(secret: str) -> bool:
    text = secret.removeprefix(_PREFIX)
    try:
        return bool(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        return False


@lru_cache(maxsize=256)
def _webhook(secret: str) -> Webhook:
    return Webhook(secret)
