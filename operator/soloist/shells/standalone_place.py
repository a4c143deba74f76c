"""The database that a standalone process lives in: the one that was named, or this host's own, which is kept running."""

import asyncio
import logging
from typing import NoReturn

from soloist.adapters.postgres import migrate
from soloist.adapters.postgres.embedded import Embedded
from soloist.domain.errors import ConfigError, SoloistError, TransientError
from soloist.shells.standalone_settings import StandaloneSettings

_log = logging.getLogger("soloist.standalone")

LOOKS_EVERY, SAYS_AGAIN = 1.0, 30.0
LACKS_THE_SCHEMA = "The database lacks this program's schema: run soloist migrate --database … once, before."
ONE_HOST = (
    "the embedded database serves the processes of this one host: two hosts would each have their own, and each lead"
)


class StandalonePlace:
    """``url`` is a database with this program's schema, once ``open`` is through."""

    def __init__(self, settings: StandaloneSettings, *, says_again: float = SAYS_AGAIN) -> None:
        self._embedded = Embedded(settings.folder) if settings.embedded else None
        self.url = self._embedded.url if self._embedded is not None else settings.database
        self._lacks, self._says_again, self._says_at = "it has not answered yet", says_again, 0.0

    async def open(self, stopping: asyncio.Event) -> bool:
        """Whether it is there, and not ``stopping`` first. Raises as ``_found`` does."""
        opening, stopped = asyncio.create_task(self._open()), asyncio.create_task(stopping.wait())
        await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if opening.done():
            opening.result()
            return not stopping.is_set()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        return False

    async def _open(self) -> None:
        if self._embedded is not None:
            started = await asyncio.to_thread(self._embedded.join)
            _log.warning("embedded database", extra={"started": started, "folder": str(self._embedded.folder), "sentence": ONE_HOST})  # fmt: skip
            await asyncio.to_thread(migrate.migrate, self.url)
        else:
            await self._found()
        self._lacks = ""

    async def _found(self) -> None:
        """Waits for a database that is not there yet, and then also for its schema and grants, which come after it.

        Raises SoloistError where it is there at once, and its schema is not, or is another's, or not for this account.
        """
        waits = False
        while True:
            try:
                return await asyncio.to_thread(self._look)
            except SoloistError as error:
                if not waits and not isinstance(error, TransientError):
                    raise
                self._tell(str(error))
            waits = True
            await asyncio.sleep(LOOKS_EVERY)

    def _look(self) -> None:
        if migrate.look(self.url):
            raise ConfigError(LACKS_THE_SCHEMA)

    def _tell(self, lacks: str) -> None:
        now = asyncio.get_running_loop().time()
        if lacks != self._lacks or now >= self._says_at:
            _log.warning("waiting for the database", extra={"error": lacks})
            self._says_at = now + self._says_again
        self._lacks = lacks

    async def keep(self) -> NoReturn:
        """For ever: start an embedded database again that is gone."""
        while True:
            await asyncio.sleep(LOOKS_EVERY)
            if self._embedded is None or self._embedded.runs():
                continue
            try:
                if await asyncio.to_thread(self._embedded.join):
                    _log.warning("embedded database was gone, and is started again")
            except SoloistError as error:
                _log.error("embedded database does not start", extra={"error": str(error)})

    async def close(self) -> None:
        if self._embedded is not None and await asyncio.to_thread(self._embedded.leave):
            _log.info("embedded database stopped: nobody else uses it")

    def standing(self) -> tuple[bool, str]:
        """For /readyz."""
        if self._lacks:
            return False, self._lacks
        return True, ONE_HOST if self._embedded is not None else "every process with this database is a replica"
