"""What an API beside the API server asks of it: whom to believe, and whether somebody may.

Both are asked of the cluster and decided by it, so there are no users and no rights of our own. Whoever cannot be asked
about is refused.
"""

from collections.abc import Mapping
from typing import Any

from soloist.adapters.kube.api import KubeApi
from soloist.domain.errors import PermanentError
from soloist.domain.front_proxy import FrontProxy, NoFrontProxy, front_proxy

_CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Delegation:
    """Rights: manifests/rbac/external-metrics.yaml."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def front_proxy(self) -> FrontProxy:
        """As the cluster has it now; ``SoloistError`` with a sentence where it cannot be had."""
        found = await self._api.request("GET", _CONFIG)
        try:
            return front_proxy(found.get("data") or {})
        except NoFrontProxy as error:
            raise PermanentError(str(error)) from error

    async def may(self, review: Mapping[str, Any]) -> bool:
        """What the cluster answers to a SubjectAccessReview. ``SoloistError`` where it does not."""
        answer = await self._api.request("POST", _REVIEWS, review)
        status = answer.get("status") or {}
        return status.get("allowed") is True and not status.get("denied")
