"""After an error: what the API server says now, whatever was believed."""

from soloist.loops.cache import Cache, Key
from soloist.ports import Store


async def reread(cache: Cache, store: Store, key: Key) -> None:
    """The job and its unfinished runs as they stand."""
    raw = await store.read_job(*key)
    known = cache.job(key)
    if raw is not None:
        cache.put_job(raw)
    elif known is not None:
        cache.drop_job(*key, uid=known.uid)
    for run in cache.runs(key):
        if run.phase.final:
            continue
        found = await store.read_run(run.namespace, run.name)
        if found is None or found["metadata"]["uid"] != run.uid:
            cache.drop_run(key, run.name, uid=run.uid)
        if found is not None:
            cache.put_run(found)
