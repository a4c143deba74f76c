"""What a Pod says of itself: one annotation, and nothing else of it is read or written."""

from collections.abc import Awaitable, Callable

from soloist.adapters.kube.api import MERGE_PATCH, KubeApi
from soloist.adapters.kube.store import collection
from soloist.domain.deletion_cost import ANNOTATION


def cost_writer(api: KubeApi, *, namespace: str, pod: str) -> Callable[[int], Awaitable[None]]:
    """Puts a deletion cost on that Pod. Rights: manifests/rbac/deletion-cost.yaml."""
    path = collection("/api/v1", "pods", namespace, pod)

    async def write(cost: int) -> None:
        await api.request(
            "PATCH", path, {"metadata": {"annotations": {ANNOTATION: str(cost)}}}, content_type=MERGE_PATCH
        )

    return write
