"""Leaders that launch runs whose effect is a transaction: in this process, or, to be killed and frozen, in one of their own.

`python -m tests.queue.runs '{"dsn": …, "epoch": 1, "tick": 0, "statement": …, "at": "ledger", "signal": "SIGSTOP"}'`
launches one run, strikes itself at that stage, and logs what became of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from soloist.adapters.postgres.ledgers import Ledgers
from soloist.adapters.postgres.transactions import SqlLauncher
from soloist.adapters.sealed import Sealed
from soloist.domain.actions import Action, KeyRef, Order, Outcome, SqlAction
from soloist.domain.errors import PermanentError
from soloist.domain.queue_name import QueueName
from soloist.domain.queue_spec import QueueSpec
from soloist.domain.spec import Spec, parse_spec

T = TypeVar("T")
JOB = "9d0c7a34-0000-4000-8000-000000000001"
SHARD = "cluster/soloist/soloist"
SECRET = KeyRef(kind="Secret", name="db", key="uri")
FIRST = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Leader:
    """One term: a launcher with connections of its own, under one epoch."""

    launcher: SqlLauncher
    ledgers: Ledgers
    epoch: int
    stages: list[str] = field(default_factory=list)

    def order(self, action: Action | str, tick: int | None = 0, *, timeout: float = 30.0, attempt: int = 1) -> Order:
        """A run of the ``tick``-th minute, or of a person (None)."""
        at = FIRST + timedelta(minutes=tick) if tick is not None else None
        key = f"{JOB}/{at:%Y-%m-%dT%H:%M:%SZ}" if at is not None else "run-uid"
        return Order(
            namespace="shop",
            job_name="sweep",
            job_uid=JOB,
            generation=1,
            run_name=f"sweep-{tick}",
            run_uid="run-uid",
            scheduled_time=at,
            attempt=attempt,
            key=key,
            fence=self.epoch,
            timeout=timedelta(seconds=timeout),
            action=SqlAction(database=SECRET, statement=action) if isinstance(action, str) else action,
        )

    async def launch(self, action: Action | str, tick: int | None = 0, **more: Any) -> Outcome:
        return await self.launcher.launch(self.order(action, tick, **more))

    async def found(self, tick: int | None = 0) -> Outcome | None:
        return await self.launcher.found(self.order("", tick))


@asynccontextmanager
async def leading(
    uri: str | Callable[[], str],
    epoch: int = 1,
    *,
    queues: dict[str, QueueSpec] | None = None,
    strike: Callable[[str], None] = lambda _: None,
    trusted: Callable[[], bool] = lambda: True,
    shard: str = SHARD,
) -> AsyncIterator[Leader]:
    async def read_key(namespace: str, ref: KeyRef) -> Sealed:
        if ref.name == "absent":
            raise PermanentError(f"Secret {namespace}/{ref.name} does not exist: create it, or name another one.")
        return Sealed(uri if isinstance(uri, str) else uri())

    async def find_queue(namespace: str, name: str) -> QueueSpec:
        if name not in (queues or {}):
            raise PermanentError(f"WorkQueue {QueueName(namespace, name)} does not exist: create it.")
        return (queues or {})[name]

    async def whole_shard() -> str:
        return shard

    stages: list[str] = []

    def stage(name: str) -> None:
        stages.append(name)
        strike(name)

    ledgers = Ledgers(
        read_key=read_key, find_queue=find_queue, shard=whole_shard, holder=f"pod-{epoch}", boottime=time.monotonic
    )
    launcher = SqlLauncher(ledgers, trusted=trusted, stage=stage)
    try:
        yield Leader(launcher, ledgers, epoch, stages)
    finally:
        await launcher.close()


def action_of(**spec: Any) -> Action:
    """The action of a spec as a person would write it; the database is the one that ``leading`` was given."""
    kind, fields = next(iter(spec.items()))
    place = {} if "workQueue" in fields else {"databaseRef": {"secretName": "db", "key": "uri"}}
    parsed = parse_spec({"schedule": "@daily", kind: {**place, **fields}})
    assert isinstance(parsed, Spec), parsed
    return parsed.action


def play(scene: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scene, 120))


async def _one(settings: dict[str, Any]) -> None:
    def strike(stage: str) -> None:
        print(f"stage {stage}", flush=True)
        if stage == settings.get("at"):
            os.kill(os.getpid(), signal.Signals[settings["signal"]])

    async with leading(settings["dsn"], settings["epoch"], strike=strike) as leader:
        print("begins", flush=True)
        try:
            outcome = await leader.launch(settings["statement"], settings["tick"])
        except Exception as error:
            print(f"raised {type(error).__name__}: {error}", flush=True)
        else:
            print(f"ended {outcome}", flush=True)


if __name__ == "__main__":
    asyncio.run(_one(json.loads(sys.argv[1])))
