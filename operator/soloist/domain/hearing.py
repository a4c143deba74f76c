"""What an answer, or that there was none, makes of what a candidate knows. Pure.

* Evidence is not error. Another holder, another uid or no Lease at all ends the term at once; a time-out, a refusal or
  garbage ends nothing, and is tried again while the trust lasts.
* A write whose answer never came may have landed or may yet. So the next thing is a reading: the Lease has one's own
  identity, nonce and that write's renewTime exactly if it landed, and then it counts from *its* send.
"""

from dataclasses import replace
from datetime import timedelta

from soloist.domain.lease import LeaseRecord, Raw, parse
from soloist.domain.standing import Candidate, LossReason, Lost, Standing, is_mine, is_twin
from soloist.domain.term import Term


def heard(
    me: Candidate, standing: Standing, raw: Raw | None, *, boot: float, skew: timedelta | None, stagger: float = 0.0
) -> Standing:
    """The Lease as an answer gave it (None: there is none), received at ``boot``."""
    record = parse(raw) if raw is not None else None
    standing = _observed(me, standing, record, boot=boot, stagger=stagger)
    standing = replace(standing, skew=skew)
    term = standing.term
    if term is not None and (lost := evidence(me, term, record)) is not None:
        return replace(standing, term=None, sent=(), lost=lost)
    if record is not None and is_mine(record, me):
        standing = _landed(me, standing, record, boot)
    if standing.term is not None and skew is not None:
        message = f"this machine's clock is {skew.total_seconds():+.1f} s off the API server's; synchronise it."
        return replace(standing, term=None, lost=Lost(reason=LossReason.CLOCK_SKEW, message=message))
    return standing


def unanswered(
    me: Candidate, standing: Standing, *, sent_boot: float, boot: float, after: float | None = None
) -> Standing:
    """A try failed. After a write that may have landed, ``standing`` is the one that ``claim`` or ``renewal`` gave.

    ``after``: for how many seconds the server asks to be left alone. It is heeded as far as the trust allows.
    """
    pause = sent_boot + me.timing.period / 4
    if after is not None:
        term = standing.term
        patience = (term.trusted_until - boot) / 3 if term is not None else 2 * me.timing.period
        pause = boot + min(after, max(patience, 0.0))
    return replace(standing, not_before=max(boot, pause))


def clashed(standing: Standing) -> Standing:
    """A write met another's (409): read, and see whose."""
    return replace(standing, known=False)


def proven_dead(standing: Standing, nonce: str | None, *, boot: float, stagger: float) -> Standing:
    """The kubelet says that the container of the holder with this nonce has ended."""
    if nonce is None or standing.dead_nonce == nonce:
        return standing
    return replace(standing, dead_nonce=nonce, changed_boot=boot, stagger=stagger)


def twin_message(me: Candidate, record: LeaseRecord) -> str:
    """What to tell people of another process that says it is this Pod."""
    return (
        f"Lease {me.namespace}/{me.name} is held by {record.holder}: another process says that it is this Pod "
        f"({me.place}). Give each replica its own Pod name and uid (POD_NAME, POD_UID)."
    )


def evidence(me: Candidate, term: Term, record: LeaseRecord | None) -> Lost | None:
    """What a reading says against one's own term, if it does."""
    lease = f"Lease {me.namespace}/{me.name}"
    if record is None:
        return Lost(reason=LossReason.LEASE_DELETED, message=f"{lease} was deleted.")
    if record.uid != term.lease_uid:
        return Lost(reason=LossReason.LEASE_REPLACED, message=f"{lease} was deleted and made anew (uid {record.uid}).")
    if is_mine(record, me):
        return None
    if not record.holder:
        return Lost(reason=LossReason.LEASE_BLANKED, message=f"{lease} names no holder any more.")
    if is_twin(record, me):
        return Lost(reason=LossReason.TWIN_DETECTED, message=twin_message(me, record))
    return Lost(reason=LossReason.HOLDER_CHANGED, message=f"{lease} is held by {record.holder}.")


def _observed(
    me: Candidate, standing: Standing, record: LeaseRecord | None, *, boot: float, stagger: float
) -> Standing:
    """Take note of a reading: when it last changed, whom to wait for and how long."""
    lease = standing.lease
    if record is not None and record.holder:
        lease = max(me.timing.lease, record.duration)
    elif record is not None and record.released:
        lease = 0.0
    elif record is not None and (record.epoch is not None or record.renew_time is not None):
        lease = max(lease, me.timing.lease, record.duration)
    same = standing.read_boot != float("-inf") and _words(standing.record) == _words(record)
    return replace(
        standing,
        known=True,
        record=record,
        read_boot=boot,
        not_before=float("-inf"),
        lease=lease,
        changed_boot=standing.changed_boot if same else boot,
        stagger=standing.stagger if same else stagger,
        last=record if record is not None and record.epoch is not None and record.own_words else standing.last,
        highest_epoch=max(standing.highest_epoch, record.highest_epoch if record is not None else 0),
        twin=_alive_twin(me, standing, record, same=same),
    )


def _alive_twin(me: Candidate, standing: Standing, record: LeaseRecord | None, *, same: bool) -> bool:
    """A holder of this Pod's name that renews while we watch; an earlier process of the same Pod does not."""
    before = standing.record
    if record is None or before is None or not is_twin(record, me) or before.holder != record.holder:
        return False
    return standing.twin or not same


def _words(record: LeaseRecord | None) -> object:
    return None if record is None else record.words


def _landed(me: Candidate, standing: Standing, record: LeaseRecord, boot: float) -> Standing:
    """Our own words are in the Lease: the write they came by counts from its send.

    A claim that landed too late, or after a later term, begins nothing: it is waited for like anybody's.
    """
    write = next((w for w in standing.sent if w.renew_time == record.renew_time and w.epoch == record.epoch), None)
    term = standing.term
    if write is None:
        return standing
    trusted_until = write.boot + me.timing.trust
    if term is not None:
        term = replace(
            term,
            trusted_until=trusted_until,
            renew_time=write.renew_time,
            renew_sent_boot=write.boot,
            fleet_paused=record.fleet_paused,
        )
    elif boot < trusted_until and write.epoch >= standing.highest_epoch:
        term = Term(
            identity=me.identity, epoch=write.epoch, lease_namespace=me.namespace, lease_name=me.name, lease_uid=record.uid,
            started_boot=write.boot, trusted_until=trusted_until, renew_time=write.renew_time, renew_sent_boot=write.boot,
            past_ends=record.term_ends, fleet_paused=record.fleet_paused,
        )  # fmt: skip
    return replace(standing, term=term, sent=())
