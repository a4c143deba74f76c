"""How a bench is run: sections by name, what each says as it goes, then a table, and as the last line one JSON object."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from tests.bench.figures import Figure, Measured, as_json, table
from tests.bench.processes import load, machine

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
Say = Callable[[str], None]
Section = Callable[[S, Say], dict[str, Measured]]


class MakesStage(Protocol[S_co]):
    """What the sections share, made before the first and gone after the last."""

    def __call__(self, *, quick: bool) -> AbstractContextManager[S_co]: ...


def run(
    doc: str | None,
    *,
    prog: str,
    figures: Sequence[Figure],
    sections: Mapping[str, tuple[Section[S], tuple[str, ...]]],
    stage: MakesStage[S],
    beside: str,
) -> int:
    """``sections``: each with the keys of the figures that it finds; ``beside``: what runs here, for the first line."""
    parser = argparse.ArgumentParser(prog=prog, description=doc)
    known = [*sections, *(figure.key for figure in figures)]
    parser.add_argument("--only", nargs="+", choices=known, metavar="NAME", help=f"of: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: to see that it works")
    chosen = parser.parse_args()
    names = set(chosen.only or known)
    measured: dict[str, Measured] = {}
    began = time.monotonic()
    where = f"{machine()}, {beside}"
    print(where, flush=True)
    with stage(quick=chosen.quick) as here:
        for name, (section, keys) in sections.items():
            if {name, *keys} & names:
                print(f"== {name}; load {load()}", flush=True)
                measured |= section(here, lambda sentence: print(f"   {sentence}", flush=True))
    took = f"{time.monotonic() - began:.0f} s{', quick' if chosen.quick else ''}"
    print(f"\n{where}\n{took}\n\n{table(figures, measured)}\n")
    print(as_json(figures, measured))
    return 0
