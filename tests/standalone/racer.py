"""One of several processes that write the same rows: `python -m tests.standalone.racer '{"dsn": …, "name": "a", "times": 50}'`.

It counts one status up, each time on what it has read, and claims one name after the other; it logs what it got.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from soloist.adapters.postgres.row_store import RowStore
from soloist.domain.errors import TransientError
from soloist.ports import AlreadyExists, Conflict, Written
from tests.queue.databases import opened

SHARD = "races"


async def race(settings: dict[str, Any]) -> None:
    database = opened(settings["dsn"])
    store = RowStore(database, shard=SHARD, writer=settings["name"])
    got = 0
    while got < settings["times"]:
        try:
            run = await store.read_run("n", "counted")
            assert run is not None
            meta, count = run["metadata"], int((run.get("status") or {}).get("count", 0))
            answer = await store.write_run_status(
                "n", "counted", uid=meta["uid"], resource_version=meta["resourceVersion"], status={"count": count + 1}
            )
        except TransientError as error:
            say(event="doubt" if error.sent else "refused")
            await asyncio.sleep(0.05)
            continue
        assert isinstance(answer, Written | Conflict), answer
        if isinstance(answer, Written):
            got += 1
            say(event="counted", count=count + 1)
            await claim(store, f"tick-{count + 1}")
    say(event="done")
    await database.close()


async def claim(store: RowStore, name: str) -> None:
    spec = {"scheduledJobName": "j", "trigger": "Schedule", "scheduledTime": "2026-03-01T02:00:00Z"}
    for each in (name, f"{name}-shared", "everybodys"):
        try:
            answer = await store.create_run({"metadata": {"namespace": "n", "name": each}, "spec": spec})
        except TransientError:
            continue
        assert isinstance(answer, Written | AlreadyExists), answer
        if isinstance(answer, Written):
            say(event="claimed", name=each)


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(race(json.loads(sys.argv[1])))
