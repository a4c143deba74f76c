"""What a delivery is signed with, checked by the library that receivers use and by a computation of our own."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from soloist.domain.queue_spec import Encoding, HmacSha256, StandardWebhooks
from soloist.domain.signature import secret_problem, sign, signing_headers, split_secrets

STANDARD = StandardWebhooks()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
KEY = "b726ebce-f5f1-5acc-a576-06e681712373"
BODY = '{"amount": 12345678901234567890.5, "name": "Zoë"}'


def now() -> datetime:
    return datetime.now(UTC)


def signed(body: str = BODY, *, secrets: tuple[str, ...] = (SECRET,), at: datetime | None = None) -> dict[str, str]:
    return dict(sign(STANDARD, body, key=KEY, now=at or now(), secrets=secrets))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_library_of_receivers_accepts_every_body(body: str) -> None:
    Webhook(SECRET).verify(body.encode(), signed(body), json_parse=False)


def test_the_signature_is_what_the_specification_says_computed_by_hand() -> None:
    at = datetime(2026, 3, 29, 2, 0, 0, 999_999, tzinfo=UTC)
    content = f"{KEY}.{int(at.timestamp())}.{BODY}".encode()
    digest = hmac.new(base64.b64decode(SECRET[6:]), content, hashlib.sha256).digest()
    assert signed(at=at) == {
        "Webhook-Id": KEY,
        "Webhook-Timestamp": "1774749600",
        "Webhook-Signature": "v1," + base64.b64encode(digest).decode(),
    }


def test_during_a_rotation_both_secrets_verify_and_the_present_one_comes_first() -> None:
    at = now()
    headers = signed(secrets=(SECRET, OLD), at=at)
    Webhook(SECRET).verify(BODY, headers, json_parse=False)
    Webhook(OLD).verify(BODY, headers, json_parse=False)
    assert headers["Webhook-Signature"].split(" ")[0] == signed(at=at)["Webhook-Signature"]
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(b"x" * 24).decode()).verify(BODY, headers)


def test_a_repetition_has_the_same_id_and_a_fresh_time() -> None:
    first, second = signed(at=now() - timedelta(hours=10)), signed()
    assert first["Webhook-Id"] == second["Webhook-Id"]
    assert int(second["Webhook-Timestamp"]) - int(first["Webhook-Timestamp"]) >= 36_000
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY, first)


def test_a_changed_body_is_not_accepted() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + " ", signed())


@pytest.mark.parametrize(
    ("encoding", "prefix", "expected"),
    [
        pytest.param(Encoding.HEX, "sha256=", "sha256=%s", id="as GitHub does"),
        pytest.param(Encoding.HEX, "", "%s", id="bare hex"),
    ],
)
def test_a_receivers_own_scheme_is_hmac_over_the_body(encoding: Encoding, prefix: str, expected: str) -> None:
    scheme = HmacSha256(header="X-Hub-Signature-256", encoding=encoding, prefix=prefix)
    digest = hmac.new("Zoë's secret".encode(), BODY.encode(), "sha256").hexdigest()
    headers = sign(scheme, BODY, key=KEY, now=now(), secrets=("Zoë's secret", "the old one"))
    assert headers == (("X-Hub-Signature-256", expected % digest),)


def test_a_signature_in_base64() -> None:
    scheme = HmacSha256(header="X-Signature", encoding=Encoding.BASE64)
    digest = base64.b64encode(hmac.new(b"hush", BODY.encode(), "sha256").digest()).decode()
    assert sign(scheme, BODY, key=KEY, now=now(), secrets=("hush",)) == (("X-Signature", digest),)


def test_no_signature_is_no_header_and_asks_for_no_secret() -> None:
    assert sign(None, BODY, key=KEY, now=now(), secrets=()) == ()
    assert secret_problem(None, ()) is None
    assert signing_headers(None) == frozenset()


def test_the_headers_of_a_signature_are_known_by_name() -> None:
    assert signing_headers(STANDARD) == {name.lower() for name in signed()}
    assert signing_headers(HmacSha256(header="X-Sig")) == {"x-sig"}


@pytest.mark.parametrize("secret", [SECRET, SECRET[6:], "whsec_" + base64.b64encode(b"x" * 25).decode().rstrip("=")])
def test_a_secret_of_standard_webhooks_has_its_prefix_and_its_padding_or_not(secret: str) -> None:
    assert secret_problem(STANDARD, (secret,)) is None
    Webhook(secret).verify(BODY, signed(secrets=(secret,)), json_parse=False)


@pytest.mark.parametrize("secret", ["my secret!", "whsec_", "whsec_häh", "whsec_ab$d", "x", "whsk_AAAA"])
def test_a_secret_that_the_library_would_misread_is_refused_and_not_shown(secret: str) -> None:
    problem = secret_problem(STANDARD, (SECRET, secret))
    assert problem is not None
    assert secret not in problem.replace("whsec_ and", "")


@pytest.mark.parametrize("signature", [STANDARD, HmacSha256(header="X")])
@pytest.mark.parametrize("secrets", [(), ("",)])
def test_a_signature_without_a_secret_is_refused(signature: StandardWebhooks | HmacSha256, secrets: tuple[str]) -> None:
    assert secret_problem(signature, secrets) == "holds no secret to sign with; write one there"


def test_one_value_may_hold_several_secrets_of_standard_webhooks_but_a_password_with_spaces_is_one() -> None:
    assert split_secrets(STANDARD, f"{SECRET} {OLD}\n") == (SECRET, OLD)
    assert split_secrets(HmacSha256(header="X"), "two words") == ("two words",)
    assert split_secrets(STANDARD, " ") == split_secrets(HmacSha256(header="X"), "") == ()
