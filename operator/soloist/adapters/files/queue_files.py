"""WorkQueues out of manifests, and the Secrets and ConfigMaps that lie beside them.

A file that cannot be read ends the start, with a sentence. Later it changes nothing, and the sentence is told once. A queue
that cannot be used stops itself at the start, and nothing later.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from soloist.adapters.files.documents import QUEUES_AND_KEYS
from soloist.adapters.files.manifests import Manifests
from soloist.adapters.sealed import Sealed
from soloist.domain.actions import KeyRef
from soloist.domain.errors import ConfigError, PermanentError
from soloist.domain.queue_manifests import QueuePlan, plan_queues
from soloist.domain.queue_name import FoundQueues

LOOK_EVERY = 1.0
ALL_TAKEN = "all files are taken"


class QueueFiles:
    """``told`` is told why changed files were not taken."""

    def __init__(self, paths: Sequence[str], *, told: Callable[[str], None]) -> None:
        self._told, self._manifests = told, Manifests(paths, QUEUES_AND_KEYS)
        self._manifests.look()
        for sentence in self._manifests.problems.values():
            raise ConfigError(sentence)
        self._queues = plan_in(self._manifests, QueuePlan())

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """Tell of all queues now, and whenever the files have changed."""
        tell(last := self.found())
        said: Mapping[str, str] = {}
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if not await asyncio.to_thread(self._manifests.look):
                continue
            self._queues = plan_in(self._manifests, self._queues)
            problems = {**self._manifests.problems, **{str(name): why for name, why in self._queues.kept.items()}}
            for file, sentence in problems.items():
                if said.get(file) != sentence:
                    self._told(f"{sentence} What was read before goes on to hold.")
            said = problems
            if (found := self.found()) != last:
                tell(last := found)

    async def read_key(self, namespace: str, ref: KeyRef) -> Sealed:
        """A value of a Secret or ConfigMap that is in the files."""
        return key_in(self._manifests, namespace, ref)

    def found(self) -> FoundQueues:
        """All queues, as they were read last."""
        return self._queues.found

    def are_taken(self) -> tuple[bool, str]:
        """For /readyz: what is refused is said there, and stops nothing else."""
        return True, "; ".join([*self._manifests.problems.values(), *self._queues.refused.values()]) or ALL_TAKEN


def plan_in(manifests: Manifests, before: QueuePlan) -> QueuePlan:
    """Of the WorkQueues among them; ``before``: as they were looked at last."""
    return plan_queues(*manifests.planned("WorkQueue"), before)


def key_in(manifests: Manifests, namespace: str, ref: KeyRef) -> Sealed:
    """One value. Raises PermanentError with a sentence where there is none."""
    place = f"{ref.kind} {namespace}/{ref.name}"
    found = manifests.objects.get((ref.kind, namespace, ref.name))
    if found is None:
        raise PermanentError(f"{place} is in none of the files: add it to one, or name another.")
    text = _text(found.raw, ref.key, secret=ref.kind == "Secret")
    if text is None:
        raise PermanentError(f"{place} has no key {ref.key!r} with text in it: add it, or name another key.")
    return Sealed(text)


def _text(document: Mapping[str, Any], key: str, *, secret: bool) -> str | None:
    plain = (document.get("stringData") if secret else document.get("data")) or {}
    if isinstance(plain.get(key), str):
        return str(plain[key])
    coded = document.get("data") or {}
    if not secret or not isinstance(coded.get(key), str):
        return None
    try:
        return base64.b64decode(coded[key], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
