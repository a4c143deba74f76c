"""The backend counts what it is sent, keeps it whatever is killed, and misbehaves as told."""

from __future__ import annotations

import asyncio
import http.client
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import aiohttp
import pytest

from tests.bench.processes import cpu_seconds
from tests.cluster.backend import Backend


def post(url: str, body: bytes = b"", timeout: float = 60, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as said:
        with said:
            return said.code


def test_it_records_time_method_path_headers_and_body(backend: Backend) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert post(backend.url("/hook?x=1"), b"hello", Idempotency_Key="k") == 200
    (seen,) = backend.wait()
    assert (seen.method, seen.path, seen.body, seen.header("idempotency_key")) == ("POST", "/hook?x=1", "hello", "k")
    assert before <= seen.boot <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_thousand_requests_take_less_than_a_second(backend: Backend) -> None:
    """Of the processor: what a busy machine gives it besides is not the backend's."""

    async def flood() -> None:
        connector = aiohttp.TCPConnector(limit=100)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one(number: int) -> None:
                async with session.post(backend.url(f"/{number}"), data=b"x") as answer:
                    await answer.read()

            await asyncio.gather(*(one(number) for number in range(1000)))

    before = cpu_seconds(backend.child.pid)
    asyncio.run(flood())
    assert len(backend.wait(1000)) == 1000
    assert cpu_seconds(backend.child.pid) - before < 1


def test_the_newest_rule_decides_as_often_as_it_says(backend: Backend) -> None:
    backend.rule(status=500)
    backend.rule("^/busy", status=429, headers={"Retry-After": "1"}, times=1)
    assert [post(backend.url("/busy")), post(backend.url("/busy")), post(backend.url("/"))] == [429, 500, 500]
    backend.clear()
    assert post(backend.url("/busy")) == 200


def test_overlapping_requests_are_counted_as_such(backend: Backend) -> None:
    backend.rule(delay=2)

    async def two() -> None:
        await asyncio.gather(*(asyncio.to_thread(post, backend.url("/slow")) for _ in range(2)))

    asyncio.run(two())
    assert backend.most_at_once() == 2
    assert all(each.ended_boot and each.ended_boot - each.boot >= 2 for each in backend.received())


def test_a_request_that_hangs_is_recorded_and_not_ended(backend: Backend) -> None:
    backend.rule(hang=True)
    with pytest.raises(TimeoutError):
        post(backend.url("/hang"), timeout=0.3)
    assert [each.ended_boot for each in backend.wait()] == [None]


def test_reset_ends_the_connection_after_the_request_is_recorded(backend: Backend) -> None:
    backend.rule(reset=True)
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        post(backend.url("/reset"), b"body")
    assert [each.body for each in backend.wait()] == ["body"]


CALLER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=90).read(); input()"


@pytest.mark.parametrize("how", ["kill_caller", "kill_after_reply"])
def test_a_request_may_kill_whoever_sent_it(backend: Backend, tmp_path: Path, how: str) -> None:
    backend.rule("/deadly", **{how: True})
    caller = subprocess.Popen([sys.executable, "-c", CALLER, backend.url("/deadly")], stdin=subprocess.PIPE)
    assert caller.wait(timeout=90) == -signal.SIGKILL
    assert [each.path for each in backend.received()] == ["/deadly"]
    assert post(backend.url("/")) == 200


def test_what_was_received_is_known_after_the_backend_was_killed(backend: Backend) -> None:
    post(backend.url("/kept"))
    backend.child.stop()
    assert [each.path for each in backend.received()] == ["/kept"]


def test_a_rule_with_an_unknown_word_is_refused(backend: Backend) -> None:
    with pytest.raises(ValueError, match="dealy is no part of a backend's rule"):
        backend.rule(dealy=3)
