"""Log lines that machines read and that keep Secrets to themselves; metrics under their agreed names."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from soloist.shells.settings import LogFormat, LogLevel
from soloist.shells.telemetry import Metrics, start_logging


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)


def test_a_log_line_is_one_json_object_with_its_keys(stream: io.StringIO) -> None:
    start_logging(LogLevel.INFO, LogFormat.JSON, stream)
    logging.getLogger("soloist.x").info("run launched", extra={"run": "a\nb", "skew": 0.01})
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "soloist.x", "message": "run launched", "run": "a\nb", "skew": 0.01}


@pytest.mark.parametrize("form", list(LogFormat))
def test_secrets_do_not_get_out(stream: io.StringIO, form: LogFormat) -> None:
    start_logging(LogLevel.INFO, form, stream)
    keys = {"api_token": "sesame1", "url": "postgres://me:sesame2@db/x", "header": "Bearer sesame3sesame3"}
    try:
        raise ValueError("postgresql://me:sesame4@db refused Bearer sesame5sesame5")
    except ValueError:
        logging.getLogger("soloist").exception("failed", extra=keys)
    assert "sesame" not in stream.getvalue()
    assert "postgresql://me:***@db refused" in stream.getvalue()


def test_text_lines_carry_the_keys_too(stream: io.StringIO) -> None:
    start_logging(LogLevel.INFO, LogFormat.TEXT, stream)
    logging.getLogger("soloist").warning("run launched", extra={"run": "a"})
    assert stream.getvalue().endswith("WARNING run launched run=a\n")


def test_libraries_are_quiet_unless_debug_is_asked_for(stream: io.StringIO) -> None:
    start_logging(LogLevel.INFO, LogFormat.JSON, stream)
    logging.getLogger("kopf.objects").info("chatter")
    assert stream.getvalue() == ""


def test_the_metrics_have_their_names() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.leading(7)
    metrics.due("ns", 4)
    metrics.run_ended("ns", "Succeeded")
    metrics.tick_missed("ns", "Suspended", 3)
    metrics.launched("ns", "http", 0.004)
    metrics.error("watch")
    metrics.api_write("JobRun")
    metrics.jobs(2)
    metrics.handover(0.2)
    text = generate_latest(metrics.registry).decode()
    for line in (
        "soloist_leader 1.0",
        "soloist_term_epoch 7.0",
        'soloist_due_total{namespace="ns"} 4.0',
        'soloist_launched_total{namespace="ns"} 1.0',
        'soloist_runs_total{namespace="ns",result="Succeeded"} 1.0',
        'soloist_ticks_missed_total{namespace="ns",reason="Suspended"} 3.0',
        'soloist_launch_skew_seconds_bucket{action="http",le="0.005"} 1.0',
        'soloist_launch_skew_seconds_bucket{action="http",le="120.0"} 1.0',
        'soloist_errors_total{where="watch"} 1.0',
        'soloist_api_writes_total{kind="JobRun"} 1.0',
        "soloist_jobs 2.0",
        "soloist_handover_seconds_sum 0.2",
        "process_resident_memory_bytes",
    ):
        assert line in text
    metrics.leading(None)
    assert "soloist_leader 0.0" in generate_latest(metrics.registry).decode()
