"""The idempotency key of a delivery: what a receiver knows a repetition by.

Made of nothing but what the database holds, so every replica derives the same one, before and after a crash:

- ``PerMessage``: the source and the row's primary key. The same for all attempts, and for whatever is put into that row.
- ``PerAttempt``: also the number of the attempt. That rises with outcomes only, and never falls: an attempt that a crash
  broke off is made again under its own number and so its own key; the next one after an outcome has another. An outcome
  that nobody knows (a time-out after sending) is an outcome: whoever sends money keys by message or by due time.
- ``PerDue``: the source, the primary key and the due time, the instant itself and not a spelling of it. For rows that come
  due again, whose back-off lies beside the row: a due time that moves at each failure would make it a key per attempt.

``source`` says whose row it is. It has to be the same on all replicas for as long as rows wait, and not to be shared by
two tables whose primary keys may be alike: a receiver that meets one key for two messages drops the second.

The key is a UUID (version 5 over a JSON list), since that is what the most receivers take: 36 characters, ASCII, no dot,
which Standard Webhooks sign between, and nothing to read of a row's key, which may be anything of any length.
"""

import json
from uuid import UUID, uuid5

from soloist.domain.claims import Claim
from soloist.domain.instants import stamp
from soloist.domain.queue_spec import KeyPer

NAMESPACE = UUID("7b1e9d4a-6c3f-5a70-9f52-2d8c40b6e13a")
"""Any would do that nobody else uses; it is part of every key, and so never changes."""

_LIST = json.JSONEncoder(separators=(",", ":"))


def delivery_key(per: KeyPer, source: str, claim: Claim) -> str:
    """The key of the attempt that ``claim`` is for."""
    parts: list[object] = [str(per), source, list(claim.row)]
    if per is KeyPer.ATTEMPT:
        parts.append(claim.attempt)
    elif per is KeyPer.DUE:
        parts.append(claim.due_key if claim.due is None else stamp(claim.due))
    return str(uuid5(NAMESPACE, _LIST.encode(parts)))
