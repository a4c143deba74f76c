"""Figures by name, what each is to reach, and how they are shown: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One that is to be ``most`` at the most, or else ``least`` at the least; with neither it only stands beside another."""

    key: str
    says: str
    unit: str = ""
    most: float | None = None
    least: float | None = None
    digits: int = 2

    @property
    def wanted(self) -> str:
        if self.most is not None:
            return f"<= {self.most:g}"
        return f">= {self.least:g}" if self.least is not None else "beside"

    def reached(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One value and what it was made of: ``n`` measurements, and a note on how."""

    value: float
    n: int
    note: str = ""


def table(figures: Sequence[Figure], measured: Mapping[str, Measured]) -> str:
    """What is to be reached, what was, and of how many."""
    lines = [f"{'figure':62} {'to reach':>9} {'measured':>9}      {'n':>5}  how"]
    for figure in figures:
        found = measured.get(figure.key)
        if found is None:
            lines.append(f"{_named(figure):62} {figure.wanted:>9} {'-':>9}")
            continue
        verdict = "    " if figure.wanted == "beside" else "ok  " if figure.reached(found.value) else "MISS"
        value = f"{found.value:.{figure.digits}f}"
        lines.append(f"{_named(figure):62} {figure.wanted:>9} {value:>9} {verdict} {found.n:>5}  {found.note}")
    return "\n".join(lines)


def _named(figure: Figure) -> str:
    return f"{figure.says}, {figure.unit}" if figure.unit else figure.says


def as_json(figures: Sequence[Figure], measured: Mapping[str, Measured]) -> str:
    """Every key of the table, null where it was not measured."""
    values = {f.key: round(found.value, 4) if (found := measured.get(f.key)) else None for f in figures}
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


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of what the rounds' pairs give."""
    return median([mine / other for mine, other in zip(ours, theirs, strict=True)])
