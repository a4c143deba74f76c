"""After an error, or a write that was forestalled: what the API server says now, whatever was believed."""

from soloist.domain.runs import Job, Run
from soloist.loops.cache import Cache, Key
from soloist.ports import Store


async def reread(cache: Cache, store: Store, key: Key) -> None:
    """The job and its unfinished runs as they stand."""
    known = cache.job(key)
    raw = await store.read_job(*key)
    if raw is not None:
        cache.put_job(raw)
        cache.put_back(raw, known)
    elif known is not None:
        cache.drop_job(*key, uid=known.uid)
    for run in cache.runs(key):
        if not run.phase.final:
            await reread_run(cache, store, key, run)


async def reread_job(cache: Cache, store: Store, job: Job) -> bool:
    """Whether it is another by now than the rules have looked at."""
    known = cache.job((job.namespace, job.name))
    raw = await store.read_job(job.namespace, job.name)
    if raw is None or raw["metadata"]["uid"] != job.uid:
        cache.drop_job(job.namespace, job.name, uid=job.uid)
    if raw is not None:
        cache.put_job(raw)
        cache.put_back(raw, known)
    return raw is None or str(raw["metadata"]["resourceVersion"]) != job.resource_version


async def reread_run(cache: Cache, store: Store, key: Key, run: Run) -> None:
    known = cache.run(key, run.name)
    raw = await store.read_run(run.namespace, run.name)
    if raw is None or raw["metadata"]["uid"] != run.uid:
        cache.drop_run(key, run.name, uid=run.uid)
    if raw is not None:
        cache.put_run(raw)
        cache.put_back(raw, known)
