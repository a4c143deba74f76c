"""What an elector writes to its Lease: the claim, the renewal, the release, and one that was deleted. Each on the reading that it was decided by."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from soloist.domain.lease import LeaseRecord, Raw
from soloist.domain.lease_bodies import held_body, new_lease, released_body, restored_body, taken_body
from soloist.domain.standing import Candidate, Sent, Standing, is_mine
from soloist.domain.term import Term

CLOCK_TOLERANCE = timedelta(seconds=2)
_TICK = timedelta(microseconds=1)
_MOST_SENT = 8


def claim(me: Candidate, standing: Standing, *, wall: datetime, boot: float, pod: str | None) -> tuple[Raw, Standing]:
    """The write that takes the Lease, and the standing once it is sent. It says when the term that it replaces ended."""
    record, ends = standing.record, remembered_ends(me, standing)
    epoch = max(standing.highest_epoch + 1, int(wall.timestamp() * 1_000_000))
    held = held_body(
        record.raw if record is not None else new_lease(me.namespace, me.name),
        holder=me.identity, nonce=me.nonce, epoch=epoch, renew_time=wall, lease=me.timing.lease, ends=ends, pod=pod,
    )  # fmt: skip
    transitions = 0 if record is None else record.transitions + 1
    body = taken_body(held, acquire_time=wall, transitions=transitions)
    return body, _sending(standing, Sent(epoch=epoch, renew_time=wall, boot=boot))


def restoration(me: Candidate, standing: Standing, *, wall: datetime) -> tuple[Raw, Standing]:
    """The write that puts a deleted Lease back, held by nobody, so that the wait for its last holder can be seen to be whole."""
    ends, epoch = remembered_ends(me, standing), standing.highest_epoch
    body = restored_body(
        new_lease(me.namespace, me.name), epoch=epoch, renew_time=wall, lease=me.timing.lease, ends=ends
    )
    return body, replace(standing, known=False)


def remembered_ends(me: Candidate, standing: Standing) -> dict[int, datetime]:
    """When past terms ended. The last one's end is known only from its holder's own words as they are now: whoever has
    seen earlier ones, before the Lease was deleted or edited, cannot know whether it was renewed once more."""
    record, last = standing.record, standing.last
    ends: dict[int, datetime] = {}
    for source in (last, record):
        ends |= source.term_ends if source is not None else {}
    if record is not None and record.epoch is not None and (end := record.end(me.timing.lease)) is not None:
        ends[record.epoch] = end
    return ends


def renewal(
    me: Candidate, standing: Standing, *, wall: datetime, boot: float, pod: str | None, needed: Collection[int] | None
) -> tuple[Raw, Standing]:
    """The write that renews. ``needed``: epochs of runs that may be unfinished; the ends of others are let go."""
    term, record = standing.term, standing.record
    if term is None or record is None:
        raise ValueError("only a leader renews, and what it has read")
    renew_time = next_renew_time(term, wall=wall, boot=boot)
    while any(write.renew_time == renew_time for write in standing.sent):
        renew_time += _TICK
    ends = {epoch: end for epoch, end in record.term_ends.items() if needed is None or epoch in needed}
    body = held_body(
        record.raw, holder=me.identity, nonce=me.nonce, epoch=term.epoch, renew_time=renew_time, lease=me.timing.lease,
        ends=ends, pod=pod,
    )  # fmt: skip
    return body, _sending(standing, Sent(epoch=term.epoch, renew_time=renew_time, boot=boot))


def next_renew_time(term: Term, *, wall: datetime, boot: float) -> datetime:
    """The wall clock, held between the term clock and a little more: so it neither goes back nor follows a step."""
    shown = term.now(boot)
    return min(max(wall, shown), shown + CLOCK_TOLERANCE)


def release(me: Candidate, record: LeaseRecord | None, *, epoch: int, end: datetime) -> Raw | None:
    """The write that gives back what was just read as ours; None: it is not ours, leave it alone."""
    if record is None or not is_mine(record, me):
        return None
    return released_body(record.raw, epoch=epoch, end=end)


def clock_skew(shown: datetime, server: datetime | None, *, latency: float) -> timedelta | None:
    """How far the clock that showed ``shown`` at a request's send is off, where it is beyond the tolerance.

    The server's Date is cut to whole seconds and was written somewhere between send and receipt. Being ahead launches
    early, so there the doubt counts against us; being behind does not.
    """
    if server is None:
        return None
    ahead, behind = shown - server, shown + timedelta(seconds=latency) - server
    if ahead > CLOCK_TOLERANCE:
        return ahead
    return behind if behind < -CLOCK_TOLERANCE else None


def _sending(standing: Standing, write: Sent) -> Standing:
    """A write is under way: what is known may be over, until an answer says more."""
    return replace(standing, sent=(*standing.sent, write)[-_MOST_SENT:], known=False)
