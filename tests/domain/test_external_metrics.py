"""What external.metrics.k8s.io says of what was measured."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soloist.domain.depth import Depth
from soloist.domain.external_metrics import METRICS, BadSelector, discovery, quantity, queues_of, values

AT = datetime(2026, 10, 15, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("selector", "queues"),
    [
        ("queue=emails", ("emails",)),
        ("queue==emails", ("emails",)),
        (" queue = emails ", ("emails",)),
        ("queue in (mails,emails)", ("emails", "mails")),
        ("queue in ( emails , emails )", ("emails",)),
        ("queue=a.b-c", ("a.b-c",)),
    ],
)
def test_a_selector_names_queues(selector: str, queues: tuple[str, ...]) -> None:
    assert queues_of(selector) == queues


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "queue",
        "!queue",
        "queue!=emails",
        "queue notin (emails)",
        "queue=",
        "queue in ()",
        "queue=emails,queue=mails",
        "queue=emails,tier=gold",
        "name=emails",
        "queue=../secrets",
        "queue=Emails",
        f"queue in ({','.join(f'q{number}' for number in range(33))})",
    ],
)
def test_a_selector_that_does_not_is_refused_with_what_to_write(selector: str) -> None:
    with pytest.raises(BadSelector, match="write"):
        queues_of(selector)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (20, "20"), (1.5, "1500m"), (0.0004, "1m"), (95.1234, "95124m"), (3.0, "3"), (0.1 + 0.2, "300m")],
)
def test_a_quantity_is_whole_or_in_thousandths_and_never_less(value: float, text: str) -> None:
    assert quantity(value) == text


@given(st.floats(min_value=0, max_value=1e9))
def test_a_quantity_is_within_a_thousandth(value: float) -> None:
    text = quantity(value)
    read = Fraction(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    assert -1e-6 <= read - Fraction(value) <= 0.001 + 1e-6


def test_each_queue_has_its_value_with_its_time() -> None:
    idle = Depth(ready=0, scheduled=4, in_flight=7, dead=1, oldest_due=None, whole=True)
    busy = Depth(ready=20, scheduled=0, in_flight=0, dead=0, oldest_due=1.5, whole=True)
    measured = {"idle": (AT, idle), "busy": (AT, busy)}
    found = {
        metric: {item["metricLabels"]["queue"]: item["value"] for item in values(metric, measured)["items"]}
        for metric in METRICS
    }
    assert found == {
        "soloist_queue_ready": {"idle": "0", "busy": "20"},
        "soloist_queue_oldest_age_seconds": {"idle": "0", "busy": "1500m"},
        "soloist_queue_in_flight": {"idle": "7", "busy": "0"},
    }
    (item,) = values("soloist_queue_ready", {"busy": (AT, busy)})["items"]
    assert item["timestamp"] == "2026-10-15T12:00:00Z"


def test_discovery_names_each_metric() -> None:
    found = discovery()
    assert found["groupVersion"] == "external.metrics.k8s.io/v1beta1"
    assert {each["name"] for each in found["resources"]} == METRICS.keys()
    assert all(each["namespaced"] and each["verbs"] == ["get"] for each in found["resources"])
