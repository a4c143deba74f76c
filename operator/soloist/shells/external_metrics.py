"""external.metrics.k8s.io of one controller, wired: every replica serves it, whoever leads.

What it goes by (its certificate, and whom the cluster trusts as its front proxy) is read again and again, and a change is
taken over without a restart. While it cannot be read it serves on with what it knew; before it knew it, the replica is not
ready. Either way the reason is on /readyz, in the log and in an Event, each time that it is another one.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from soloist.adapters.clock import SystemClock
from soloist.adapters.http.tls_server import Identity, TlsServer
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.delegation import Delegation
from soloist.adapters.kube.one_queue import OneQueue
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.adapters.postgres.queue_databases import SurveyedDatabases
from soloist.domain.errors import SoloistError
from soloist.domain.front_proxy import FrontProxy
from soloist.loops.depths_on_demand import DepthsOnDemand
from soloist.shells.external_metrics_api import application
from soloist.shells.queue_care import SECRETS_SECONDS
from soloist.shells.settings import ControllerSettings

_log = logging.getLogger("soloist.external_metrics")
ANEW_SECONDS, AGAIN_SECONDS = 30.0, 2.0
"""Between two readings, and after one that failed: files may have been read while they were being changed."""


class ExternalMetrics:
    """``run`` serves until it is cancelled; then ``close``. ``notice`` is given a reason and a sentence for people."""

    def __init__(
        self, settings: ControllerSettings, clock: SystemClock, api: KubeApi, *, notice: Callable[[str, str], None]
    ) -> None:
        self._notice = notice
        self._delegation = Delegation(api)
        self._folder = Path(settings.external_metrics_certificate)
        self._server = TlsServer(address=settings.health_address, port=settings.external_metrics_port)
        secrets = KubeSecrets(api, boottime=clock.boottime, keep=SECRETS_SECONDS)
        self._depths = DepthsOnDemand(
            OneQueue(api, boottime=clock.boottime).read,
            SurveyedDatabases(secrets.read, boottime=clock.boottime),
            clock=clock,
            namespaces=settings.namespaces,
        )
        self._goes_by: tuple[FrontProxy, Identity] | None = None
        self._trouble = "nothing was read yet"

    async def run(self) -> NoReturn:
        """For ever."""
        while True:
            try:
                await self._renew()
                self._trouble = ""
            except SoloistError as error:
                self._tell(str(error))
            await asyncio.sleep(AGAIN_SECONDS if self._trouble else ANEW_SECONDS)

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            so = "are not served" if self._goes_by is None else "are served by what was read earlier"
            _log.warning("external metrics", extra={"sentence": trouble})
            self._notice("ExternalMetricsUnavailable", f"External metrics {so}: {trouble}")
        self._trouble = trouble

    def is_served(self) -> tuple[bool, str]:
        """For the readiness probe."""
        return self._goes_by is not None, self._trouble or "served"

    async def close(self) -> None:
        await self._server.close()
        await self._depths.close()

    async def _renew(self) -> None:
        front = await self._delegation.front_proxy()
        identity = await asyncio.to_thread(Identity.read, self._folder)
        if (front, identity) == self._goes_by:
            return
        served = application(front, may=self._delegation.may, measure=self._depths.measure)
        await self._server.serve(served, identity, authority=front.authority)
        self._goes_by = front, identity
        _log.info("external metrics are served", extra={"names": front.names})
