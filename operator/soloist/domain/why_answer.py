"""One answer, and how the sentences of ``why_words`` are filled in for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from soloist.domain.names import run_name
from soloist.domain.why_facts import Facts
from soloist.domain.why_words import Verdict, Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``reason`` is one word for programs, ``says`` sentences in order, ``do`` what a person can do about it."""

    at: datetime
    verdict: Verdict
    reason: str
    says: tuple[str, ...]
    do: tuple[str, ...] = ()
    run: str | None = None


def written(
    facts: Facts, at: datetime, *, reason: str, words: list[Words], more: Iterable[str] = (), run: str | None = None, key: str = ""
) -> Answer:  # fmt: skip
    """The sentences of ``words``, then ``more``. The first row has the verdict, the last one what to do."""
    filled = _placeholders(facts, run or run_name(facts.job.name, facts.job.uid, at), key)
    return Answer(
        at=at,
        verdict=words[0].verdict,
        reason=reason,
        says=(*(row.what.format_map(filled) for row in words), *(text for text in more if text)),
        do=(words[-1].do.format_map(filled),) if words[-1].do else (),
        run=run,
    )


def _placeholders(facts: Facts, run: str, key: str) -> dict[str, Any]:
    spec, job = facts.spec, facts.job
    found = {"job": facts.named, "name": job.name, "namespace": job.namespace, "run": run, "key": key}
    if spec is None:
        words = dict.fromkeys(("timeout", "attempts", "missed", "most", "deadline", "concurrency"), "not readable now")
        return found | words
    deadline = spec.starting_deadline
    return found | {
        "timeout": f"{spec.timeout.total_seconds():g} s",
        "attempts": spec.retry.max_attempts,
        "missed": spec.missed,
        "most": spec.max_missed_runs,
        "deadline": f"{deadline.total_seconds():g} s" if deadline is not None else "not set now",
        "concurrency": spec.concurrency,
    }
