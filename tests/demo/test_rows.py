"""The books of rows find each breach; else the demonstration's last line would prove nothing."""

from __future__ import annotations

import json

from tests.cluster.backend import Received
from tests.demo.rows import Rows, rows_of
from tests.demo.tables import report


def received(n: int, key: str) -> Received:
    body, headers = json.dumps({"n": n}), {"Idempotency-Key": key}
    return Received(number=n, wall=0.0, boot=0.0, method="POST", path="/q", headers=headers, body=body)


def books(*requests: Received, accepted: list[int], left: int = 0) -> Rows:
    return rows_of("q", 2, requests, accepted=accepted, left=left)


def test_rows_that_were_delivered_once_balance() -> None:
    made = books(received(0, "a"), received(1, "b"), accepted=[7, 8])
    assert (made.delivered, made.breaches()) == (2, [])
    assert "WORKQUEUE" in report([], [], [made])


def test_a_row_that_was_sent_again_under_its_key_is_counted_and_no_breach() -> None:
    made = books(received(0, "a"), received(0, "a"), received(1, "b"), accepted=[7, 8])
    assert (made.again, made.breaches()) == (1, [])


def test_another_key_a_second_outcome_and_a_lost_row_are_breaches() -> None:
    assert books(received(0, "a"), received(0, "x"), accepted=[7, 8]).breaches() == ["q: rows sent again under another key: 1"]  # fmt: skip
    assert books(received(0, "a"), accepted=[7, 7, 8]).breaches() == ["q: rows accepted twice: 1"]
    assert books(received(0, "a"), accepted=[7]).breaches() == ["q: rows neither delivered nor left in the queue: 1"]
    assert books(received(0, "a"), accepted=[7], left=1).breaches() == []
