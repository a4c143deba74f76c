"""Who leads: what to do next, by what is known. Pure; the loop sends and waits, ``hearing`` says what an answer means.

::

    candidate --Claim, landed--> leader --Renew, landed--> leader
        ^ |                        |
        '-' Read, Wait             '--> Lost (for good: the process ends)

Why at most one believes itself the leader:

* A write carries the resourceVersion (and uid) of the last reading, so of two claims one lands.
* A holder trusts itself for lease - margin from the *send* of its last landed write. A candidate claims only after a whole
  lease without a change, from when it *received* the last one; or on better evidence: a release, or the kubelet's word that
  the very container is dead. A Lease that was blanked by hand is waited for like one that is held. One that was deleted
  is first put back without a holder, since between two readings of "there is none" somebody may have held it.
  (Only a process that never saw the Lease takes a missing one at once: a person who deletes it just then can make two
  leaders for as long as the old one's next reading takes.)

A clock offset harms none of this. It harms what a leader does with its clock, so a skewed one neither takes nor keeps it.
"""

from soloist.domain.lease import LeaseRecord
from soloist.domain.standing import Candidate, Claim, LossReason, Lost, Read, Renew, Restore, Standing, Wait


def decide(me: Candidate, standing: Standing, boot: float) -> Read | Claim | Restore | Renew | Wait | Lost:
    """The next thing to do."""
    term = standing.term
    if standing.lost is not None:
        return standing.lost
    if term is not None and not term.trusted(boot):
        return _trust_ended(me)
    latest = term.trusted_until if term is not None else float("inf")
    if boot < standing.not_before:
        return Wait(until=min(standing.not_before, latest))
    if not standing.known:
        return Read()
    if term is not None:
        due = term.renew_sent_boot + me.timing.period
        news = standing.record is not None and standing.record.fleet_paused != term.fleet_paused
        return Renew() if news or boot >= due else Wait(until=min(due, latest))
    free, poll = free_at(me, standing), standing.read_boot + me.timing.period
    if standing.record is None and standing.saw_it:
        again = standing.changed_boot + standing.stagger
        return Restore() if boot >= again else Wait(until=again)
    if standing.skew is None and boot >= free:
        return Claim()
    return Read() if boot >= poll else Wait(until=poll if standing.skew is not None else min(poll, free))


def free_at(me: Candidate, standing: Standing) -> float:
    """From when on the Lease may be claimed, by what is known now."""
    record = standing.record
    at_once = standing.changed_boot + standing.stagger
    if record is not None and (record.released or _proven_dead(standing, record)):
        return at_once
    return at_once + standing.lease


def _proven_dead(standing: Standing, record: LeaseRecord) -> bool:
    """Whether the death that the kubelet reported is that of the process whose words the Lease has."""
    return bool(record.holder) and record.own_words and record.nonce is not None and record.nonce == standing.dead_nonce


def _trust_ended(me: Candidate) -> Lost:
    message = f"Lease {me.namespace}/{me.name} could not be renewed for {me.timing.trust:g} s."
    return Lost(reason=LossReason.TRUST_ENDED, message=message)
