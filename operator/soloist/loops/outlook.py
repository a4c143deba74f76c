"""What the rules are shown of a job: all that is known of it, under this term, at one moment.

The cache says how things stand, ``acting`` what only this process knows. A spec that cannot be run is stood in for by the last
of the same job that could, since what runs was launched by that one.
"""

from datetime import timedelta

from soloist.domain.runs import Job
from soloist.domain.spec import Invalid, Spec
from soloist.domain.term import Term
from soloist.domain.view import View
from soloist.loops.acting import Acting
from soloist.loops.cache import Cache, Key
from soloist.loops.crowd import Crowd
from soloist.loops.specs import NOTHING_TO_RUN
from soloist.ports import Clock


class Outlook:
    """``claim_ahead`` and ``record_ahead`` in seconds; the latter is the most, when a thousand are due at one instant."""

    def __init__(self, cache: Cache, clock: Clock, acting: Acting, claim_ahead: float, record_ahead: float) -> None:
        self._cache, self._clock, self._acting = cache, clock, acting
        self._claim_ahead, self._record_ahead = claim_ahead, record_ahead
        self._crowd = Crowd(record_ahead)
        self._specs: dict[Key, tuple[str, Spec]] = {}

    def view(self, key: Key, job: Job, spec: Spec | Invalid, term: Term) -> View:
        if isinstance(spec, Invalid):
            uid, last = self._specs.get(key, (job.uid, NOTHING_TO_RUN))
            spec = last if uid == job.uid else NOTHING_TO_RUN
        else:
            self._specs[key] = (job.uid, spec)
        boot, lead = self._clock.boottime(), self._crowd.lead(key)
        return View(
            job=job,
            spec=spec,
            runs=self._cache.runs(key),
            memory=self._acting.memory,
            epoch=term.epoch,
            lease=f"{term.lease_namespace}/{term.lease_name}",
            term_started=term.started_boot,
            past_ends=term.past_ends,
            fleet_paused=term.fleet_paused is not None,
            now=term.now(boot),
            boot=boot,
            claim_ahead=timedelta(seconds=self._claim_ahead + max(0.0, lead - self._record_ahead)),
            record_ahead=timedelta(seconds=lead),
            taken=self._acting.taken.get(job.uid, {}),
            refused=self._acting.refused.get(job.uid, ""),
        )

    def wait(self, key: Key, view: View) -> None:
        """Count who is due at the same instant as this job."""
        upcoming = view.planned.upcoming if isinstance(view.job.spec, Spec) else None
        self._crowd.stand_at(key, upcoming.launch_at if upcoming is not None else None)

    def forget(self, key: Key) -> None:
        self._crowd.stand_at(key, None)
        if self._cache.job(key) is None:
            uid, _ = self._specs.pop(key, ("", NOTHING_TO_RUN))
            self._acting.forget(uid, (run.uid for run in self._cache.runs(key)))
