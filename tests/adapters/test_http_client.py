"""The http action against real servers on loopback, well-behaved and not."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soloist.adapters.http.client import HttpLauncher
from soloist.adapters.http.guard import AddressRefused, GuardedResolver
from soloist.adapters.http.session import HttpLimits
from soloist.domain.actions import FailedKnown, Header, HttpAction, JobAction, KeyRef, Order, Succeeded, UnknownOutcome
from soloist.domain.addresses import AddressRules, parse_networks
from soloist.domain.errors import PermanentError, TransientError
from tests.adapters.receivers import (
    OK,
    Authority,
    Keys,
    Receiver,
    Script,
    Text,
    answer,
    full_listener,
    names,
    says,
    then_hangs,
    then_resets,
)

TOKEN = KeyRef(kind="Secret", name="backend", key="token")
CA = KeyRef(kind="ConfigMap", name="ca", key="ca.crt")


def order(url: str, *, seconds: float = 30, attempt: int = 1, **action: Any) -> Order:
    return Order(
        namespace="shop",
        job_name="overdue",
        job_uid="u-1",
        generation=1,
        run_name="overdue-29384756",
        run_uid="r-1",
        scheduled_time=datetime(2026, 3, 29, 2, 0, tzinfo=UTC),
        attempt=attempt,
        key="u-1/2026-03-29T02:00:00Z",
        fence=1774749600000000,
        timeout=timedelta(seconds=seconds),
        action=HttpAction(url=url, **action),
    )


@contextlib.asynccontextmanager
async def launching(
    *, keys: dict[KeyRef, str] | None = None, rules: AddressRules | None = None, **options: Any
) -> AsyncIterator[HttpLauncher]:
    launcher = HttpLauncher(read_key=Keys(keys or {}), rules=rules or AddressRules(), **options)
    try:
        yield launcher
    finally:
        await launcher.close()


async def meet(script: Script, *, tls: ssl.SSLContext | None = None, **action: Any) -> tuple[Any, Receiver]:
    """One attempt against one server: the outcome, and the server to ask."""
    keys = action.pop("keys", None)
    async with Receiver(script, tls) as receiver, launching(keys=keys) as launcher:
        return await launcher.launch(order(receiver.url, **action)), receiver


def test_a_request_carries_the_run_and_an_expected_status_is_a_success() -> None:
    """k8s #105183, #132630, #108609, argo #3649."""
    outcome, receiver = asyncio.run(
        meet(
            says(answer("201 Created", b"made\n", Content_Type="text/plain")),
            body='{"run": "{run}"}',
            headers=(Header(name="Authorization", ref=TOKEN), Header(name="X-Attempt", value="{attempt}")),
            keys={TOKEN: "Bearer abcdef\n"},
        )
    )
    assert isinstance(outcome, Succeeded)
    assert outcome.response is not None
    assert (outcome.response.status_code, outcome.response.excerpt) == (201, "made")
    assert receiver.requests[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert receiver.requests[0].endswith(b'\r\n\r\n{"run": "overdue-29384756"}')
    assert receiver.header("Idempotency-Key") == "u-1/2026-03-29T02:00:00Z"
    assert receiver.header("Soloist-Run") == "overdue-29384756"
    assert receiver.header("Soloist-Scheduled-Time") == "2026-03-29T02:00:00Z"
    assert receiver.header("Soloist-Attempt") == "1"
    assert receiver.header("Soloist-Fence") == "1774749600000000"
    assert receiver.header("User-Agent") == "soloist/0.1.0"
    assert receiver.header("Content-Type") == "application/json"
    assert receiver.header("Authorization") == "Bearer abcdef"
    assert receiver.header("X-Attempt") == "1"


def test_without_a_body_none_is_sent() -> None:
    _, receiver = asyncio.run(meet(says(OK)))
    assert receiver.header("Content-Length") == "0"
    assert receiver.header("Content-Type") is None
    assert receiver.header("Cookie") is None


def test_a_secret_that_is_echoed_is_struck_out() -> None:
    async def echo(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer("500 Oops", b"no such user: Bearer abcdef123 / abcdef123"))

    headers = (Header(name="Authorization", ref=TOKEN),)
    outcome, _ = asyncio.run(meet(echo, headers=headers, keys={TOKEN: "Bearer abcdef123"}))
    assert outcome.response.excerpt == "no such user: *** / ***"
    assert "abcdef123" not in repr(outcome)


def test_a_secret_that_is_missing_is_a_known_failure_and_nothing_is_sent() -> None:
    outcome, receiver = asyncio.run(meet(says(OK), headers=(Header(name="Authorization", ref=TOKEN),)))
    assert outcome == FailedKnown(
        reason="SecretUnavailable",
        message="Secret shop/backend has no key token; create it.",
        retryable=True,
    )
    assert receiver.connections == 0


@pytest.mark.parametrize("status", ["408 x", "425 x", "429 x", "500 x", "503 x", "599 x"])
def test_a_receiver_that_says_not_now_is_asked_again_when_it_says(status: str) -> None:
    outcome, _ = asyncio.run(meet(says(answer(status, Retry_After="7"))))
    assert isinstance(outcome, FailedKnown)
    assert (outcome.retryable, outcome.retry_after) == (True, timedelta(seconds=7))


@pytest.mark.parametrize("status", ["400 x", "401 x", "404 x", "409 x", "422 x", "304 x", "302 x"])
def test_any_other_status_is_final(status: str) -> None:
    outcome, _ = asyncio.run(meet(says(answer(status))))
    assert isinstance(outcome, FailedKnown)
    assert not outcome.retryable


METHODS = ["GET", "HEAD", "PUT", "DELETE", "PATCH", "POST"]
BREAKS = {
    "closed at once": then_resets(b""),
    "reset in the status line": then_resets(b"HTTP/1.1 20"),
    "reset in the headers": then_resets(b"HTTP/1.1 200 OK\r\nContent-Len"),
    "not HTTP": then_resets(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "headers without end": then_resets(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("broken", BREAKS)
def test_a_connection_that_ends_before_an_answer_is_unknown_and_is_used_once(method: str, broken: str) -> None:
    outcome, receiver = asyncio.run(meet(BREAKS[broken], method=method))
    assert isinstance(outcome, UnknownOutcome)
    assert outcome.reason == "ReplyLost"
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


@pytest.mark.parametrize("method", METHODS)
def test_a_server_that_closes_politely_without_an_answer_is_asked_once_too(method: str) -> None:
    async def closes(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    outcome, receiver = asyncio.run(meet(closes, method=method))
    assert isinstance(outcome, UnknownOutcome)
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"])
def test_no_answer_in_time_is_unknown(reply: bytes) -> None:
    outcome, receiver = asyncio.run(meet(then_hangs(reply), seconds=2))
    assert outcome == UnknownOutcome(reason="TimedOut", message="The request was sent and no answer came within 2 s.")
    assert len(receiver.requests) == 1


PART = b"\r\nContent-Length: 100\r\n\r\npartial"


@pytest.mark.parametrize("ending", [then_resets, then_hangs])
def test_once_there_is_a_status_the_body_decides_nothing(ending: Callable[[bytes], Script]) -> None:
    good, _ = asyncio.run(meet(ending(b"HTTP/1.1 200 OK" + PART), seconds=2))
    assert isinstance(good, Succeeded)
    assert good.response is not None
    assert good.response.excerpt in {"partial", ""}  # a reset may discard what was not read yet
    bad, _ = asyncio.run(meet(ending(b"HTTP/1.1 503 Busy" + PART), seconds=2))
    assert isinstance(bad, FailedKnown)
    assert bad.retryable


def test_a_body_that_drips_ends_with_the_attempt() -> None:
    async def drips(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b".")
            await asyncio.sleep(0.02)

    began = time.monotonic()
    outcome, _ = asyncio.run(meet(drips, seconds=2))
    assert isinstance(outcome, Succeeded)
    assert 2 <= time.monotonic() - began < 20, "it would go on for ever"


def test_headers_that_drip_end_with_the_attempt() -> None:
    async def drips(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)

    outcome, _ = asyncio.run(meet(drips, seconds=2))
    assert isinstance(outcome, UnknownOutcome)


def test_a_huge_reply_is_read_for_64_kib_and_then_closed() -> None:
    """dkron #1828, #1842."""
    sent = 0

    async def floods(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    outcome, _ = asyncio.run(meet(floods))
    assert isinstance(outcome, Succeeded)
    assert outcome.response is not None
    assert outcome.response.excerpt == "x" * 1024
    assert sent < 64 * 1024 * 1024  # what the sockets' buffers hold, not four gigabytes


def test_a_packed_reply_is_not_unpacked() -> None:
    outcome, receiver = asyncio.run(meet(says(answer("200 OK", b"\x1f\x8b\x08junk", Content_Encoding="gzip"))))
    assert isinstance(outcome, Succeeded)
    assert outcome.response is not None
    assert outcome.response.excerpt == ""
    assert receiver.header("Accept-Encoding") == "identity"


def test_a_refused_connection_and_an_unknown_name_are_known_failures() -> None:
    async def attempt() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            async with launching(lookup=names()) as launcher:
                refused = await launcher.launch(order(f"http://127.0.0.1:{taken.getsockname()[1]}/"))
                unknown = await launcher.launch(order("http://nowhere.example/"))
            assert isinstance(refused, FailedKnown)
        assert (refused.reason, refused.retryable) == ("ConnectionFailed", True)
        assert isinstance(unknown, FailedKnown)
        assert (unknown.reason, unknown.retryable) == ("NameNotResolved", True)
        assert unknown.message.startswith("Nothing was sent to http://nowhere.example:80: the name could not")

    asyncio.run(attempt())


def test_a_label_that_is_too_long_is_a_name_that_does_not_resolve() -> None:
    async def attempt() -> None:
        async with launching() as launcher:
            outcome = await launcher.launch(order(f"http://{'x' * 70}.example/"))
        assert isinstance(outcome, FailedKnown)
        assert (outcome.reason, outcome.retryable) == ("NameNotResolved", True)

    asyncio.run(attempt())


def test_a_connection_that_is_not_accepted_in_time_is_a_known_failure() -> None:
    async def attempt(seconds: float, connect: float) -> Any:
        with full_listener() as port:
            async with launching(limits=HttpLimits(connect_timeout=connect)) as launcher:
                return await launcher.launch(order(f"http://127.0.0.1:{port}/", seconds=seconds))

    whole = asyncio.run(attempt(0.3, 60))
    assert (whole.reason, whole.retryable) == ("NotSentInTime", True)
    connect = asyncio.run(attempt(60, 0.3))
    assert (connect.reason, connect.retryable) == ("ConnectionFailed", True)


def test_an_attempt_that_waits_for_a_connection_has_sent_nothing() -> None:
    async def attempt() -> None:
        arrived = asyncio.Event()

        async def holds(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await asyncio.Event().wait()

        async with Receiver(holds) as receiver, launching(limits=HttpLimits(connections=1)) as launcher:
            first = asyncio.create_task(launcher.launch(order(receiver.url, seconds=60)))
            async with asyncio.timeout(60):
                await arrived.wait()
            second = await launcher.launch(order(receiver.url, seconds=0.1))
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        assert isinstance(second, FailedKnown)
        assert (second.reason, second.retryable) == ("NotSentInTime", True)
        assert receiver.connections == 1

    asyncio.run(attempt())


def test_an_abandoned_attempt_closes_its_connection() -> None:
    async def attempt() -> None:
        arrived, closed = asyncio.Event(), asyncio.Event()

        async def watch(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await reader.read()
            closed.set()

        async with Receiver(watch) as receiver, launching() as launcher:
            task = asyncio.create_task(launcher.launch(order(receiver.url)))
            async with asyncio.timeout(60):
                await arrived.wait()
                task.cancel()
                await closed.wait()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(attempt())


def test_each_request_has_a_connection_of_its_own_unless_asked_otherwise() -> None:
    async def count(keep_alive: float) -> int:
        async with Receiver(says(OK)) as receiver, launching(limits=HttpLimits(keep_alive=keep_alive)) as launcher:
            for _ in range(3):
                assert isinstance(await launcher.launch(order(receiver.url)), Succeeded)
            return receiver.connections

    assert asyncio.run(count(0)) == 3
    assert asyncio.run(count(60)) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(method: str) -> None:
    async def attempt() -> None:
        seen = asyncio.Event()

        async def answers_and_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            writer.write_eof()
            assert await reader.read() == b""  # the client has seen the end and closed its side
            seen.set()

        async with Receiver(answers_and_closes) as receiver, launching(limits=HttpLimits(keep_alive=60)) as launcher:
            assert isinstance(await launcher.launch(order(receiver.url, method=method)), Succeeded)
            async with asyncio.timeout(60):
                await seen.wait()
            assert isinstance(await launcher.launch(order(receiver.url, method=method)), Succeeded)
            assert (receiver.connections, len(receiver.requests)) == (2, 2)

    asyncio.run(attempt())


@pytest.mark.parametrize("method", METHODS)
def test_a_kept_connection_that_ends_on_the_next_request_is_unknown_and_not_sent_again(method: str) -> None:
    async def attempt() -> None:
        count = 0

        async def answers_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            if count == 1:
                writer.write(answer("204 x"))
            else:
                writer.close()

        async with Receiver(answers_once) as receiver, launching(limits=HttpLimits(keep_alive=60)) as launcher:
            assert isinstance(await launcher.launch(order(receiver.url, method=method)), Succeeded)
            outcome = await launcher.launch(order(receiver.url, method=method, attempt=2))
            assert isinstance(outcome, UnknownOutcome)
            assert (receiver.connections, len(receiver.requests)) == (1, 2)

    asyncio.run(attempt())


FORBIDDEN_URLS = [
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://0.0.0.0/",
    "http://[fe80::1]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://metadata.internal/",
    "http://mapped.internal/",
    "http://0xa9fea9fe/",
]
FORBIDDEN_NAMES = {
    "metadata.internal": ["169.254.169.254"],
    "mapped.internal": ["::ffff:169.254.169.254", "fe80::1"],
    "0xa9fea9fe": ["169.254.169.254"],
}


@pytest.mark.parametrize("url", FORBIDDEN_URLS)
def test_an_address_that_may_not_be_dialled_is_refused_as_a_literal_and_behind_a_name(url: str) -> None:
    async def attempt() -> None:
        async with launching(lookup=names(**FORBIDDEN_NAMES)) as launcher:
            outcome = await launcher.launch(order(url))
        assert isinstance(outcome, FailedKnown)
        assert (outcome.reason, outcome.retryable) == ("AddressRefused", False)
        assert outcome.message.startswith("Nothing was sent to http://")

    asyncio.run(attempt())


@pytest.mark.parametrize("url", ["http://2852039166/", "http://169.254.43518/", "http://0251.0376.0251.0376/"])
def test_an_address_in_an_old_spelling_is_not_dialled_either(url: str) -> None:
    async def attempt() -> None:
        async with launching() as launcher:
            outcome = await launcher.launch(order(url))
        assert isinstance(outcome, FailedKnown)
        assert not outcome.retryable

    asyncio.run(attempt())


def test_of_a_names_addresses_only_those_that_may_be_dialled_are() -> None:
    async def attempt() -> None:
        lookup = names(backend=["169.254.169.254", "127.0.0.1"])
        async with Receiver(says(OK)) as receiver, launching(lookup=lookup) as launcher:
            assert isinstance(await launcher.launch(order(f"http://backend:{receiver.port}/")), Succeeded)
            assert receiver.header("Host") == f"backend:{receiver.port}"

    asyncio.run(attempt())


def test_a_resolver_hands_out_only_what_may_be_dialled() -> None:
    async def attempt() -> None:
        lookup = names(
            mixed=["169.254.1.1", "10.0.0.1", "10.0.0.1", "fe80::1", "::1"], bad=["fe80::1", "0.0.0.0"], none=[]
        )
        resolver = GuardedResolver(AddressRules(), lookup=lookup)
        assert [found["host"] for found in await resolver.resolve("mixed", 80)] == ["10.0.0.1", "::1"]
        with pytest.raises(AddressRefused, match="bad: fe80::1 is link-local"):
            await resolver.resolve("bad", 80)
        with pytest.raises(OSError, match="none has no address"):
            await resolver.resolve("none", 80)
        await resolver.close()

    asyncio.run(attempt())


def test_a_name_server_that_never_answers_holds_up_its_own_attempt_only() -> None:
    released = threading.Event()

    def stuck(host: str, port: int, **_: object) -> list[Any]:
        if host == "stuck":
            released.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, launching(lookup=stuck) as launcher:
            outcomes = await asyncio.gather(
                launcher.launch(order("http://stuck/", seconds=0.2)),
                launcher.launch(order(f"http://backend:{receiver.port}/")),
            )
            released.set()
        assert isinstance(outcomes[0], FailedKnown)
        assert (outcomes[0].reason, outcomes[0].retryable) == ("NotSentInTime", True)
        assert isinstance(outcomes[1], Succeeded)

    asyncio.run(attempt())


def test_networks_can_be_denied_and_allowed() -> None:
    async def attempt() -> None:
        denied = AddressRules(denied=parse_networks("denied", "127.0.0.0/8"))
        async with Receiver(says(OK)) as receiver, launching(rules=denied) as launcher:
            outcome = await launcher.launch(order(receiver.url))
            assert isinstance(outcome, FailedKnown)
            assert "127.0.0.1 is in the denied network 127.0.0.0/8" in outcome.message
            assert receiver.connections == 0
        opened = AddressRules(allowed=parse_networks("allowed", "0.0.0.0/8"))
        async with Receiver(says(OK)) as receiver, launching(rules=opened) as launcher:
            assert isinstance(await launcher.launch(order(f"http://0.0.0.0:{receiver.port}/")), Succeeded)

    asyncio.run(attempt())


def test_the_address_that_was_checked_is_the_one_that_is_dialled() -> None:
    """A name that is harmless when asked first and forbidden afterwards is asked once, and what it said is dialled."""

    async def attempt() -> None:
        answers = iter([["127.0.0.1"], ["169.254.169.254"]])
        asked = []

        def rebinding(host: str, port: int, **_: object) -> list[Any]:
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in next(answers)]

        limits = HttpLimits(lookup_ttl=0)
        async with Receiver(says(OK)) as receiver, launching(lookup=rebinding, limits=limits) as launcher:
            url = f"http://rebind.example:{receiver.port}/"
            assert isinstance(await launcher.launch(order(url)), Succeeded)
            assert len(asked) == 1
            second = await launcher.launch(order(url))
            assert isinstance(second, FailedKnown)
            assert second.reason == "AddressRefused"
            assert receiver.connections == 1

    asyncio.run(attempt())


def to(location: str, status: str = "302 Found") -> Script:
    return says(answer(status, Location=location))


def test_a_redirect_is_followed_only_when_asked() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as target, Receiver(to(target.url)) as first, launching() as launcher:
            refused = await launcher.launch(order(first.url))
            assert isinstance(refused, FailedKnown)
            assert not refused.retryable
            assert target.connections == 0
            assert isinstance(await launcher.launch(order(first.url, follow_redirects=True)), Succeeded)
            assert target.requests[0].startswith(b"GET /x ")

    asyncio.run(attempt())


@pytest.mark.parametrize("location", ["http://169.254.169.254/", "http://[::ffff:a9fe:a9fe]/", "http://meta.example/"])
@pytest.mark.parametrize("status", ["302 x", "307 x"])
def test_a_redirect_to_an_address_that_may_not_be_dialled_is_refused(location: str, status: str) -> None:
    async def attempt() -> None:
        lookup = names(**{"meta.example": ["169.254.169.254"]})
        async with Receiver(to(location, status)) as first, launching(lookup=lookup) as launcher:
            outcome = await launcher.launch(order(first.url, follow_redirects=True))
            assert isinstance(outcome, FailedKnown)
            assert (outcome.reason, outcome.retryable) == ("AddressRefused", False)

    asyncio.run(attempt())


def test_secrets_stay_behind_when_a_redirect_leaves_the_origin() -> None:
    async def attempt() -> None:
        headers = (Header(name="Authorization", value="Basic eA=="), Header(name="X-Key", ref=TOKEN))
        async with Receiver(says(OK)) as target, Receiver(to(target.url, "307 x")) as first:
            async with launching(keys={TOKEN: "hush"}) as launcher:
                action = {"headers": headers, "body": "{}", "follow_redirects": True}
                assert isinstance(await launcher.launch(order(first.url, **action)), Succeeded)
            assert (first.header("X-Key"), first.header("Authorization")) == ("hush", "Basic eA==")
            assert (target.header("X-Key"), target.header("Authorization")) == (None, None)
            assert target.header("Idempotency-Key") == "u-1/2026-03-29T02:00:00Z"
            assert target.requests[0].endswith(b"\r\n\r\n{}")

    asyncio.run(attempt())


def test_a_circle_of_redirects_ends_after_five() -> None:
    outcome, receiver = asyncio.run(meet(to("/again"), follow_redirects=True))
    assert isinstance(outcome, FailedKnown)
    assert (outcome.reason, outcome.retryable) == ("TooManyRedirects", False)
    assert len(receiver.requests) == 6


@pytest.mark.parametrize(("status", "known"), [("303 x", False), ("302 x", False), ("307 x", True), ("308 x", True)])
def test_a_redirect_into_nothing_is_known_only_if_the_first_receiver_did_not_act(status: str, known: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        outcome, _ = asyncio.run(meet(to(dead, status), follow_redirects=True))
    assert isinstance(outcome, FailedKnown if known else UnknownOutcome)


def test_a_server_is_verified_by_the_given_authority(authority: Authority) -> None:
    bundle = f"# Autorit\u00e9\n{authority.pem}"
    outcome, receiver = asyncio.run(meet(says(OK), tls=authority.server, ca=CA, keys={CA: bundle}))
    assert isinstance(outcome, Succeeded)
    assert receiver.header("Soloist-Run") == "overdue-29384756"


def test_a_server_that_nobody_vouches_for_gets_nothing(authority: Authority) -> None:
    outcome, receiver = asyncio.run(meet(says(OK), tls=authority.server))
    assert isinstance(outcome, FailedKnown)
    assert (outcome.reason, outcome.retryable) == ("TLSFailed", True)
    assert "certificate verify failed" in outcome.message
    assert receiver.requests == []


def test_a_certificate_of_another_name_is_not_accepted(authority: Authority) -> None:
    async def attempt() -> None:
        lookup = names(other=["127.0.0.1"], backend=["127.0.0.1"])
        async with Receiver(says(OK), authority.server) as receiver:
            async with launching(keys={CA: authority.pem}, lookup=lookup) as launcher:
                other = await launcher.launch(order(f"https://other:{receiver.port}/", ca=CA))
                assert isinstance(other, FailedKnown)
                assert other.reason == "TLSFailed"
                named = await launcher.launch(order(f"https://backend:{receiver.port}/", ca=CA))
                assert isinstance(named, Succeeded)
            assert len(receiver.requests) == 1

    asyncio.run(attempt())


def test_verification_can_be_switched_off(authority: Authority) -> None:
    outcome, _ = asyncio.run(meet(says(OK), tls=authority.server, verify=False))
    assert isinstance(outcome, Succeeded)


def test_a_bundle_without_a_certificate_is_named(authority: Authority) -> None:
    for bundle in ("", "nonsense", "é", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        outcome, _ = asyncio.run(meet(says(OK), tls=authority.server, ca=CA, keys={CA: bundle}))
        assert isinstance(outcome, FailedKnown)
        assert (outcome.reason, outcome.retryable) == ("SecretUnavailable", True)
        assert outcome.message.startswith("ConfigMap ca, key ca.crt, holds no certificate")


def test_a_server_that_speaks_no_tls_gets_nothing() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, launching() as launcher:
            outcome = await launcher.launch(order(f"https://127.0.0.1:{receiver.port}/", seconds=1))
            assert isinstance(outcome, FailedKnown)
            assert outcome.retryable
            assert receiver.requests == []

    asyncio.run(attempt())


def test_a_tls_reply_that_is_cut_off_is_unknown(authority: Authority) -> None:
    async def closes(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    outcome, receiver = asyncio.run(meet(closes, tls=authority.server, ca=CA, keys={CA: authority.pem}, method="GET"))
    assert isinstance(outcome, UnknownOutcome)
    assert receiver.connections == 1


def test_a_transient_error_of_the_secret_is_told_as_it_is() -> None:
    async def attempt() -> None:
        async def unreachable(_namespace: str, _ref: KeyRef) -> Text:
            raise TransientError("The API server did not answer.", sent=False)

        launcher = HttpLauncher(read_key=unreachable, rules=AddressRules())
        outcome = await launcher.launch(order("http://backend/", headers=(Header(name="A", ref=TOKEN),)))
        assert outcome == FailedKnown(
            reason="SecretUnavailable", message="The API server did not answer.", retryable=True
        )

    asyncio.run(attempt())


def test_where_the_term_is_over_once_the_secret_is_read_nothing_is_sent() -> None:
    """The machine may have slept meanwhile."""

    async def attempt() -> None:
        trusted = [True]

        async def asleep(_namespace: str, _ref: KeyRef) -> Text:
            trusted.clear()
            return Text("Bearer abcdef")

        async with Receiver(says(OK)) as receiver:
            launcher = HttpLauncher(read_key=asleep, rules=AddressRules(), trusted=lambda: bool(trusted))
            with pytest.raises(TransientError, match="The term was over") as raised:
                await launcher.launch(order(receiver.url, headers=(Header(name="A", ref=TOKEN),)))
            assert not raised.value.sent
            assert receiver.connections == 0
            await launcher.close()

    asyncio.run(attempt())


def test_another_process_request_cannot_be_found_and_another_action_not_launched() -> None:
    async def attempt() -> None:
        launcher = HttpLauncher(read_key=Keys(), rules=AddressRules())
        mine = order("http://backend/")
        await launcher.prepare(mine)
        await launcher.stop(mine)
        await launcher.close()
        with pytest.raises(PermanentError):
            await launcher.found(mine)
        with pytest.raises(PermanentError):
            await launcher.launch(replace(mine, action=JobAction(template={})))

    asyncio.run(attempt())


def test_a_thousand_launches_at_once_look_the_name_up_once_and_all_arrive() -> None:
    async def attempt() -> float:
        lookup = names(backend=["127.0.0.1"])
        async with Receiver(says(OK)) as receiver, launching(lookup=lookup) as launcher:
            began = time.process_time()
            outcomes = await asyncio.gather(
                *(launcher.launch(order(f"http://backend:{receiver.port}/", seconds=300)) for _ in range(1000))
            )
            took = time.process_time() - began
            assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
            assert len(receiver.requests) == 1000
            assert lookup.calls == ["backend"]
            return took

    assert asyncio.run(attempt()) < 15, "seconds of the processor"
