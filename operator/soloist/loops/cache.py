"""What is known of ScheduledJobs and JobRuns, parsed once per resourceVersion.

It is fed by a watch, by lists and by the replies to own writes, in any order; the higher resourceVersion wins, so nothing
goes back. A list removes what it does not name, unless that is newer than the list itself. A watch may lose a delete, which
is why there are lists. Where an object that is read anew is older than what was known before it was asked for, the store has
lost writes (a database failed over to a standby that was behind): what is known goes on then, under the version that is there.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from soloist.domain.parsing import parse_job, parse_run
from soloist.domain.runs import Job, Run
from soloist.ports import Listing, Raw

_log = logging.getLogger(__name__)
T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name of a ScheduledJob."""


class Cache:
    """Every method that changes something returns the keys of the jobs concerned."""

    def __init__(self) -> None:
        self._jobs: dict[Key, Job] = {}
        self._runs: dict[Key, dict[str, Run]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Key]:
        """The jobs, and those that only runs name."""
        return iter({**self._jobs, **self._runs})

    def job(self, key: Key) -> Job | None:
        return self._jobs.get(key)

    def runs(self, key: Key) -> tuple[Run, ...]:
        """By the name of the ScheduledJob, so that a run which a person made without the uid is among them."""
        return tuple(self._runs.get(key, {}).values())

    def run(self, key: Key, name: str) -> Run | None:
        return self._runs.get(key, {}).get(name)

    def put_job(self, raw: Raw) -> set[Key]:
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        known = self._jobs.get(key)
        if known is not None and not _newer(meta["resourceVersion"], known.resource_version):
            return set()
        job = self._read(lambda raw: parse_job(raw, known), raw)
        if job is not None:
            self._jobs[key] = job
        return {key}

    def put_run(self, raw: Raw) -> set[Key]:
        meta = raw["metadata"]
        key = (meta["namespace"], str((raw.get("spec") or {}).get("scheduledJobName", "")))
        known = self._runs.get(key, {}).get(meta["name"])
        if known is not None and not _newer(meta["resourceVersion"], known.resource_version):
            return set()
        run = self._read(parse_run, raw)
        if run is not None:
            self._runs.setdefault(key, {})[run.name] = run
        return {key}

    def put_back(self, raw: Raw, known: Job | Run | None) -> None:
        """``raw`` was read after ``known`` was: its status goes on, on what the store has. Nothing, where that is not older."""
        meta = raw["metadata"]
        if known is None or meta["uid"] != known.uid or not _newer(known.resource_version, meta["resourceVersion"]):
            return
        keys = {"namespace": known.namespace, "object": known.name, "version": meta["resourceVersion"]}
        _log.warning("the store has lost writes; what is known of the object goes on", extra=keys)
        if isinstance(known, Run):
            if self.run((known.namespace, known.job_name), known.name) == known:
                run = dataclasses.replace(known, resource_version=meta["resourceVersion"])
                self._runs[known.namespace, known.job_name][known.name] = run
        elif self.job((known.namespace, known.name)) == known:
            job = self._read(lambda raw: parse_job(raw, known), {**raw, "status": dict(known.status)})
            if job is not None:
                self._jobs[known.namespace, known.name] = job

    def drop_job(self, namespace: str, name: str, *, uid: str) -> set[Key]:
        key = (namespace, name)
        known = self._jobs.get(key)
        if known is None or known.uid != uid:
            return set()
        del self._jobs[key]
        return {key}

    def drop_run(self, key: Key, name: str, *, uid: str) -> set[Key]:
        known = self._runs.get(key, {}).get(name)
        if known is None or known.uid != uid:
            return set()
        del self._runs[key][name]
        if not self._runs[key]:
            del self._runs[key]
        return {key}

    def relist_jobs(self, listing: Listing) -> set[Key]:
        """A consistent list: what it does not name is gone."""
        changed: set[Key] = set()
        named = set()
        for raw in listing.items:
            changed |= self.put_job(raw)
            named.add((raw["metadata"]["namespace"], raw["metadata"]["name"]))
        for key, job in list(self._jobs.items()):
            if key not in named and not _newer(job.resource_version, listing.resource_version):
                del self._jobs[key]
                changed.add(key)
        return changed

    def relist_runs(self, listing: Listing) -> set[Key]:
        changed: set[Key] = set()
        named = set()
        for raw in listing.items:
            changed |= self.put_run(raw)
            named.add(raw["metadata"]["uid"])
        for key, runs in list(self._runs.items()):
            for run in list(runs.values()):
                if run.uid not in named and not _newer(run.resource_version, listing.resource_version):
                    changed |= self.drop_run(key, run.name, uid=run.uid)
        return changed

    def _read(self, parse: Callable[[Raw], T], raw: Raw) -> T | None:
        """One object that cannot be read must not stop all the others."""
        try:
            return parse(raw)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            meta = raw.get("metadata") or {}
            keys = {"namespace": meta.get("namespace"), "object": meta.get("name"), "error": repr(error)}
            _log.error("object cannot be read; it is left alone", extra=keys)
            return None

    def unfinished(self) -> frozenset[str]:
        """The uids of runs that have no outcome yet."""
        return frozenset(run.uid for runs in self._runs.values() for run in runs.values() if not run.phase.final)

    def epochs(self) -> frozenset[int]:
        """Terms of which a recorded run may be unfinished: their ends must be remembered."""
        return frozenset(entry.epoch for job in self._jobs.values() for entry in job.active)


def _newer(one: str, other: str) -> bool:
    """Versions of one kind are comparable numbers (Kubernetes API conventions since 1.35; so in etcd before)."""
    return int(one) > int(other)
