"""Whether the API server serves a kind of ours at all. kopf would wait for ever, saying nothing, for one that it does not."""

from soloist.adapters.kube.answers import NotFound
from soloist.adapters.kube.api import KubeApi
from soloist.adapters.kube.config import Access
from soloist.adapters.kube.store import GROUP, VERSION
from soloist.domain.errors import PermanentError


async def check_served(access: Access, plural: str) -> None:
    """Raises ``PermanentError`` with what to do where it is not."""
    missing = PermanentError(f"the API server serves no {plural}.{GROUP}/{VERSION}: apply the CRDs of this version.")
    api = KubeApi(access, connections=1)
    try:
        found = await api.request("GET", f"/apis/{GROUP}/{VERSION}")
    except NotFound as error:
        raise missing from error
    finally:
        await api.close()
    if not any(resource.get("name") == plural for resource in found.get("resources", ())):
        raise missing
