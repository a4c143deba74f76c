"""Whether what deliveries are made of is there, as the leader tells it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import PermanentError, SoloistError, TransientError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_parsing import parse_queue
from soloist.domain.queue_spec import QueueSpec
from soloist.shells.delivery_keys import DeliveryKeys

HEADER = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "token", "key": "k"}}}
HTTP: dict[str, Any] = {
    "url": "https://backend/",
    "headers": [{"name": "X-Plain", "value": "{id}"}, HEADER],
    "signature": "StandardWebhooks",
    "secretRef": {"name": "signing", "key": "k"},
    "tls": {"caConfigMapRef": {"name": "ca", "key": "k"}},
}


class Forbidden(PermanentError): ...


def asked(deliver: dict[str, Any], **errors: SoloistError) -> tuple[str | None, list[tuple[str, str]]]:
    """What is missing, and what was read to find that out."""
    read: list[tuple[str, str]] = []
    spec = parse_queue({"database": {"secretName": "db", "key": "uri"}, "deliver": deliver})
    assert isinstance(spec, QueueSpec), spec

    async def read_key(namespace: str, ref: KeyRef) -> Sealed:
        assert namespace == "shop"
        read.append((ref.kind, ref.name))
        if ref.name in errors:
            raise errors[ref.name]
        return Sealed("…")

    keys = DeliveryKeys(read_key, forbidden=Forbidden)
    return asyncio.run(keys.missing(QueueName("shop", "q"), spec)), read


def test_all_that_a_request_is_made_of_is_looked_for() -> None:
    missing, read = asked({"http": HTTP})
    assert missing == ""
    assert sorted(read) == [("ConfigMap", "ca"), ("Secret", "signing"), ("Secret", "token")]
    assert asked({"external": {}}) == ("", [])


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (PermanentError("Secret shop/token does not exist."), "Secret shop/token does not exist."),
        (Forbidden("may not read it"), ""),
        (TransientError("the API server is away"), None),
    ],
    ids=["missing", "forbidden, which a worker need not be", "nobody can tell"],
)
def test_what_is_not_there_is_told_and_nothing_else(error: SoloistError, missing: str | None) -> None:
    assert asked({"http": HTTP}, token=error)[0] == missing


def test_what_is_missing_is_told_behind_what_may_not_be_read() -> None:
    assert asked({"http": HTTP}, token=Forbidden("no"), ca=PermanentError("no ConfigMap ca"))[0] == "no ConfigMap ca"
