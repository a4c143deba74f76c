"""WorkQueues on the API server: a list, then a bare watch. What a list does not hold any more is gone."""

from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.store import list_all, path_of
from soloist.adapters.kube.watch import Watch
from soloist.domain.errors import PermanentError, SoloistError
from soloist.domain.one_each import one_each
from soloist.domain.queue_name import FoundQueues, queues_in
from soloist.ports import Raw

QUEUES = "workqueues"

NO_KIND = "The API server knows no WorkQueues: to have queues, apply manifests/crds/workqueues.yaml. It is looked for again now and then."


class QueueWatch:
    """``namespaces``: those to look into; none at all means every namespace. ``refused``: as ``Watch`` has it."""

    def __init__(
        self,
        api: KubeApi,
        *,
        boottime: Callable[[], float],
        namespaces: Sequence[str] = (),
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._paths = [path_of(QUEUES, namespace) for namespace in namespaces or (None,)]
        self._objects: dict[tuple[str, str], Raw] = {}
        self._tell: Callable[[FoundQueues], None] = lambda _: None
        self._told: FoundQueues | None = None
        self._watch = Watch(
            self._api, self._paths, on_event=self._seen, relist=self._relist, boottime=boottime, refused=refused
        )

    @property
    def heard(self) -> float:
        """CLOCK_BOOTTIME of the last word from the API server; -inf before the first."""
        return self._watch.heard

    @property
    def trouble(self) -> SoloistError | None:
        """Why they cannot be followed at this moment."""
        return self._watch.trouble

    @property
    def objects(self) -> Collection[Raw]:
        """All of them as they were heard of last, with their status."""
        return self._objects.values()

    async def run(self, tell: Callable[[FoundQueues], None]) -> NoReturn:
        """Tell of all queues when they have been listed, and at each change of one's spec."""
        self._tell = tell
        await self._watch.run()

    async def _relist(self) -> str:
        try:
            listing = await list_all(self._api, self._paths)
        except NotFound as error:
            raise PermanentError(NO_KIND) from error
        self._objects = {_place(each): each for each in listing.items}
        self._changed()
        return listing.resource_version

    def _seen(self, kind: str, obj: Raw) -> None:
        if kind == "DELETED":
            self._objects.pop(_place(obj), None)
        else:
            self._objects[_place(obj)] = obj
        self._changed()

    def _changed(self) -> None:
        found = one_each(self._objects.values(), queues_in(self._objects.values()))
        if found != self._told:
            self._told = found
            self._tell(found)


def _place(obj: Raw) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
