"""The leader's care for WorkQueues, wired. Its Secrets are kept for longer than those of a run: they are read all the time."""

from collections.abc import Callable

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.answers import Refusal
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.queue_status import KubeQueueStatuses
from soloist.adapters.kube.queue_watch import QueueWatch
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.domain.term import Term
from soloist.loops.queue_care_ports import QueueDatabases
from soloist.loops.queue_watching import QueueWatching
from soloist.ports import Recorder, Report
from soloist.shells.delivery_keys import DeliveryKeys
from soloist.shells.health import Check
from soloist.shells.later import LaterDatabases
from soloist.shells.queue_standing import StandingMetrics, StandingReporter
from soloist.shells.settings import ControllerSettings
from soloist.shells.telemetry import Metrics

SECRETS_SECONDS = 30.0


def queue_care(
    settings: ControllerSettings,
    clock: SystemClock,
    api: KubeApi,
    metrics: Metrics,
    *,
    report: Report,
    recorder: Recorder,
    term: Callable[[], Term | None],
    refused: Callable[[str], None],
) -> tuple[QueueWatching, Check]:
    """To be run from the beginning of a term on, and what /readyz says of it. ``refused`` is told why WorkQueues may not be read."""
    secrets = KubeSecrets(api, boottime=clock.boottime, keep=SECRETS_SECONDS)
    standing = StandingMetrics(metrics.registry)

    def made() -> QueueDatabases:
        from soloist.adapters.postgres.queue_databases import SurveyedDatabases

        return SurveyedDatabases(secrets.read, boottime=clock.boottime)

    watch = QueueWatch(api, boottime=clock.boottime, namespaces=settings.namespaces, refused=refused)
    care = QueueWatching(
        objects=watch,
        databases=LaterDatabases(made),
        keys=DeliveryKeys(secrets.read, forbidden=Refusal),
        statuses=KubeQueueStatuses(api),
        report=StandingReporter(standing, report, recorder if settings.events else None),
        clock=clock,
        term=term,
        every=settings.measure_queues,
    )
    # A controller is ready all the same: jobs need none of them.
    return care, lambda: (True, str(watch.trouble or "the leader follows them"))
