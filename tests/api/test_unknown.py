"""Calls whose outcome nobody saw: never two at once, never again without being asked for, never for ever.

Each with one or two standbys that take over, and with one replica whose container is started again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from soloist.adapters.postgres.migrate import migrate
from tests.api.crew import Crew, Raw, audit
from tests.api.tending import (
    FINAL,
    KEEP,
    Crews,
    attempts_ascend,
    ended,
    fences,
    keys,
    nothing_twice_or_early,
    now,
    of_run,
    phase_of,
    revive,
    start_each,
    through,
    tick_of,
)
from tests.cluster.backend import Backend, Received
from tests.cluster.children import until
from tests.postgres.server import Database

pytestmark = pytest.mark.cluster

RETRY = {"maxAttempts": 3, "onUnknown": "Retry"}
NEVER = {"maxAttempts": 3, "onUnknown": "Never"}
TIMEOUT = 9
TABLES = ("history", "notifications")
ROWS = "CREATE TABLE history (key text, fence bigint); CREATE TABLE notifications (key text, fence bigint)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadly:
    """A job whose handler kills whoever called it."""

    crew: Crew
    path: str
    retry: Raw
    how: str = "kill_caller"

    def tend(self) -> bool:
        """Containers that ended are started again; True once the first run is over."""
        revive(self.crew)
        return phase_of(first_run(self.crew, "deadly")) in FINAL


def test_a_call_that_kills_each_leader_is_given_up(crews: Crews, backend: Backend) -> None:
    jobs = [
        Deadly(crew=crews(name), path=f"/{name}", retry=retry)
        for name, retry in {"retry1": RETRY, "retry2": RETRY, "retry3": RETRY, "never1": NEVER, "never2": NEVER}.items()
    ]
    # Whoever calls has its answer, and is killed before it can have said so: most times, and not each time.
    replied = Deadly(crew=crews("replied1"), path="/replied1", retry=RETRY, how="kill_after_reply")
    start_each([job.crew for job in (*jobs, replied)], "a")
    start_each([job.crew for job in jobs if job.path.endswith(("2", "3"))], "b")
    start_each([job.crew for job in jobs if job.path.endswith("3")], "c")
    for job in (*jobs, replied):
        backend.rule(f"^{job.path}$", status=503, **{job.how: True})
        url = backend.url(job.path)
        # Long enough for each call to be received, and to kill who sent it, before its time is over.
        job.crew.job("deadly", schedule="@every 2s", timeoutSeconds=5, retry=job.retry, http={"url": url}, **KEEP)
        job.crew.wait(partial(job.crew.runs, "deadly"), what="the first is claimed")
    until(lambda: {job.tend() for job in (*jobs, replied)} == {True}, what="each first run is over", timeout=240)
    backend.clear()
    cleared = now()
    for job in (*jobs, replied):
        run = first_run(job.crew, "deadly")
        seen = of_run(backend, job.path, run)
        attempts = [each.header("Soloist-Attempt") for each in seen]
        retried = job.retry is not NEVER
        if job is replied:  # Failed where the last answer was written down after all
            assert phase_of(run) in ("Interrupted", "Failed"), run
        else:
            assert phase_of(run) == ("Interrupted" if retried else "Unknown"), run
        assert attempts == (["1", "2", "3"] if retried else ["1"])
        assert len(keys(seen)) == 1
        assert fences(seen) == sorted(set(fences(seen))), "each attempt under a term of its own"
        assert len(of_run(backend, job.path, run)) == len(seen)
        through(job.crew, "deadly", cleared, more=1, reviving=True)
        attempts_ascend(backend, job.path)
        audit(job.crew, backend, "deadly", path=job.path)


def first_run(crew: Crew, job: str) -> Raw:
    return min(crew.runs(job), key=tick_of)


def test_a_handler_outlives_its_caller_and_never_meets_another(
    database: Database, crews: Crews, backend: Backend
) -> None:
    """A handler of 6 s under Forbid that writes two rows, its leader killed meanwhile. Where only the child is, the next
    leads at once (nomad #11052)."""
    migrate(database.dsn())
    with database.connect() as connection:
        connection.execute(ROWS)
    found = {name: crews(name) for name in ("alone", "standby", "at-once", "three")}
    backend.rule("/slow", delay=6, writes=database.dsn())
    start_each(found.values(), "a")
    start_each([found["standby"], found["at-once"], found["three"]], "b")
    start_each([found["three"]], "c")
    for name, crew in found.items():  # one after the other: none may have been answered when its leader is killed
        killed_in_mid_call(name, crew, backend)
    ended(found["alone"], "a")
    killed = now()
    start_each([found["alone"]], "a")
    for name, crew in found.items():
        for job in ("never", "retry"):
            path = f"/slow/{name}/{job}"
            through(crew, job, killed, more=1)
            assert backend.most_at_once(path) == 1
            attempts_ascend(backend, path)
            audit(crew, backend, job, path=path)
        unknown = first_run(crew, "never")
        assert phase_of(unknown) == "Unknown"
        (only,) = of_run(backend, f"/slow/{name}/never", unknown)
        again = first_run(crew, "retry")
        first, second = of_run(backend, f"/slow/{name}/retry", again)
        assert (phase_of(again), again["status"]["attempt"]) == ("Succeeded", 2)
        assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
        assert fences([second]) > fences([first])
        assert second.at - first.at > timedelta(seconds=TIMEOUT)
        for call in (only, first):  # the second attempt found the key
            assert written_for(database, call) == {table: fences([call]) for table in TABLES}


def written_for(database: Database, call: Received) -> dict[str, list[int]]:
    """The fences under which each table has a row for the key of that call, once its handler is through."""

    def rows() -> dict[str, list[int]]:
        with database.connect() as connection:
            query = "SELECT array(SELECT fence FROM history WHERE key = %(key)s), array(SELECT fence FROM notifications WHERE key = %(key)s)"
            found = connection.execute(query, {"key": call.header("Idempotency-Key")}).fetchone()
        return dict(zip(TABLES, found or (), strict=True))

    until(lambda: any(rows().values()), what="its handler is through", timeout=90)
    return rows()


def killed_in_mid_call(name: str, crew: Crew, backend: Backend) -> None:
    """Two jobs, and their leader killed as soon as it has called for both."""
    for job, retry in {"never": NEVER, "retry": RETRY}.items():
        url = backend.url(f"/slow/{name}/{job}")
        crew.job(job, schedule="@every 2s", timeoutSeconds=TIMEOUT, retry=retry, http={"url": url}, **KEEP)
    for job in ("never", "retry"):
        backend.wait(1, path=f"/slow/{name}/{job}")
    if name == "at-once":
        crew.members["a"].kill_child()
    else:
        crew.members["a"].kill_both()


def test_a_call_that_outlives_the_grace_is_unknown_to_the_next_leader(crews: Crews, backend: Backend) -> None:
    timeout, grace = 15, 2
    both = {replicas: crews(f"hang{replicas}") for replicas in (1, 2)}
    backend.rule("/hang1", hang=True, times=1)
    backend.rule("/hang2", hang=True, times=1)
    start_each(both.values(), "a", SOLOIST_GRACE=str(grace))
    start_each([both[2]], "b")
    for replicas, crew in both.items():
        url = backend.url(f"/hang{replicas}")
        crew.job("hang", schedule="@every 2s", timeoutSeconds=timeout, http={"url": url}, **KEEP)
        (call,) = backend.wait(1, path=f"/hang{replicas}")
        told = now()
        crew.members["a"].terminate()
        ended(crew, "a")
        assert now() - told > timedelta(seconds=grace - 0.5), "it was not given its grace"
        assert now() - call.at < timedelta(seconds=timeout), "it waited for its call, and not for its grace alone"
    over = now()
    start_each([both[1]], "a")
    for replicas, crew in both.items():
        through(crew, "hang", over, more=1)
        run = first_run(crew, "hang")
        assert (phase_of(run), run["status"]["reason"]) == ("Unknown", "OutcomeUnknown")
        assert len(of_run(backend, f"/hang{replicas}", run)) == 1
        nothing_twice_or_early(backend, f"/hang{replicas}")
        audit(crew, backend, "hang", path=f"/hang{replicas}")
