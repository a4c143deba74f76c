"""What tells this cluster from every other: the uid of its namespace kube-system, which is as old as the cluster."""

from soloist.adapters.kube.api import KubeApi
from soloist.domain.errors import PermanentError


class ClusterUid:
    """Asked for once, when it is first needed."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._uid = ""

    async def read(self) -> str:
        """``SoloistError`` with a sentence where it cannot be had."""
        if not self._uid:
            try:
                found = await self._api.request("GET", "/api/v1/namespaces/kube-system")
            except PermanentError as error:
                remedy = "grant get on it, as manifests/rbac/controller.yaml does"
                raise PermanentError(
                    f"The namespace kube-system, by which a database knows this cluster, cannot be read ({error}): {remedy}."
                ) from error
            self._uid = str(found["metadata"]["uid"])
        return self._uid
