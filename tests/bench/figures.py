"""The figures by name, what each is to reach, and how they are shown: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    key: str
    says: str
    unit: str
    most: float
    digits: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One value and what it was made of: ``n`` measurements, and a note on how."""

    value: float
    n: int
    note: str = ""


FIGURES = (
    Figure(key="skew1_received_p50_ms", says="1 http job due: received, p50", unit="ms", most=15, digits=1),
    Figure(key="skew1_received_p99_ms", says="1 http job due: received, p99", unit="ms", most=50, digits=1),
    Figure(key="skew1000_received_p99_s", says="1,000 http jobs due in one second: received, p99", unit="s", most=1.5),
    Figure(
        key="skew1000_job_p99_s", says="1,000 job jobs due in one second: Job un-suspended, p99", unit="s", most=2.3
    ),
    Figure(key="skew1000_over_cronjob_tuned", says="that over the CronJob controller, tuned", unit="", most=0.6),
    Figure(
        key="skew1000_over_cronjob_default",
        says="that over the CronJob controller, at its defaults",
        unit="",
        most=0.03,
        digits=3,
    ),
    Figure(key="recover1000_s", says="1,000 missed http ticks, all launched after the term began", unit="s", most=8),
    Figure(key="api_writes_per_run", says="creates and updates per successful http run", unit="", most=3.5),
    Figure(key="handover_sigterm_p50_s", says="hand-over after SIGTERM, p50", unit="s", most=0.3, digits=3),
    Figure(key="handover_sigterm_p99_s", says="hand-over after SIGTERM, p99", unit="s", most=1, digits=3),
    Figure(key="handover_child_max_s", says="child killed, parent alive, worst", unit="s", most=1, digits=3),
    Figure(key="handover_seen_max_s", says="both killed, the kubelet's word, worst", unit="s", most=2),
    Figure(key="handover_unseen_max_s", says="both killed, nothing visible (L 10 s), worst", unit="s", most=10.5),
    Figure(key="rss1000_mb", says="RSS of the child, 1,000 jobs, after an hour's ticks", unit="MB", most=150, digits=1),
    Figure(key="rss1000_growth_mb", says="its growth over the last half", unit="MB", most=3, digits=1),
    Figure(key="parent_rss_mb", says="RSS of its parent", unit="MB", most=20, digits=1),
    Figure(key="ready1000_s", says="start to ready, 1,000 jobs, worst", unit="s", most=5),
)


def table(measured: Mapping[str, Measured]) -> str:
    """What is to be reached, what was, and of how many."""
    lines = [f"{'figure':62} {'to reach':>9} {'measured':>9}      {'n':>5}  how"]
    for figure in FIGURES:
        found = measured.get(figure.key)
        wanted = f"<= {figure.most:g}"
        if found is None:
            lines.append(f"{_named(figure):62} {wanted:>9} {'-':>9}")
            continue
        verdict = "ok  " if found.value <= figure.most else "MISS"
        value = f"{found.value:.{figure.digits}f}"
        lines.append(f"{_named(figure):62} {wanted:>9} {value:>9} {verdict} {found.n:>5}  {found.note}")
    return "\n".join(lines)


def _named(figure: Figure) -> str:
    return f"{figure.says}, {figure.unit}" if figure.unit else figure.says


def as_json(measured: Mapping[str, Measured]) -> str:
    """Every key of the table, null where it was not measured."""
    values = {f.key: round(found.value, 4) if (found := measured.get(f.key)) else None for f in FIGURES}
    return json.dumps(values)


def percentile(values: Iterable[float], share: float) -> float:
    """Nearest rank: the smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile of no values")
    rank = max(1, -(-len(ordered) * round(share * 1000) // 1000))
    return ordered[rank - 1]


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
