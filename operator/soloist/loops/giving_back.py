"""Gives a Lease back, if what was just read is ours. Work under it has ended, or was never begun."""

import logging
from collections.abc import Callable
from datetime import datetime

from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.lease import Clash, parse
from soloist.domain.lease_writes import release
from soloist.domain.standing import Candidate
from soloist.domain.term import Term
from soloist.loops.election_ports import LeaseApi

logger = logging.getLogger(__name__)

TRIES = 4


def give_back(
    me: Candidate, api: LeaseApi, *, term: Term | None, end: datetime | None, rest: Callable[[float], object]
) -> bool:
    """Whether nothing of ours is in the Lease any more, as far as is known.

    ``end`` is when the term ended, on its clock. Without a term, whatever claim of ours landed ended as it began.
    """
    for _ in range(TRIES):
        try:
            lease = api.read(timeout=me.timing.try_timeout).lease
            record = parse(lease) if lease is not None else None
            epoch = term.epoch if term is not None else record.epoch if record is not None else None
            stamp = end or (record.renew_time if record is not None else None)
            body = release(me, record, epoch=epoch, end=stamp) if epoch is not None and stamp is not None else None
            if body is None:
                return True
            if not isinstance(api.replace(body, timeout=me.timing.try_timeout), Clash):
                logger.info("lease given back", extra={"epoch": epoch})
                return True
        except (TransientError, PermanentError) as error:
            logger.warning("lease not given back yet", extra={"error": str(error)})
            rest(me.timing.period / 4)
    return False
