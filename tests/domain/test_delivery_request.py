"""What the request of a row is made of, and what is refused."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.actions import FailedKnown, Header, KeyRef
from soloist.domain.claims import Claim
from soloist.domain.delivery_request import MOST_BODY, Endpoint, build_delivery, endpoint_in, variables
from soloist.domain.http_request import HttpRequest
from soloist.domain.queue_spec import (
    FixedUrl,
    HmacSha256,
    HttpDelivery,
    Lookup,
    StandardWebhooks,
    TableName,
    UrlColumn,
)

NOW = datetime(2026, 3, 29, 2, 0, 1, tzinfo=UTC)
KEY = "b726ebce-f5f1-5acc-a576-06e681712373"
URL = "https://hooks.example/in"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = KeyRef(kind="Secret", name="receiver", key="token")
FIXED = FixedUrl(url=URL)
LOOKUP = Lookup(table=TableName("public", "Webhook"), key="webhookId", by="id", url="url", secret="secret")
CLAIM = Claim(
    row=("42",),
    fence=1774749600000123,
    attempt=3,
    tries=2,
    due=datetime(2026, 3, 29, 2, 0, tzinfo=UTC),
    payload={"event": "gig.expired", "é": 0.1},
    columns={"url": URL, "body": '{"a":  1}', "topic": "gig", "empty": None, "webhookId": "7"},
)


def build(
    *,
    claim: Claim = CLAIM,
    endpoint: Endpoint | None = None,
    managed: bool = True,
    token: str = "Bearer t",
    **fields: Any,
) -> HttpRequest | FailedKnown:
    return build_delivery(
        HttpDelivery(**{"target": FIXED, **fields}),
        claim,
        endpoint or Endpoint(url=URL),
        key=KEY,
        managed=managed,
        header_secrets={TOKEN: token},
        now=NOW,
        version="9",
    )


def sent(**fields: Any) -> HttpRequest:
    request = build(**fields)
    assert isinstance(request, HttpRequest), request
    return request


def refusal(**fields: Any) -> FailedKnown:
    request = build(**fields)
    assert isinstance(request, FailedKnown), request
    return request


def test_every_request_carries_key_attempt_and_fence_last() -> None:
    assert sent().headers[-3:] == (
        ("Idempotency-Key", KEY),
        ("Soloist-Attempt", "3"),
        ("Soloist-Fence", "1774749600000123"),
    )


def test_a_row_of_our_table_is_sent_as_its_payload() -> None:
    request = sent()
    assert (request.method, request.url) == ("POST", URL)
    assert request.body == '{"event":"gig.expired","é":0.1}'.encode()
    assert ("Content-Type", "application/json") in request.headers
    assert ("User-Agent", "soloist/9") in request.headers


@pytest.mark.parametrize("payload", [None, "text", 7, [1, {"a": None}], {}])
def test_any_json_is_a_payload(payload: object) -> None:
    body = sent(claim=replace(CLAIM, payload=payload)).body
    assert body is not None
    assert json.loads(body) == payload


def test_a_payload_is_sent_to_the_digit_as_the_database_has_it() -> None:
    text = '{"amount": 12345678901234567890.10, "n": 1e400}'
    assert sent(claim=replace(CLAIM, payload=json.loads(text), payload_text=text)).body == text.encode()


def test_a_body_column_is_sent_as_the_database_writes_it() -> None:
    assert sent(managed=False, body_column="body").body == b'{"a":  1}'


def test_a_mapped_row_without_a_body_column_says_which_row_it_is() -> None:
    body = sent(managed=False).body
    assert body is not None
    assert json.loads(body) == {
        "id": "42",
        "key": KEY,
        "attempt": 3,
        "fence": 1774749600000123,
        "due": "2026-03-29T02:00:00Z",
    }
    composite = sent(managed=False, claim=replace(CLAIM, row=("eu", "42"), due=None)).body
    assert composite is not None
    assert json.loads(composite) | {"key": 0} == {
        "id": ["eu", "42"],
        "key": 0,
        "attempt": 3,
        "fence": 1774749600000123,
        "due": None,
    }


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_that_has_no_body_has_no_content_type(method: str) -> None:
    request = sent(method=method, signature=StandardWebhooks(), endpoint=Endpoint(url=URL, secrets=(SECRET,)))
    assert request.body is None
    assert "content-type" not in {name.lower() for name, _ in request.headers}
    assert "Webhook-Signature" in dict(request.headers)


def test_headers_are_templates_over_the_claim_and_the_columns() -> None:
    headers = (
        Header(name="x-idempotency-key", value="{key}"),
        Header(name="X-Row", value="{id} at {due}, {attempt}/{fence}"),
        Header(name="X-Topic", value="{topic}:{empty}:{{topic}"),
        Header(name="Authorization", ref=TOKEN),
        Header(name="Content-Type", value="application/cloudevents+json"),
    )
    found = dict(sent(headers=headers).headers)
    assert found["x-idempotency-key"] == KEY
    assert found["X-Row"] == "42 at 2026-03-29T02:00:00Z, 3/1774749600000123"
    assert found["X-Topic"] == "gig::{topic}"
    assert found["Authorization"] == "Bearer t"
    assert found["Content-Type"] == "application/cloudevents+json"


def test_a_column_that_is_called_like_a_word_of_the_claim_does_not_replace_it() -> None:
    columns = {"key": "forged", "fence": "0", "attempt": "0", "id": "x", "due": "y", "other": None}
    found = variables(replace(CLAIM, columns=columns, row=("a", "b"), due=None), KEY)
    assert found == {"id": "a,b", "key": KEY, "attempt": "3", "fence": "1774749600000123", "due": "", "other": ""}


BREAKS = ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\x7fb", "\r\n\r\nGET / HTTP/1.1"]


@pytest.mark.parametrize("value", BREAKS)
def test_a_column_with_a_line_break_in_it_is_no_header_and_the_row_is_given_up(value: str) -> None:
    found = refusal(
        claim=replace(CLAIM, columns={"topic": value}), headers=(Header(name="X-Topic", value="t={topic}"),)
    )
    assert found.retryable is False
    assert found.message == (
        "The header X-Topic cannot be sent: its value has a line break or another control character, which is in the row."
    )


@pytest.mark.parametrize("value", BREAKS)
def test_a_primary_key_with_a_line_break_in_it_is_no_header_either(value: str) -> None:
    assert not refusal(claim=replace(CLAIM, row=(value,)), headers=(Header(name="X-Id", value="{id}"),)).retryable


def test_a_line_break_in_a_secret_is_the_queues_fault_and_gives_no_row_up() -> None:
    found = refusal(token="a\nb", headers=(Header(name="Authorization", ref=TOKEN),))
    assert found.retryable
    assert "Secret receiver, key token" in found.message
    assert "a\nb" not in found.message


@pytest.mark.parametrize(
    "name",
    [
        *("Idempotency-Key", "soloist-attempt", "SOLOIST-FENCE", "Soloist-Run"),
        *("Host", "Content-Length", "transfer-encoding", "Connection", "Expect", "TE", "Upgrade"),
        *("webhook-id", "Webhook-Signature", "bad name", "bad:name", "x\r\ny", ""),
    ],
)
def test_headers_that_frame_a_message_or_are_ours_are_refused(name: str) -> None:
    endpoint = Endpoint(url=URL, secrets=(SECRET,))
    refusal(headers=(Header(name=name, value="x"),), signature=StandardWebhooks(), endpoint=endpoint)


def test_the_header_of_a_receivers_own_scheme_is_refused_too() -> None:
    scheme = HmacSha256(header="X-Sig")
    refusal(headers=(Header(name="x-sig", value="x"),), signature=scheme, endpoint=Endpoint(url=URL, secrets=("s",)))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://hooks.example/", "must begin with http:// or https://"),
        ("hooks.example", "must begin with"),
        ("http://", "must begin with"),
        ("javascript:alert(1)", "must begin with"),
        ("https://user:hush@hooks.example/", "carries a user name or password"),
        ("https://hooks.example@127.0.0.1/", "carries a user name or password"),
        ("https://hooks.example\\@127.0.0.1/", "has a space, a backslash or a control character"),
        ("https://hooks.example/ x", "has a space"),
        ("https://hooks.example/\r\nX: y", "has a space"),
        ("https://[::1", "cannot be read"),
        ("https://hooks.example:99999/", "cannot be read"),
        ("https://hooks.example/" + "x" * 2048, "has more than 2048 characters"),
    ],
)
def test_an_address_that_is_none_is_refused_for_good_and_not_shown(url: str, why: str) -> None:
    found = refusal(endpoint=Endpoint(url=url))
    assert not found.retryable
    assert found.message.startswith("The address ")
    assert why in found.message
    assert "hush" not in found.message


def test_the_address_is_the_manifests_or_the_rows() -> None:
    assert endpoint_in(FIXED, CLAIM) == Endpoint(url=URL)
    assert endpoint_in(UrlColumn(column="url"), CLAIM) == Endpoint(url=URL)
    for column in ("empty", "absent"):
        missing = endpoint_in(UrlColumn(column=column), CLAIM)
        assert isinstance(missing, FailedKnown)
        assert (missing.retryable, missing.message) == (False, f"The column {column} holds no address.")


def test_a_body_that_is_null_or_too_large_is_refused() -> None:
    assert refusal(body_column="empty").message == "The column empty is null, and is to be the body."
    large = replace(CLAIM, columns={"body": "é" * (MOST_BODY // 2) + "x"})
    assert "1048577 bytes, and 1048576 are the most" in refusal(claim=large, body_column="body").message
    assert sent(claim=replace(CLAIM, columns={"body": "x" * MOST_BODY}), body_column="body")


def test_a_number_that_json_has_no_spelling_for_is_refused() -> None:
    assert not refusal(claim=replace(CLAIM, payload={"a": [float("inf")]})).retryable


def test_a_secret_that_cannot_sign_is_the_rows_fault_where_the_row_names_it_and_else_the_queues() -> None:
    fields = {"signature": StandardWebhooks(), "endpoint": Endpoint(url=URL, secrets=("no base64!",))}
    assert not refusal(target=LOOKUP, **fields).retryable
    assert refusal(**fields).retryable
    assert "no base64!" not in refusal(**fields).message + refusal(target=LOOKUP, **fields).message


@given(st.dictionaries(st.sampled_from(["topic", "other"]), st.text()), st.lists(st.text(), min_size=1, max_size=3))
def test_whatever_the_row_holds_it_makes_one_header_or_none(columns: dict[str, str], row: list[str]) -> None:
    headers = (Header(name="X-A", value="{topic}{other}{id}"),)
    request = build(claim=replace(CLAIM, columns=columns, row=tuple(row)), headers=headers)
    if isinstance(request, HttpRequest):
        names = [name for name, _ in request.headers]
        assert names == ["X-A", "User-Agent", "Accept", "Accept-Encoding", "Content-Type", *OURS]
        assert not any("\r" in value or "\n" in value or "\0" in value for _, value in request.headers)


OURS = ["Idempotency-Key", "Soloist-Attempt", "Soloist-Fence"]
