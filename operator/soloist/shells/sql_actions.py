"""The launcher of sql and enqueue actions, wired. An installation is known to a database by its cluster and its Lease."""

from collections.abc import Callable

from soloist.adapters.clock import SystemClock
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.cluster_uid import ClusterUid
from soloist.adapters.kube.one_queue import OneQueue
from soloist.adapters.kube.secrets import KubeSecrets
from soloist.shells.later import ClosingLauncher, LaterLauncher
from soloist.shells.own_pod import pod_name
from soloist.shells.settings import ControllerSettings


def sql_launcher(
    settings: ControllerSettings,
    clock: SystemClock,
    api: KubeApi,
    keys: KubeSecrets,
    *,
    trusted: Callable[[], bool],
    stage: Callable[[str], None],
) -> LaterLauncher:
    """To be closed in the loop that it was used in."""
    cluster = ClusterUid(api)

    async def shard() -> str:
        return f"{await cluster.read()}/{settings.lease_namespace}/{settings.lease_name}"

    def made() -> ClosingLauncher:
        from soloist.adapters.postgres.ledgers import Ledgers
        from soloist.adapters.postgres.transactions import SqlLauncher

        ledgers = Ledgers(
            read_key=keys.read,
            find_queue=OneQueue(api, boottime=clock.boottime).read,
            shard=shard,
            holder=pod_name(),
            boottime=clock.boottime,
        )
        return SqlLauncher(ledgers, trusted=trusted, stage=stage)

    return LaterLauncher(made)
