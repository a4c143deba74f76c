"""The name and the key of a run, both computed, so that every replica gives the same tick the same ones.

The name is what makes a second creation of a tick collide, and only that; what remembers a tick is the watermark. So a
hash that met another would cost a launch, never double one. It has 50 bits over uid and name: of a thousand jobs that
share their first letters in one namespace no two meet in a million such fleets (1000² / 2 / 2⁵⁰ < 10⁻⁹).

A name is a DNS label (a Job of that name is made for the run, and Pods carry it in a label), readable, and sorts by time:
``overdue-invoices-lx2puj4ao6-20261129-020000``.
"""

import re
from base64 import b32encode
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

from soloist.domain.instants import stamp

LONGEST = 63
"""Of a DNS label, of a label's value, and of a Job's name."""

_HASHED = 10
_COMPACT = "20261129-020000"
_OUTSIDE = re.compile(r"[^a-z0-9-]+")


def run_name(job_name: str, job_uid: str, tick: datetime) -> str:
    """The name of the run for ``tick``; another job, another job of the same name, and another tick have another one."""
    return _stem(job_name, job_uid) + _compact(tick)


@lru_cache(maxsize=16384)
def _stem(job_name: str, job_uid: str) -> str:
    """What the names of all runs of a job begin with. Many a view asks for them, and a name for each run would weigh more."""
    ending = f"{_hashed(job_uid, job_name)}-"
    return _fitted(job_name, ending + _COMPACT)[: -len(_COMPACT)]


def backfill_name(job_name: str, job_uid: str, tick: datetime) -> str:
    """The name of a run that a person asked for ``tick``; asking twice gives the same, and no scheduled run has it."""
    return _fitted(job_name, f"{_hashed('backfill', job_uid, job_name)}-{_compact(tick)}")


def manual_name(job_name: str, nonce: str) -> str:
    """A name for a run that a person starts; ``nonce`` is what makes it new, and may be anything."""
    return _fitted(job_name, f"manual-{_hashed(nonce, job_name)}")


def scheduled_key(job_uid: str, tick: datetime) -> str:
    """The idempotency key of a scheduled run, the same for all its attempts and whoever makes them."""
    _whole(tick)
    return f"{job_uid}/{stamp(tick)}"


def run_key(*, run_uid: str, job_uid: str, scheduled: datetime | None) -> str:
    """The key of any run. ``scheduled`` is the tick of a run of the schedule; manual and backfilled ones have none."""
    return run_uid if scheduled is None else scheduled_key(job_uid, scheduled)


def label_value(job_name: str) -> str | None:
    """``job_name`` as the value of a label, or None where it is too long for one."""
    return job_name if len(job_name) <= LONGEST else None


def _fitted(job_name: str, ending: str) -> str:
    """``ending`` has a fixed width in each family, so no two (name, ending) are read as one."""
    room = LONGEST - len(ending) - 1
    readable = _OUTSIDE.sub("-", job_name.lower())[:room].strip("-")
    return f"{readable}-{ending}" if readable else ending


def _hashed(*parts: str) -> str:
    """Ten letters and digits; the parts are told apart by a character that no name and no uid has."""
    digest = sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest).decode("ascii")[:_HASHED].lower()


@lru_cache(maxsize=1024)
def _compact(tick: datetime) -> str:
    at = _whole(tick).astimezone(UTC)
    return f"{at.year:04d}{at:%m%d-%H%M%S}"


def _whole(tick: datetime) -> datetime:
    if tick.tzinfo is None or tick.microsecond:
        raise ValueError(f"not a tick: {tick.isoformat()}; ticks are aware and in whole seconds")
    return tick
