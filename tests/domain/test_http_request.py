"""What an http action sends, and what an answer means."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soloist.domain.actions import FailedKnown, Header, HttpAction, JobAction, KeyRef, Order, Response, Succeeded
from soloist.domain.http_reply import classify, excerpt, retry_after
from soloist.domain.http_request import HttpRequest, build_request, url_problem
from soloist.domain.redirects import redirect
from soloist.domain.templates import VARIABLES, render, template_problem

TOKEN = KeyRef(kind="Secret", name="backend", key="token")
ORDER = Order(
    namespace="shop",
    job_name="overdue",
    job_uid="u-1",
    generation=1,
    run_name="overdue-29384756",
    run_uid="r-1",
    scheduled_time=datetime(2026, 3, 29, 2, 0, tzinfo=UTC),
    attempt=2,
    key="u-1/2026-03-29T02:00:00Z",
    fence=1774749600000000,
    timeout=timedelta(seconds=30),
    action=HttpAction(url="http://backend/x"),
)


def built(
    *, secrets: dict[KeyRef, str] | None = None, order: Order = ORDER, **action: Any
) -> HttpRequest | FailedKnown:
    return build_request(
        replace(order, action=HttpAction(**{"url": "http://backend/x", **action})), secrets or {}, version="0.1.0"
    )


def request(**action: Any) -> HttpRequest:
    answer = built(**action)
    assert isinstance(answer, HttpRequest)
    return answer


def refused(**action: Any) -> FailedKnown:
    answer = built(**action)
    assert isinstance(answer, FailedKnown)
    return answer


def test_every_request_says_which_run_attempt_and_term_it_is_of() -> None:
    assert dict(request().headers) == {
        "User-Agent": "soloist/0.1.0",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Idempotency-Key": "u-1/2026-03-29T02:00:00Z",
        "Soloist-Run": "overdue-29384756",
        "Soloist-Scheduled-Time": "2026-03-29T02:00:00Z",
        "Soloist-Attempt": "2",
        "Soloist-Fence": "1774749600000000",
    }


def test_a_manual_run_has_no_scheduled_time() -> None:
    manual = request(order=replace(ORDER, scheduled_time=None), body="[{scheduledTime}]")
    assert "Soloist-Scheduled-Time" not in dict(manual.headers)
    assert manual.body == b"[]"


def test_a_body_is_json_unless_a_header_says_otherwise() -> None:
    assert dict(request(body="{}").headers)["Content-Type"] == "application/json"
    assert "Content-Type" not in dict(request().headers)
    typed = request(body="x", headers=(Header(name="content-type", value="text/plain"),)).headers
    assert [value for name, value in typed if name.lower() == "content-type"] == ["text/plain"]


def test_variables_are_filled_in_in_body_and_headers() -> None:
    made = request(
        body='{"at": "{scheduledTime}", "n": {attempt}, "q": "{{viewer}", "re": "a{3}"}',
        headers=(Header(name="X-Run", value="{namespace}/{job}/{run}/{fence}"),),
    )
    assert made.body == b'{"at": "2026-03-29T02:00:00Z", "n": 2, "q": "{viewer}", "re": "a{3}"}'
    assert dict(made.headers)["X-Run"] == "shop/overdue/overdue-29384756/1774749600000000"


def test_a_secret_is_sent_as_it_is_and_stays_with_its_origin() -> None:
    made = request(headers=(Header(name="X-Api-Key", ref=TOKEN),), secrets={TOKEN: "{key}"})
    assert dict(made.headers)["X-Api-Key"] == "{key}"
    assert {"x-api-key", "authorization", "cookie"} <= made.confidential


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ({"body": "{runn}"}, 'The body holds {runn}, which is no variable; there are {namespace}, {job}, {run}, {key}, '
         '{scheduledTime}, {attempt}, {fence}, and "{{" stands for one "{".'),
        ({"headers": (Header(name="X", value="{nope}"),)}, "The header X holds {nope}, which is no variable"),
        ({"headers": (Header(name="Idempotency-Key", value="x"),)}, "The header Idempotency-Key is set by Soloist"),
        ({"headers": (Header(name="soloist-fence", value="x"),)}, "The header soloist-fence is set by Soloist"),
        ({"headers": (Header(name="Content-Length", value="0"),)}, "The header Content-Length follows from the url"),
        ({"headers": (Header(name="Transfer-Encoding", value="x"),)}, "The header Transfer-Encoding follows from"),
        ({"headers": (Header(name="Host", value="x"),)}, "The header Host follows from"),
        ({"headers": (Header(name="a b", value="x"),)}, "The header name 'a b' is not one"),
        ({"headers": (Header(name="X", value="a\r\nY: b"),)}, "The header X has a line break"),
        ({"headers": (Header(name="X", value="a\x00"),)}, "The header X has a line break or another control"),
        ({"url": "ftp://backend"}, "The url must begin with http:// or https:// and a host."),
        ({"url": "http:///x"}, "The url must begin with http:// or https:// and a host."),
        ({"url": "http://u:p@backend/"}, "The url carries a user name or password"),
        ({"url": "http://backend/{run}"}, "The url is no template"),
        ({"url": "http://backend/ x"}, "The url has a space"),
        ({"url": "http://backend\\@evil/"}, "The url has a space, a backslash"),
        ({"url": "http://backend:99999/"}, "The url cannot be read"),
        ({"url": "http://[::1/"}, "The url cannot be read"),
        ({"url": "http://u:hush@backend:hush/"}, "The url cannot be read; write http://host[:port]/path."),
        ({"method": "GE T"}, "The method 'GE T' cannot be sent"),
        ({"method": "CONNECT"}, "The method 'CONNECT' cannot be sent"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_with_its_field_and_is_not_retried(
    action: dict[str, Any], sentence: str
) -> None:
    answer = refused(**action)
    assert answer.message.startswith(sentence)
    assert (answer.reason, answer.retryable) == ("RequestRefused", False)


def test_a_secret_with_a_line_break_inside_is_named_not_shown_and_tried_again() -> None:
    answer = refused(headers=(Header(name="Authorization", ref=TOKEN),), secrets={TOKEN: "hush\nhush"})
    assert answer.retryable
    assert "Secret backend, key token" in answer.message
    assert "hush" not in answer.message


def test_another_kind_of_action_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError):
        build_request(replace(ORDER, action=JobAction(template={})), {}, version="0")


TEXT = st.text(alphabet=st.sampled_from('{}"runkeyjob:, 0\\é'))


@settings(deadline=None)
@given(TEXT, st.dictionaries(st.sampled_from(VARIABLES), st.text("abc/:-"), min_size=len(VARIABLES)))
def test_text_without_variables_passes_through_and_no_variable_survives(text: str, values: dict[str, str]) -> None:
    if template_problem(text) is not None:
        return
    rendered = render(text, values)
    if "{" not in text:
        assert rendered == text
    assert render(text.replace("{", "{{"), values) == text
    assert render(json.dumps({"a": {"b": "{run}"}}), values) == json.dumps({"a": {"b": values["run"]}})


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text("ab c"), lambda inner: st.dictionaries(st.text("ab"), inner), max_leaves=6
    )
)
def test_json_needs_no_escapes(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, separators=(",", ":")), json.dumps(value, indent=1)):
        assert template_problem(text) is None
        assert render(text, {}) == text


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_url_makes_it_raise(text: str) -> None:
    for url in (text, f"http://{text}", f"http://a/{text}"):
        assert url_problem(url) is None or url_problem(url)


def outcome_of(status: int, *, expected: tuple[int, int] = (200, 299), **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return classify(Response(status_code=status), status=status, expected=(expected, (299, 299)), headers=named)


@pytest.mark.parametrize("status", range(200, 600))
def test_each_status_is_a_success_a_failure_to_retry_or_one_to_keep(status: int) -> None:
    answer = outcome_of(status)
    if status < 300:
        assert isinstance(answer, Succeeded)
    else:
        assert isinstance(answer, FailedKnown)
        assert answer.retryable is (status in {408, 425, 429} or status >= 500)
        assert str(status) in answer.message
        assert answer.reason == "UnexpectedStatus"


def test_what_is_expected_is_a_success_and_nothing_else_is() -> None:
    assert isinstance(outcome_of(503, expected=(503, 503)), Succeeded)
    assert not outcome_of(200, expected=(204, 204)).retryable


def test_a_redirect_that_is_not_followed_says_how_to() -> None:
    assert "Set followRedirects" in outcome_of(302).message


NOW = "Sun, 29 Mar 2026 02:00:00 GMT"


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        ("120", None, 120),
        (" 0 ", None, 0),
        ("Sun, 29 Mar 2026 02:01:30 GMT", NOW, 90),
        ("Sun, 29 Mar 2026 01:00:00 GMT", NOW, 0),
        ("Sun, 29 Mar 2026 02:01:30 GMT", None, None),
        ("Sun, 29 Mar 2026 02:01:30 GMT", "soon", None),
        ("99999999999999999999999", None, 366 * 86400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", NOW, 366 * 86400),
        ("-5", None, None),
        ("1.5", None, None),
        ("٣", None, None),
        ("soon", NOW, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_retry_after_is_heeded_as_seconds_and_as_a_date(
    value: str | None, date: str | None, seconds: int | None
) -> None:
    assert retry_after(value, date=date) == (None if seconds is None else timedelta(seconds=seconds))


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_retry_after_makes_it_raise(value: str, date: str) -> None:
    asked = retry_after(value, date=date)
    assert asked is None or timedelta(0) <= asked <= timedelta(days=366)


def test_retry_after_rides_with_a_retryable_failure() -> None:
    assert outcome_of(503, retry_after="7").retry_after == timedelta(seconds=7)
    assert outcome_of(404, retry_after="7").retry_after is None


def kept(raw: bytes, *, charset: str | None = None, secrets: tuple[str, ...] = (), complete: bool = True) -> str:
    return excerpt(raw, charset=charset, secrets=secrets, complete=complete)


@pytest.mark.parametrize(
    ("raw", "secrets", "text"),
    [
        (b"paid 3\r\n", (), "paid 3"),
        (b"\x1b[31mred\x00", (), "[31mred"),
        ("a\u202eb\u200bc".encode(), (), "abc"),
        (b"\xff\xfeok", (), "\ufffd\ufffdok"),
        (b"token s3cret! end", ("s3cret!",), "token *** end"),
        (b"got abcdef123 back", ("Bearer abcdef123",), "got *** back"),
        (b'{"t": "a\\"b"}', ('a"b',), '{"t": "***"}'),
        (b"?t=a%2Fb%20c", ("a/b c",), "?t=***"),
        (b"all", ("",), "all"),
        ("got s3cret!".encode("utf-16-le"), ("s3cret!",), "got ***"),
        ("got s3\u200bcr\u00adet!".encode(), ("s3cret!",), "got ***"),
        ("got s3\u200bcret!".encode(), ("s3\u200bcret!",), "got ***"),
    ],
)
def test_an_excerpt_is_plain_and_holds_no_secret(raw: bytes, secrets: tuple[str, ...], text: str) -> None:
    assert kept(raw, secrets=secrets) == text


def test_an_excerpt_is_cut_at_a_kilobyte_and_between_characters() -> None:
    assert kept("é".encode() * 2000) == "é" * 512
    assert kept(b"x" * 9999) == "x" * 1024


def test_a_reply_cut_off_in_the_middle_of_a_secret_loses_that_end() -> None:
    assert kept(b"token s3cr", secrets=("s3cret!",), complete=False) == "token"
    assert kept(b"token s3cr", secrets=("s3cret!",), complete=True) == "token s3cr"


def test_a_character_cut_in_two_does_not_hide_the_beginning_of_a_secret() -> None:
    assert kept("token schlüssel".encode()[:11], secrets=("schlüssel",), complete=False) == "token"
    long = "é" * 9000
    assert kept(f"token {long} and more".encode(), secrets=(long,)) == "token"


def test_neither_a_slow_charset_nor_a_long_secret_holds_up_the_loop() -> None:
    """Both take a time that grows with the square of what is looked at; of these, hours."""
    kept(b"-" + b"a" * 2**20, charset="punycode")
    assert kept(b"a" * 2**20, secrets=("a" * 2**20,), complete=False) == ""


def test_a_secret_that_no_header_holds_is_not_sent() -> None:
    problem = refused(headers=(Header(name="Authorization", ref=TOKEN),), secrets={TOKEN: "s" * 65537})
    assert (problem.reason, problem.retryable) == ("SecretUnavailable", True)
    assert "is longer than 65536 characters" in problem.message


def test_an_unknown_charset_is_read_as_utf8() -> None:
    assert kept("é".encode(), charset="klingon") == "é"
    assert kept("é".encode("latin-1"), charset="latin-1") == "é"
    assert kept(b"abc", charset="base64") == "abc"


@settings(deadline=None)
@given(st.text('abc/%" ', max_size=60), st.text('abc/%" ', min_size=3, max_size=9), st.text("xyz", max_size=60))
def test_no_secret_passes_in_any_spelling(before: str, secret: str, after: str) -> None:
    for spelling in (secret, json.dumps(secret)[1:-1]):
        text = kept(f"{before}|{spelling}|{after}".encode(), secrets=(secret,))
        assert f"|{spelling}|" not in text


@settings(deadline=None)
@given(
    st.binary(max_size=3000), st.sampled_from([None, "utf-8", "utf-16", "latin-1", "idna", "punycode", "rot13", "x"])
)
def test_no_reply_makes_it_raise(raw: bytes, charset: str | None) -> None:
    assert len(kept(raw, charset=charset, secrets=("abc",), complete=False).encode()) <= 1024


SECRET_POST = request(
    body="{}",
    headers=(Header(name="Authorization", ref=TOKEN), Header(name="X-Trace", value="1")),
    secrets={TOKEN: "hush"},
)


@pytest.mark.parametrize(
    ("status", "location", "url", "method", "told"),
    [
        (302, "/y", "http://backend/y", "GET", True),
        (303, "y", "http://backend/y", "GET", True),
        (307, "http://backend:80/y", "http://backend:80/y", "POST", True),
        (308, "//other/y", "http://other/y", "POST", False),
        (307, "https://backend/y", "https://backend/y", "POST", False),
        (307, "http://backend:81/y", "http://backend:81/y", "POST", False),
        (307, "http://BACKEND/y", "http://BACKEND/y", "POST", True),
    ],
)
def test_a_redirect_takes_secrets_along_only_within_its_origin(
    status: int, location: str, url: str, method: str, told: bool
) -> None:
    step = redirect(SECRET_POST, status, location)
    assert isinstance(step, HttpRequest)
    names = {name for name, _ in step.headers}
    assert (step.url, step.method) == (url, method)
    assert ("Authorization" in names) is told
    assert (step.body, "Content-Type" in names) == ((b"{}", True) if method == "POST" else (None, False))
    assert {"X-Trace", "Idempotency-Key", "Soloist-Fence"} <= names


def test_a_secret_does_not_come_back_with_a_redirect_home() -> None:
    away = redirect(SECRET_POST, 307, "http://other/")
    assert isinstance(away, HttpRequest)
    home = redirect(away, 307, "http://backend/")
    assert isinstance(home, HttpRequest)
    assert "Authorization" not in dict(home.headers)


@pytest.mark.parametrize("location", ["ftp://x/", "http://u:p@x/", "http://x:99999/", "http://[", "file:///etc"])
def test_a_location_that_cannot_be_followed_is_a_known_failure(location: str) -> None:
    step = redirect(SECRET_POST, 302, location)
    assert isinstance(step, FailedKnown)
    assert not step.retryable
