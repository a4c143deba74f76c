"""The tables that the README shows as kubectl prints them, by their columns: held to a real API server, and to a node."""

from __future__ import annotations

from tests.docs.pages import ROOT


def heads(text: str) -> list[list[str]]:
    """The columns of each table in it."""
    return [line.split() for line in text.splitlines() if line.startswith("NAME ")]


def of_the_readme() -> list[list[str]]:
    """Of ScheduledJobs, of JobRuns and of WorkQueues."""
    return heads((ROOT / "README.md").read_text(encoding="utf-8").split("## Quick start")[1].split("\n## ")[0])
