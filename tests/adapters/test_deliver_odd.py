"""Receivers that do what no receiver should: each row still ends with an outcome of its own, and takes nothing else along."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from soloist.adapters.http import connector
from soloist.adapters.http.guard import MOST_ADDRESSES, GuardedResolver
from soloist.domain.actions import Header
from soloist.domain.addresses import AddressRules
from soloist.domain.claims import Done
from soloist.domain.queue_spec import FixedUrl, HttpDelivery
from tests.adapters.receivers import OK, Receiver, Script, answer, names, says
from tests.adapters.test_deliver import CLAIM, TOKEN, Bench, claim, failed, fixed, meet

BOMB = gzip.compress(b"\0" * 2**26)
LARGE = claim(payload=None, payload_text='"' + "x" * 900_000 + '"')


def then_closes(reply: bytes) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()
        writer.close()

    return script


def body(headers: bytes, content: bytes = b"", status: bytes = b"500 x") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + headers + b"\r\n" + content


def sized(content: bytes, headers: bytes = b"") -> bytes:
    return body(b"Content-Length: %d\r\n" % len(content) + headers, content)


def typed(value: bytes) -> bytes:
    return sized(b"no", b"Content-Type: " + value + b"\r\n")


ANSWERED = {
    "a gzip bomb": sized(BOMB, b"Content-Encoding: gzip\r\n"),
    "a deflate bomb": sized(zlib.compress(b"\0" * 2**26), b"Content-Encoding: deflate\r\n"),
    "no gzip at all": sized(b"hello", b"Content-Encoding: gzip\r\n"),
    "an encoding that nobody knows": sized(b"hello", b"Content-Encoding: klingon, gzip\r\n"),
    "a chunk of no number": body(b"Transfer-Encoding: chunked\r\n", b"zz\r\nhello\r\n0\r\n\r\n"),
    "a chunk longer than it says": body(b"Transfer-Encoding: chunked\r\n", b"2\r\nhello\r\n0\r\n\r\n"),
    "a chunk of an endless size": body(b"Transfer-Encoding: chunked\r\n", b"f" * 40 + b"\r\nhello"),
    "chunks without an end": body(b"Transfer-Encoding: chunked\r\nConnection: close\r\n", b"5\r\nhello\r\n"),
    "more than its length": sized(b"hello") + b"and more",
    "a Content-Type like a tower": typed(b"(" * 8000),
    "a Content-Type of words": typed(b"a/b; " + b"x*0*=y; " * 900),
    "a charset of another kind": typed(b"text/plain; charset*=utf-8''x"),
    "a charset that is no word": typed(b'text/plain; charset="\xff\xfe"'),
    "a charset that is a module": typed(b"text/plain; charset=../../__main__"),
    "a hundred cookies": sized(b"no", b'Set-Cookie: a="b\\; c; d=e; ; =; path\r\n' * 100),
    "a Retry-After without end": sized(b"no", b"Retry-After: " + b"9" * 8000 + b"\r\n"),
    "a Retry-After before all time": sized(b"no", b"Retry-After: Mon, 01 Jan 0001 00:00:00 +2359\r\nDate: x\r\n"),
    "1xx before it": b"HTTP/1.1 102 x\r\n\r\n" * 10 + sized(b"no"),
    "an upgrade": body(b"Upgrade: x\r\nConnection: upgrade\r\n", b"hello", b"101 x"),
    "bytes that are no text": sized(bytes(range(256)) * 16, b"X: \xff\xfe\r\n"),
    "a status of its own": body(b"Content-Length: 0\r\n", status=b"999 " + b"x" * 4000),
    "trailers without end": body(b"Transfer-Encoding: chunked\r\n", b"2\r\nno\r\n0\r\n" + b"X: y\r\n" * 2**17),
    "an endless name of a chunk": body(b"Transfer-Encoding: chunked\r\n", b"2;" + b"x" * 2**20),
    "a HEAD's answer": body(b"", status=b"304 x"),
}
UNREADABLE = {
    "HTTP/0.9": b"<html>hello</html>",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20,
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2**17,
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok",
    "a length of no number": b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\nok",
    "a status that is none": b"HTTP/1.1 20x OK\r\nContent-Length: 2\r\n\r\nok",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "1xx without end": b"HTTP/1.1 100 x\r\n\r\n" * 2**14,
    "a header that is no text": b"HTTP/1.1 200 OK\r\nX-\xff: \x00\r\nContent-Length: 2\r\n\r\nok",
    "nothing but line ends": b"\r\n" * 2**16,
}


@pytest.mark.parametrize("reply", ANSWERED.values(), ids=ANSWERED)
def test_an_answer_that_says_no_is_a_failure_whatever_else_is_in_it(reply: bytes) -> None:
    outcome, receiver = asyncio.run(meet(then_closes(reply)))
    assert failed(outcome).retry_in is not None
    assert failed(outcome).error.startswith("The receiver answered ")
    assert len(failed(outcome).error.encode()) < 1200
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_answer_is_an_unknown_outcome_and_is_not_asked_twice(reply: bytes) -> None:
    outcome, receiver = asyncio.run(meet(then_closes(reply)))
    assert failed(outcome).retry_in is not None
    assert failed(outcome).error.startswith("The request was sent ")
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        body(b"Content-Length: 5\r\n", b"hello", b"204 x"),
        body(b"Content-Length: 99\r\n", b"hello", b"200 x"),
        body(b"Transfer-Encoding: chunked\r\n", b"zz\r\n", b"200 x"),
        sized(BOMB, b"Content-Encoding: gzip\r\n").replace(b"500 x", b"200 x"),
        typed(b"(" * 8000).replace(b"500 x", b"200 x"),
        b"HTTP/1.1 100 x\r\n\r\n" + OK,
    ],
)
def test_an_answer_that_says_yes_is_one_whatever_else_is_in_it(reply: bytes) -> None:
    outcome, _ = asyncio.run(meet(then_closes(reply)))
    assert isinstance(outcome, Done)


# Connections that are kept


@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize(
    "unasked",
    [OK, answer("408 Request Timeout", Connection="close"), b"the rest of a body", b"HTTP/1.1 200 OK\r\n"],
)
def test_what_comes_unasked_on_a_kept_connection_is_no_answer_to_the_next_request(unasked: bytes, heard: bool) -> None:
    async def attempt() -> None:
        writers: list[asyncio.StreamWriter] = []

        async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK if not writers else answer("503 x"))
            writers.append(writer)

        async with Receiver(script) as receiver, Bench().open() as bench:
            deliverer = bench.deliverer(fixed(receiver))
            assert isinstance(await deliverer.deliver(CLAIM), Done)
            writers[0].write(unasked)
            if heard:
                await asyncio.sleep(0.1)
            assert failed(await deliverer.deliver(CLAIM)).error == "The receiver answered 503."
            assert (len(receiver.requests), receiver.connections) == (2, 2)

    asyncio.run(attempt())


@pytest.mark.parametrize("split", [0, len(OK), len(OK) + 1, len(OK) - 1])
def test_a_second_answer_in_one_breath_is_none_to_the_next_request(split: int) -> None:
    async def attempt() -> None:
        replies = [OK + OK, answer("503 x")]

        async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reply = replies.pop(0)
            writer.write(reply[:split])
            await asyncio.sleep(0.01)
            writer.write(reply[split:])

        async with Receiver(script) as receiver, Bench().open() as bench:
            deliverer = bench.deliverer(fixed(receiver))
            assert isinstance(await deliverer.deliver(CLAIM), Done)
            await asyncio.sleep(0.05)
            assert failed(await deliverer.deliver(CLAIM)).error == "The receiver answered 503."
            assert receiver.connections == 2

    asyncio.run(attempt())


async def floods(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(OK * 100)
        await writer.drain()


def test_answers_to_nothing_are_not_kept_however_many_come() -> None:
    async def attempt() -> None:
        theirs: list[asyncio.StreamWriter] = []

        async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            theirs.append(writer)

        async with Receiver(script) as receiver, Bench().open() as bench:
            assert isinstance(await bench.deliverer(fixed(receiver)).deliver(CLAIM), Done)
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(floods(theirs[0]), 60)

    asyncio.run(attempt())


def test_a_connection_on_which_nothing_came_is_used_again() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            deliverer = bench.deliverer(fixed(receiver))
            for _ in range(5):
                assert isinstance(await deliverer.deliver(CLAIM), Done)
                await asyncio.sleep(0.01)
            assert receiver.connections == 1

    asyncio.run(attempt())


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def reads_only_the_head(reply: bytes) -> AsyncIterator[tuple[str, list[Ends]]]:
    """A receiver that answers at once, reads no further, and keeps its end open; small windows, so little is on its way."""
    theirs: list[Ends] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs.append((reader, writer))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(reply)

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        listener.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(serve, sock=listener, limit=1024)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/x", theirs
        finally:
            for _, writer in theirs:
                writer.transport.abort()
            server.close()


def sockets() -> int:
    found = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{each}").startswith("socket:")
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize(("reply", "done"), [(OK, True), (answer("413 x"), False), (b"", False)])
@pytest.mark.parametrize("most", [64, 0])
def test_a_receiver_that_reads_no_body_uses_up_no_sockets(
    monkeypatch: pytest.MonkeyPatch, reply: bytes, done: bool, most: int
) -> None:
    """Else each of its rows would leave one behind, with its body, until the process has none to spare."""
    monkeypatch.setattr(connector, "LINGER", 0.3 if most else 600.0)
    monkeypatch.setattr(connector, "MOST_LINGERING", most)

    async def attempt() -> None:
        async with reads_only_the_head(reply) as (url, theirs), Bench().open() as bench:
            before = sockets()
            timeout = timedelta(seconds=30 if reply else 2)
            deliverer = bench.deliverer(HttpDelivery(target=FixedUrl(url=url), timeout=timeout))
            for number in range(1, 4):
                outcome = await deliverer.deliver(LARGE)
                assert isinstance(outcome, Done) is done
                assert len(theirs) == number, "what is half sent is not used again"
            async with asyncio.timeout(60):
                while sockets() != before + len(theirs):
                    await asyncio.sleep(0.02)

    asyncio.run(attempt())


def test_who_answers_early_may_still_read_all_of_the_body() -> None:
    async def attempt() -> None:
        async with reads_only_the_head(OK) as (url, theirs), Bench().open() as bench:
            assert isinstance(await bench.deliverer(HttpDelivery(target=FixedUrl(url=url))).deliver(LARGE), Done)
            reader, writer = theirs[0]
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(60):
                assert (await reader.read()).endswith(b'xxx"')

    asyncio.run(attempt())


def test_a_proxy_in_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def attempt() -> None:
        async with Receiver(says(answer("502 x"))) as proxy, Receiver(says(OK)) as receiver, Bench().open() as bench:
            for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv("no_proxy", "")
            assert isinstance(await bench.deliverer(fixed(receiver)).deliver(CLAIM), Done)
            assert proxy.connections == 0

    asyncio.run(attempt())


# What is too much of ours


@pytest.mark.parametrize("ref", [None, TOKEN])
def test_a_header_that_no_receiver_would_take_is_not_sent(ref: object) -> None:
    long = "x" * 70_000
    header = Header(name="X-Of-The-Row", value="{note}") if ref is None else Header(name="X-Secret", ref=TOKEN)
    outcome, receiver = asyncio.run(
        meet(says(OK), row=claim(columns={"note": long}), headers=(header,), keys={TOKEN: long})
    )
    assert (failed(outcome).retry_in is None) is (ref is None), "a Secret may be mended"
    assert "has more than 65536 characters" in failed(outcome).error
    assert receiver.connections == 0


def test_of_a_name_with_thousands_of_addresses_some_are_looked_at() -> None:
    async def attempt() -> int:
        many = [f"10.0.{number >> 8}.{number & 255}" for number in range(5000)]
        return len(await GuardedResolver(AddressRules(), lookup=names(many=many)).resolve("many", 80))

    assert asyncio.run(attempt()) == MOST_ADDRESSES
