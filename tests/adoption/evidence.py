"""Pages of docs/evidence: what was recorded in a real run of an example, written by the test that has just held it against the promise.

``make evidence`` names the folder in EVIDENCE; without it nothing is written. A page is made of parts, each a text: a
sentence, a ``table`` or ``lines`` of a log. Nothing in it is worded by hand that a run could have changed.

    if evidence.wanted():
        evidence.write("idle-retry", "A retry with nobody there", "…", table(["row", "fence"], rows), lines(log))
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.processes import machine
from tests.queue.nodejs import find_node

HEAD = "Written by `make evidence`, out of a run of its own; nothing in it was edited."
MACHINE = machine()
_UNSAID = ("/tmp/", "kubeconfig")
"""What would tell of the machine's folders and of nothing else."""


def wanted() -> bool:
    return bool(os.environ.get("EVIDENCE"))


def write(name: str, title: str, *parts: str) -> None:
    """docs/evidence/NAME.md, or nothing where no evidence is wanted."""
    if not wanted():
        return
    folder = Path(os.environ["EVIDENCE"])
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([f"# {title}", HEAD, *parts, "## The machine", where()])
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")


def where() -> str:
    """The machine and the programs, and when."""
    argv = [find_node().program, "--version"]
    node = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    return f"{MACHINE}, Node {node}, at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def lines(log: Iterable[str | dict[str, Any]]) -> str:
    """Log lines in a block, as they are but for those that name the machine's folders."""
    texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in log]
    return "\n".join(["```", *(text for text in texts if not any(word in text for word in _UNSAID)), "```"])


def moment(at: datetime) -> str:
    """The time of day in UTC, to the millisecond."""
    return f"{at.astimezone(UTC):%H:%M:%S.%f}"[:-3]


def _cell(value: Any) -> str:
    return moment(value) if isinstance(value, datetime) else str(value).replace("|", "\\|").replace("\n", " ")
