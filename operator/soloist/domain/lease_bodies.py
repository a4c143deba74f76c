"""The bodies that are ever written to a Lease.

Whatever others keep on the object (labels, annotations, owners, spec fields that we do not know) goes back as it came. The
API server wants six digits of microseconds, always.
"""

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime

from soloist.domain.lease import EPOCH, HOLDER_POD, NONCE, RELEASED, TERM_ENDS, Raw

MOST_TERM_ENDS = 200
_MOST_TRANSITIONS = 2**31 - 1


def held_body(
    raw: Raw,
    *,
    holder: str,
    nonce: str,
    epoch: int,
    renew_time: datetime,
    lease: float,
    ends: Mapping[int, datetime],
    pod: str | None,
) -> Raw:
    """The Lease with its holder's words put in; everything else as it was."""
    body = copy.deepcopy(raw)
    annotations = _annotations(body)
    annotations |= {EPOCH: str(epoch), NONCE: nonce, TERM_ENDS: _ends_text(ends)}
    annotations.pop(RELEASED, None)
    annotations.pop(HOLDER_POD, None)
    if pod is not None:
        annotations[HOLDER_POD] = pod
    _spec(body).update(holderIdentity=holder, leaseDurationSeconds=int(lease), renewTime=micro_time(renew_time))
    return body


def taken_body(held: Raw, *, acquire_time: datetime, transitions: int) -> Raw:
    """The same, as the first word of a new holder."""
    body = copy.deepcopy(held)
    _spec(body).update(acquireTime=micro_time(acquire_time), leaseTransitions=min(transitions, _MOST_TRANSITIONS))
    return body


def restored_body(raw: Raw, *, epoch: int, renew_time: datetime, lease: float, ends: Mapping[int, datetime]) -> Raw:
    """A Lease that was deleted, put back without a holder, with what is remembered of it."""
    body = copy.deepcopy(raw)
    _annotations(body).update({TERM_ENDS: _ends_text(ends)} | ({EPOCH: str(epoch)} if epoch else {}))
    _spec(body).update(holderIdentity="", leaseDurationSeconds=int(lease), renewTime=micro_time(renew_time))
    return body


def released_body(raw: Raw, *, epoch: int, end: datetime) -> Raw:
    """The Lease given back. The duration is 1, since 0 is refused (kubernetes/kubernetes#91966)."""
    body = copy.deepcopy(raw)
    _annotations(body)[RELEASED] = json.dumps({"epoch": epoch, "end": micro_time(end)})
    _spec(body).update(holderIdentity="", leaseDurationSeconds=1)
    return body


def new_lease(namespace: str, name: str) -> Raw:
    """A Lease that does not exist yet."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name, "annotations": {}},
        "spec": {},
    }


def micro_time(moment: datetime) -> str:
    """RFC 3339 with exactly six digits, as the API server insists on for Leases."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _ends_text(ends: Mapping[int, datetime]) -> str:
    return json.dumps([[epoch, micro_time(end)] for epoch, end in sorted(ends.items())[-MOST_TERM_ENDS:]])


def _annotations(body: Raw) -> dict[str, str]:
    metadata = body.setdefault("metadata", {})
    metadata["annotations"] = metadata.get("annotations") or {}
    found: dict[str, str] = metadata["annotations"]
    return found


def _spec(body: Raw) -> Raw:
    body["spec"] = body.get("spec") or {}
    found: Raw = body["spec"]
    return found
