"""The delivery of a claimed row against real servers on loopback, well-behaved and not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from soloist.adapters.http.deliver import FindEndpoint, HttpDeliverer, World
from soloist.adapters.http.endpoints import Endpoints
from soloist.adapters.http.exchanges import Exchanges
from soloist.adapters.http.trust import TrustStore
from soloist.domain.actions import FailedKnown, Header, KeyRef
from soloist.domain.addresses import AddressRules, parse_networks
from soloist.domain.breaker import BreakerRules
from soloist.domain.claims import Claim, Done, Failed, Parked, PutBack, Settled
from soloist.domain.delivery_request import Endpoint, refused
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.public_addresses import rules_for_data
from soloist.domain.queue_spec import (
    AfterCrash,
    Concurrency,
    DatabaseRef,
    External,
    FixedUrl,
    HmacSha256,
    HttpDelivery,
    KeyPer,
    Lookup,
    ManagedTable,
    MappedTable,
    Poll,
    QueueSpec,
    RetryRules,
    StandardWebhooks,
    TableName,
    UrlColumn,
)
from tests.adapters.receivers import (
    OK,
    Authority,
    Keys,
    Receiver,
    Script,
    answer,
    names,
    says,
    then_hangs,
    then_resets,
)
from tests.cluster.backend import Backend

SIGNING = KeyRef(kind="Secret", name="signing", key="present")
FORMER = KeyRef(kind="Secret", name="signing", key="former")
TOKEN = KeyRef(kind="Secret", name="receiver", key="token")
CA = KeyRef(kind="ConfigMap", name="ca", key="ca.crt")
PRESENT_SECRET, FORMER_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
LOOKUP = Lookup(table=TableName("public", "Webhook"), key="webhookId", by="id", url="url", secret="secret")
FIRST, SECOND = timedelta(seconds=5), timedelta(minutes=5)
LOOPBACK = parse_networks("test", "127.0.0.0/8")


def spec(delivery: HttpDelivery, **changed: Any) -> QueueSpec:
    whole: dict[str, Any] = {
        "suspend": False,
        "database": DatabaseRef(secret_name="db", key="uri"),
        "table": ManagedTable(),
        "after_crash": AfterCrash.RETRY,
        "max_reclaims": 5,
        "deliver": delivery,
        "idempotency_key": KeyPer.MESSAGE,
        "lease": timedelta(seconds=60),
        "poll": Poll(),
        "retry": RetryRules(schedule=(FIRST, SECOND), jitter=0.2, max_attempts=3, retry_after_cap=timedelta(hours=1)),
        "concurrency": Concurrency(),
        "on_dead": None,
    }
    return QueueSpec(**(whole | changed))


def claim(**changed: Any) -> Claim:
    return replace(CLAIM, **changed)


CLAIM = Claim(
    row=("42",),
    fence=1774749600000123,
    attempt=1,
    tries=1,
    due=datetime(2026, 3, 29, 2, 0, tzinfo=UTC),
    payload={"event": "gig.expired"},
    payload_text='{"event": "gig.expired", "amount": 12345678901234567890.10}',
)


@dataclass(kw_only=True)
class Bench:
    """Everything around a deliverer: what Secrets hold, what time it is for breakers, what chance draws."""

    keys: dict[KeyRef, str] = field(default_factory=dict)
    rules: BreakerRules | None = None
    lookup: Any = socket.getaddrinfo
    for_data: AddressRules = field(default_factory=lambda: rules_for_data(allowed=LOOPBACK))
    boottime: float = 0.0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Bench]:
        self.exchanges = Exchanges(for_specs=AddressRules(), for_data=self.for_data, lookup=self.lookup)
        self.world = World(
            endpoints=Endpoints(boottime=lambda: self.boottime, rules=self.rules),
            read_key=Keys(self.keys),
            trust=TrustStore(),
            now=lambda: datetime.now(UTC),
            drawn=lambda: 0.5,
        )
        try:
            yield self
        finally:
            await self.exchanges.close()

    def deliverer(self, delivery: HttpDelivery, *, find: FindEndpoint | None = None, **changed: Any) -> HttpDeliverer:
        whole = spec(delivery, **changed)
        return HttpDeliverer(
            whole, namespace="shop", source="home/t", exchange=self.exchanges.of(whole), world=self.world, find=find
        )


def fixed(receiver: Receiver, **fields: Any) -> HttpDelivery:
    return HttpDelivery(target=FixedUrl(url=receiver.url), **fields)


async def meet(
    script: Script,
    *,
    row: Claim = CLAIM,
    keys: dict[KeyRef, str] | None = None,
    changed: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[Settled, Receiver]:
    """One delivery to one server at a fixed address: what is to be written, and the server to ask."""
    async with Receiver(script) as receiver, Bench(keys=keys or {}).open() as bench:
        return await bench.deliverer(fixed(receiver, **fields), **(changed or {})).deliver(row), receiver


def failed(outcome: Settled) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


# What is sent


def test_a_row_is_sent_with_its_payload_its_key_its_attempt_and_its_fence() -> None:
    outcome, receiver = asyncio.run(meet(says(OK), row=claim(attempt=3)))
    assert outcome == Done(claim=claim(attempt=3))
    assert receiver.requests[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert receiver.requests[0].endswith(b'\r\n\r\n{"event": "gig.expired", "amount": 12345678901234567890.10}')
    assert receiver.header("Soloist-Attempt") == "3"
    assert receiver.header("Soloist-Fence") == "1774749600000123"
    assert receiver.header("Content-Type") == "application/json"
    assert receiver.header("User-Agent") == "soloist/0.1.0"


def keys_of(per: KeyPer, *rows: Claim) -> list[str | None]:
    async def attempt() -> list[str | None]:
        async with Receiver(says(OK)) as receiver:
            for row in rows:
                async with Bench().open() as bench:  # each as if by another replica
                    await bench.deliverer(fixed(receiver), idempotency_key=per).deliver(row)
            return [receiver.header("Idempotency-Key", index) for index in range(len(rows))]

    return asyncio.run(attempt())


def test_a_row_that_was_reclaimed_comes_with_the_same_key_and_a_higher_fence_whatever_the_keys_are_made_of() -> None:
    for per in KeyPer:
        first, second = keys_of(per, CLAIM, claim(fence=CLAIM.fence + 1, reclaims=1))
        assert first == second is not None


def test_a_further_attempt_keeps_the_key_of_its_message_and_has_one_of_its_own_otherwise() -> None:
    for per, same in ((KeyPer.MESSAGE, True), (KeyPer.ATTEMPT, False), (KeyPer.DUE, True)):
        first, second = keys_of(per, CLAIM, claim(attempt=2))
        assert (first == second) is same
    one, two = keys_of(KeyPer.DUE, CLAIM, claim(due=datetime(2026, 4, 29, 2, 0, tzinfo=UTC)))
    assert one != two


def test_a_receiver_verifies_the_signature_by_the_library_with_either_secret_of_a_rotation() -> None:
    outcome, receiver = asyncio.run(
        meet(
            says(OK),
            signature=StandardWebhooks(),
            secrets=(SIGNING, FORMER),
            keys={SIGNING: PRESENT_SECRET + "\n", FORMER: FORMER_SECRET},
        )
    )
    assert isinstance(outcome, Done)
    headers = {name: receiver.header(name) or "" for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    body = receiver.requests[0].split(b"\r\n\r\n", 1)[1]
    for secret in (PRESENT_SECRET, FORMER_SECRET):
        Webhook(secret).verify(body, headers, json_parse=False)
    assert headers["webhook-id"] == receiver.header("Idempotency-Key")


def test_a_receivers_own_scheme_is_verified_by_an_hmac_of_the_body_as_it_arrived() -> None:
    scheme = HmacSha256(header="X-Hub-Signature-256", prefix="sha256=")
    _, receiver = asyncio.run(meet(says(OK), signature=scheme, secrets=(SIGNING,), keys={SIGNING: "hush"}))
    body = receiver.requests[0].split(b"\r\n\r\n", 1)[1]
    assert receiver.header("X-Hub-Signature-256") == "sha256=" + hmac.new(b"hush", body, hashlib.sha256).hexdigest()


def test_headers_are_filled_in_from_the_row_and_from_secrets() -> None:
    headers = (Header(name="x-idempotency-key", value="{key}"), Header(name="Authorization", ref=TOKEN))
    _, receiver = asyncio.run(meet(says(OK), headers=headers, keys={TOKEN: "Bearer t\n"}))
    assert receiver.header("x-idempotency-key") == receiver.header("Idempotency-Key") is not None
    assert receiver.header("Authorization") == "Bearer t"


def test_a_row_of_the_users_own_table_goes_to_its_url_with_its_body() -> None:
    async def attempt() -> None:
        table = MappedTable(name=TableName("public", "Delivery"), id=("id",), columns=("url", "body"))
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            delivery = HttpDelivery(target=UrlColumn(column="url"), body_column="body", method="PUT")
            row = claim(columns={"url": receiver.url, "body": '{"a":  1.10}'}, payload=None, payload_text=None)
            assert await bench.deliverer(delivery, table=table).deliver(row) == Done(claim=row)
            assert receiver.requests[0].startswith(b"PUT /x")
            assert receiver.requests[0].endswith(b'\r\n\r\n{"a":  1.10}')

    asyncio.run(attempt())


# What becomes of it


@pytest.mark.parametrize("status", ["301 x", "302 x", "307 x", "308 x", "400 x", "404 x", "429 x", "500 x", "503 x"])
def test_an_answer_that_is_not_expected_is_tried_again_and_no_redirect_is_followed(status: str) -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as other:
            outcome, receiver = await meet(says(answer(status, b"because", Location=other.url)))
            assert failed(outcome).retry_in == FIRST
            assert failed(outcome).error == f"The receiver answered {status[:3]}: because"
            assert (len(receiver.requests), other.connections) == (1, 0)

    asyncio.run(attempt())


def test_what_a_queue_expects_may_be_any_status() -> None:
    outcome, _ = asyncio.run(meet(says(answer("409 x")), expected=((200, 204), (409, 409))))
    assert isinstance(outcome, Done)


def test_a_receiver_that_asks_for_time_is_given_it() -> None:
    outcome, _ = asyncio.run(meet(says(answer("503 x", Retry_After="600"))))
    assert failed(outcome).retry_in == timedelta(seconds=660)


def test_the_last_attempt_gives_the_row_up() -> None:
    outcome, _ = asyncio.run(meet(says(answer("500 x")), row=claim(tries=3, attempt=7)))
    assert failed(outcome).retry_in is None


LOST = {
    "closed at once": then_resets(b""),
    "reset in the headers": then_resets(b"HTTP/1.1 200 OK\r\nContent-Len"),
    "not HTTP": then_resets(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "no answer": then_hangs(b""),
    "half an answer": then_hangs(b"HTTP/1.1 200 OK\r\n"),
}


HANGING = timedelta(seconds=2)
"""Until a receiver that says nothing is given up: not so soon that nothing was sent by then."""


@pytest.mark.parametrize("lost", LOST)
def test_an_outcome_that_nobody_knows_is_tried_again_and_sent_once_for_now(lost: str) -> None:
    outcome, receiver = asyncio.run(meet(LOST[lost], timeout=HANGING))
    assert failed(outcome).retry_in == FIRST
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("lost", LOST)
def test_an_outcome_that_nobody_knows_is_parked_where_the_queue_holds(lost: str) -> None:
    hold = {"after_crash": AfterCrash.HOLD}
    outcome, receiver = asyncio.run(meet(LOST[lost], timeout=HANGING, changed=hold))
    assert isinstance(outcome, Parked)
    assert len(receiver.requests) == 1


def test_where_unknown_outcomes_are_held_no_connection_is_used_twice() -> None:
    async def attempt(after_crash: AfterCrash) -> int:
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            deliverer = bench.deliverer(fixed(receiver), after_crash=after_crash)
            for _ in range(3):
                assert isinstance(await deliverer.deliver(CLAIM), Done)
            return receiver.connections

    assert asyncio.run(attempt(AfterCrash.HOLD)) == 3
    assert asyncio.run(attempt(AfterCrash.RETRY)) == 1


def test_what_was_certainly_not_sent_is_tried_again_also_where_the_queue_holds() -> None:
    async def attempt() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
            async with Bench().open() as bench:
                deliverer = bench.deliverer(HttpDelivery(target=FixedUrl(url=url)), after_crash=AfterCrash.HOLD)
                assert failed(await deliverer.deliver(CLAIM)).retry_in == FIRST

    asyncio.run(attempt())


@pytest.mark.parametrize("ending", [then_resets, then_hangs])
def test_once_there_is_a_status_the_body_decides_nothing(ending: Callable[[bytes], Script]) -> None:
    part = ending(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial")
    outcome, _ = asyncio.run(meet(part, timeout=HANGING))
    assert isinstance(outcome, Done)


def test_of_a_huge_answer_a_kibibyte_is_kept_and_no_secret_of_ours() -> None:
    async def floods(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 x\r\nContent-Length: 4000000000\r\n\r\nno such user: Bearer abcdef123 ")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    headers = (Header(name="Authorization", ref=TOKEN),)
    outcome, _ = asyncio.run(meet(floods, headers=headers, keys={TOKEN: "Bearer abcdef123"}))
    error = failed(outcome).error
    assert error.startswith("The receiver answered 500: no such user: *** xxx")
    assert len(error.encode()) < 1100
    assert "abcdef123" not in error


# What goes wrong before anything is sent


def test_a_row_that_cannot_be_sent_ends_with_its_reason_and_nothing_is_dialled() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            headers = (Header(name="X-Topic", value="{topic}"),)
            deliverer = bench.deliverer(HttpDelivery(target=UrlColumn(column="url"), headers=headers))
            for columns, why in (
                ({"url": None}, "The column url holds no address."),
                ({"url": "ftp://x/"}, "The address must begin with http:// or https://"),
                ({"url": receiver.url, "topic": "a\r\nHost: evil"}, "The header X-Topic cannot be sent"),
            ):
                outcome = failed(await deliverer.deliver(claim(columns=columns)))
                assert outcome.retry_in is None
                assert outcome.error.startswith(why)
            assert receiver.connections == 0

    asyncio.run(attempt())


def test_a_secret_that_is_missing_or_cannot_sign_uses_an_attempt_and_names_itself() -> None:
    how: dict[str, Any] = {"signature": StandardWebhooks(), "secrets": (SIGNING,)}
    outcome, receiver = asyncio.run(meet(says(OK), **how))
    assert failed(outcome).retry_in == FIRST
    assert failed(outcome).error == "Secret shop/signing has no key present; create it."
    assert receiver.connections == 0
    outcome, receiver = asyncio.run(meet(says(OK), keys={SIGNING: "not base64!"}, **how))
    assert failed(outcome).retry_in == FIRST
    assert "not base64!" not in failed(outcome).error
    assert receiver.connections == 0


def test_what_cannot_even_be_asked_for_puts_the_row_back_without_an_attempt() -> None:
    async def away(*_: object) -> Any:
        raise TransientError("The database did not answer.", sent=False)

    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            by_lookup = bench.deliverer(HttpDelivery(target=LOOKUP), find=away)
            bench.world = replace(bench.world, read_key=away)
            signed = bench.deliverer(fixed(receiver, signature=StandardWebhooks(), secrets=(SIGNING,)))
            for deliverer in (by_lookup, signed):
                assert await deliverer.deliver(CLAIM) == PutBack(claim=CLAIM, retry_in=timedelta(seconds=7.5))
            assert receiver.connections == 0

    asyncio.run(attempt())


def found(endpoint: Endpoint | FailedKnown) -> FindEndpoint:
    async def find(_claim: Claim) -> Endpoint | FailedKnown:
        return endpoint

    return find


def test_a_row_is_signed_with_the_secret_of_the_endpoint_that_was_looked_up() -> None:
    async def attempt() -> None:
        async with Receiver(says(OK)) as receiver, Bench().open() as bench:
            endpoint = Endpoint(url=receiver.url, secrets=(PRESENT_SECRET,))
            delivery = HttpDelivery(target=LOOKUP, signature=StandardWebhooks())
            assert await bench.deliverer(delivery, find=found(endpoint)).deliver(CLAIM) == Done(claim=CLAIM)
            names_ = ("webhook-id", "webhook-timestamp", "webhook-signature")
            headers = {name: receiver.header(name) or "" for name in names_}
            body = receiver.requests[0].split(b"\r\n\r\n", 1)[1]
            Webhook(PRESENT_SECRET).verify(body, headers, json_parse=False)

    asyncio.run(attempt())


def test_an_endpoint_that_is_switched_off_ends_the_row_with_its_reason() -> None:
    async def attempt() -> None:
        async with Bench().open() as bench:
            off = found(refused("The endpoint is switched off (isActive)."))
            outcome = failed(await bench.deliverer(HttpDelivery(target=LOOKUP), find=off).deliver(CLAIM))
            assert (outcome.retry_in, outcome.error) == (None, "The endpoint is switched off (isActive).")

    asyncio.run(attempt())


def test_a_table_that_may_not_be_read_uses_attempts_and_says_so() -> None:
    async def forbidden(_claim: Claim) -> Endpoint:
        raise PermanentError("permission denied for table Webhook: grant SELECT.")

    async def attempt() -> None:
        async with Bench().open() as bench:
            outcome = failed(await bench.deliverer(HttpDelivery(target=LOOKUP), find=forbidden).deliver(CLAIM))
            assert outcome.retry_in == FIRST
            assert outcome.error == "permission denied for table Webhook: grant SELECT."

    asyncio.run(attempt())


def test_a_deliverer_is_made_for_http_only_and_with_a_find_exactly_where_it_looks_up() -> None:
    async def attempt() -> None:
        async with Bench().open() as bench:
            for delivery, find in (
                (External(), None),
                (HttpDelivery(target=LOOKUP), None),
                (HttpDelivery(target=FixedUrl(url="http://x/")), found(Endpoint(url="http://x/"))),
            ):
                with pytest.raises(TypeError):
                    bench.deliverer(delivery, find=find)  # type: ignore[arg-type]

    asyncio.run(attempt())


# Endpoints that are away or gone


def by_url(bench: Bench, *, seconds: float = 30) -> HttpDeliverer:
    return bench.deliverer(HttpDelivery(target=UrlColumn(column="url"), timeout=timedelta(seconds=seconds)))


def to(receiver: Receiver) -> Claim:
    return claim(columns={"url": receiver.url})


QUICK = BreakerRules(failures=3, first=5.0, longest=60.0, stopped=3600.0)


@pytest.mark.parametrize("away", [says(answer("503 x")), then_hangs(b""), then_resets(b"")])
def test_an_endpoint_that_is_away_is_left_alone_and_its_rows_use_no_attempts(away: Script) -> None:
    async def attempt() -> None:
        script = [away]

        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await script[0](reader, writer)

        async with Receiver(answers) as receiver, Receiver(says(OK)) as other, Bench(rules=QUICK).open() as bench:
            deliverer = by_url(bench, seconds=HANGING.total_seconds())
            for _ in range(3):
                assert isinstance(await deliverer.deliver(to(receiver)), Failed)
            back = await deliverer.deliver(to(receiver))
            assert back == PutBack(
                claim=to(receiver), retry_in=timedelta(seconds=7.5), shut_for=timedelta(seconds=5), for_all=False
            )
            assert isinstance(await deliverer.deliver(to(other)), Done)
            assert len(receiver.requests) == 3
            bench.boottime = 5.0
            script[0] = says(OK)
            assert isinstance(await deliverer.deliver(to(receiver)), Done)
            assert isinstance(await deliverer.deliver(to(receiver)), Done)
            assert len(receiver.requests) == 5

    asyncio.run(attempt())


class Door:
    """A script that turns everybody away first, and then keeps them until it is opened."""

    def __init__(self) -> None:
        self.keeps = False
        self.arrived, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.keeps:
            writer.write(answer("503 x"))
            return
        self.arrived.set()
        await self.opened.wait()
        writer.write(OK)

    async def probe(self, bench: Bench, deliverer: HttpDeliverer, row: Claim) -> asyncio.Task[Settled]:
        """A row that is on its way as the probe of an endpoint that was away."""
        assert isinstance(await deliverer.deliver(row), Failed)
        assert isinstance(await deliverer.deliver(row), PutBack)
        bench.boottime = 5.0
        self.keeps = True
        probe = asyncio.create_task(deliverer.deliver(row))
        async with asyncio.timeout(60):
            await self.arrived.wait()
        return probe


def test_while_one_row_probes_the_others_wait() -> None:
    async def attempt() -> None:
        door = Door()
        async with Receiver(door) as receiver, Bench(rules=replace(QUICK, failures=1)).open() as bench:
            deliverer = by_url(bench, seconds=60)
            probe = await door.probe(bench, deliverer, to(receiver))
            for _ in range(5):
                assert isinstance(await deliverer.deliver(to(receiver)), PutBack)
            door.opened.set()
            assert isinstance(await probe, Done)
            assert isinstance(await deliverer.deliver(to(receiver)), Done)

    asyncio.run(attempt())


def test_a_probe_that_is_abandoned_does_not_leave_the_endpoint_shut() -> None:
    async def attempt() -> None:
        door = Door()
        async with Receiver(door) as receiver, Bench(rules=replace(QUICK, failures=1)).open() as bench:
            deliverer = by_url(bench, seconds=60)
            probe = await door.probe(bench, deliverer, to(receiver))
            probe.cancel()
            with pytest.raises(asyncio.CancelledError):
                await probe
            door.opened.set()
            assert isinstance(await deliverer.deliver(to(receiver)), Done)

    asyncio.run(attempt())


@pytest.mark.parametrize("status", ["400 x", "422 x", "500 x"])
def test_rows_that_fail_by_themselves_open_nothing(status: str) -> None:
    async def attempt() -> None:
        async with Receiver(says(answer(status))) as receiver, Bench(rules=QUICK).open() as bench:
            for _ in range(20):
                assert isinstance(await by_url(bench).deliver(to(receiver)), Failed)
            assert len(receiver.requests) == 20

    asyncio.run(attempt())


def test_410_stops_the_endpoint_and_no_other() -> None:
    async def attempt() -> None:
        async with Receiver(says(answer("410 Gone"))) as gone, Receiver(says(OK)) as other, Bench().open() as bench:
            deliverer = by_url(bench)
            assert failed(await deliverer.deliver(to(gone))).retry_in is None
            unsent = failed(await deliverer.deliver(to(gone)))
            assert unsent.retry_in is None
            assert unsent.error.startswith("Nothing was sent: the endpoint answered 410 (gone) to an earlier row.")
            assert isinstance(await deliverer.deliver(to(other)), Done)
            assert len(gone.requests) == 1

    asyncio.run(attempt())


def test_410_from_a_fixed_address_ends_its_row_and_not_the_queue() -> None:
    async def attempt() -> None:
        async with Receiver(says(answer("410 Gone"))) as receiver, Bench().open() as bench:
            deliverer = bench.deliverer(fixed(receiver))
            for _ in range(3):
                outcome = failed(await deliverer.deliver(CLAIM))
                assert (outcome.retry_in, outcome.error) == (None, "The receiver answered 410.")
            assert len(receiver.requests) == 3

    asyncio.run(attempt())


def test_a_row_that_names_the_address_of_another_queues_manifest_cannot_stop_that_queue() -> None:
    async def attempt() -> None:
        async with Receiver(says(answer("410 Gone"))) as receiver, Bench().open() as bench:
            assert failed(await by_url(bench).deliver(to(receiver))).retry_in is None
            assert failed(await bench.deliverer(fixed(receiver)).deliver(CLAIM)).error == "The receiver answered 410."
            assert len(receiver.requests) == 2

    asyncio.run(attempt())


# TLS and abandoning


@pytest.mark.parametrize("host", ["backend", "other"])
def test_the_certificate_is_checked_for_the_name_and_the_checked_address_is_dialled(
    authority: Authority,
    host: str,
) -> None:
    """SNI and Host are the name's, the connection goes to what it resolved to, and another name's certificate is none."""

    async def attempt() -> None:
        seen: list[str | None] = []
        authority.server.sni_callback = lambda _socket, name, _context: seen.append(name)
        lookup = names(backend=["127.0.0.1"], other=["127.0.0.1"])
        async with Receiver(says(OK), authority.server) as receiver:
            async with Bench(keys={CA: authority.pem}, lookup=lookup).open() as bench:
                delivery = HttpDelivery(target=UrlColumn(column="url"), ca=CA)
                row = claim(columns={"url": f"https://{host}:{receiver.port}/x"})
                outcome = await bench.deliverer(delivery).deliver(row)
                assert isinstance(outcome, Done if host == "backend" else Failed)
            assert seen == [host]
            if host == "backend":
                assert receiver.header("Host") == f"backend:{receiver.port}"
            else:
                assert receiver.requests == []

    asyncio.run(attempt())


def test_an_abandoned_delivery_closes_its_connection() -> None:
    async def attempt() -> None:
        arrived, closed = asyncio.Event(), asyncio.Event()

        async def watch(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await reader.read()
            closed.set()

        async with Receiver(watch) as receiver, Bench().open() as bench:
            task = asyncio.create_task(bench.deliverer(fixed(receiver)).deliver(CLAIM))
            async with asyncio.timeout(60):
                await arrived.wait()
                task.cancel()
                await closed.wait()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(attempt())


# A receiver in a process of its own


def test_a_thousand_rows_arrive_once_each_under_their_own_keys_over_few_connections() -> None:
    async def attempt(backend: Backend) -> None:
        async with Bench().open() as bench:
            deliverer = bench.deliverer(HttpDelivery(target=FixedUrl(url=backend.url("/in"))))
            rows = [claim(row=(str(n),), fence=n, payload_text=json.dumps({"n": n})) for n in range(1000)]
            at_once = asyncio.Semaphore(64)

            async def one(row: Claim) -> Settled:
                async with at_once:
                    return await deliverer.deliver(row)

            outcomes = await asyncio.gather(*map(one, rows))
            assert all(isinstance(outcome, Done) for outcome in outcomes)

    with Backend() as backend:
        asyncio.run(attempt(backend))
        received = backend.wait(1000)
        assert sorted(json.loads(each.body)["n"] for each in received) == list(range(1000))
        assert len({each.header("Idempotency-Key") for each in received}) == 1000
        assert {each.header("Soloist-Fence") for each in received} == {str(n) for n in range(1000)}
