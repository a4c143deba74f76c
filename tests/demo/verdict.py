"""The last word of a demonstration: each breach by its name, or that there is none; its exit code says the same to a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from tests.demo.books import Page
from tests.demo.rows import Rows


def verdict(books: Sequence[Page | Rows], *, balanced: str, folder: Path, seconds: float) -> int:
    """``folder`` has the logs and what was received: whoever looks into a breach needs it, and nobody else does."""
    breaches = [breach for each in books for breach in each.breaches()]
    if breaches:
        print("BREACH\n" + "\n".join(breaches) + f"\nThe logs and what was received: {folder}")
    else:
        rmtree(folder, ignore_errors=True)
        print(balanced)
    print(f"{seconds:.0f} s in all.")
    return 1 if breaches else 0
