"""A small HTTP server in the process's own loop, on a port that a setting names.

A port that cannot be had is a wrong setting, and is said as one, before anything else begins.
"""

import contextlib
import os
from collections.abc import AsyncIterator

from aiohttp import web

from soloist.domain.errors import ConfigError


@contextlib.asynccontextmanager
async def listening(application: web.Application, *, setting: str, address: str, port: int) -> AsyncIterator[int]:
    """Serve while the block runs; gives the port, which is a free one for ``port=0``.

    Raises ConfigError, which names ``setting``, where the address and port cannot be listened on.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigError(
                f"{setting} is {port}, and {address} port {port} cannot be listened on ({why}): "
                "write another, or 0 for a free one."
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
