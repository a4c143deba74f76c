"""The Lease and the holder's Pod on a real API server: raw dictionaries, and answers that are certain or no answers.

"There is no such Lease" ends a term, so only the API server's own words for that are taken for it: a 404 with a Status
that names this very Lease. What any box in between may say (a 404 page, an empty 200, half a JSON) is an error, to be
tried again.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from soloist.adapters.kube.answers import refusal_or_transient
from soloist.adapters.kube.bounded import BoundedClient, Reply
from soloist.domain.errors import PermanentError, TransientError
from soloist.domain.holder_pod import HolderPod
from soloist.domain.lease import Answer, Clash, Raw

_REJECTED = frozenset({401, 429})


class LeaseClient:
    """One Lease. Each call takes ``timeout`` seconds at the most."""

    def __init__(self, client: BoundedClient, *, namespace: str, name: str) -> None:
        self._client = client
        self._name = name
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._one = f"{self._all}/{name}"

    def read(self, *, timeout: float) -> Answer:
        """A consistent reading: no resourceVersion is asked for, so no cache answers."""
        reply = self._client.request("GET", self._one, timeout=timeout)
        if reply.status == 404 and self._is_absent(reply):
            return Answer(lease=None, server_time=_date(reply.headers))
        return self._answer("GET", reply)

    def create(self, body: Raw, *, timeout: float) -> Answer | Clash:
        """Create the Lease; another of its name is a ``Clash``."""
        reply = self._client.request("POST", self._all, body, timeout=timeout)
        return Clash() if reply.status == 409 else self._answer("POST", reply)

    def replace(self, body: Raw, *, timeout: float) -> Answer | Clash:
        """Write, if the Lease still has the resourceVersion and the uid that ``body`` has."""
        reply = self._client.request("PUT", self._one, body, timeout=timeout)
        gone = reply.status == 404 and self._is_absent(reply)
        return Clash() if reply.status == 409 or gone else self._answer("PUT", reply)

    def read_pod(self, pod_namespace: str, pod_name: str, *, timeout: float) -> Raw | None:
        """The Pod; None where it is gone, or nobody can say."""
        reply = self._client.request("GET", f"/api/v1/namespaces/{pod_namespace}/pods/{pod_name}", timeout=timeout)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise _refused("GET pod", reply)
        return _object("GET pod", reply)

    def close(self) -> None:
        """Shut its connections."""
        self._client.close()

    def _answer(self, verb: str, reply: Reply) -> Answer:
        doing = f"{verb} {self._one}"
        if reply.status not in (200, 201):
            raise _refused(doing, reply)
        lease = _object(doing, reply)
        found = lease.get("metadata")
        metadata = found if isinstance(found, dict) else {}
        whole = metadata.get("name") == self._name and metadata.get("uid") and metadata.get("resourceVersion")
        if lease.get("kind") != "Lease" or not whole:
            raise TransientError(f"{doing}: the answer is not this Lease")
        return Answer(lease=lease, server_time=_date(reply.headers))

    def _is_absent(self, reply: Reply) -> bool:
        try:
            said = _object("", reply)
        except TransientError:
            return False
        details = said.get("details")
        of_this = isinstance(details, dict) and (details.get("kind"), details.get("name")) == ("leases", self._name)
        return of_this and said.get("reason") == "NotFound"


def pod_watch_path(pod: HolderPod) -> str:
    """The path that watches one Pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods?watch=1&fieldSelector=metadata.name%3D{pod.name}"


def lease_watch_path(namespace: str, name: str) -> str:
    """The path that watches one Lease."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?watch=1&fieldSelector=metadata.name%3D{name}"


def _refused(doing: str, reply: Reply) -> TransientError | PermanentError:
    """A 4xx was not acted upon; a 404 or a redirect that is not the API server's own word is somebody in between."""
    error = refusal_or_transient(doing, reply.status, reply.body, reply.headers)
    if reply.status in _REJECTED:
        return TransientError(str(error), sent=False, retry_after=getattr(error, "retry_after", None))
    if reply.status < 400 or (reply.status == 404 and not _is_status(reply)):
        return TransientError(str(error))
    return error


def _is_status(reply: Reply) -> bool:
    try:
        return _object("", reply).get("kind") == "Status"
    except TransientError:
        return False


def _object(doing: str, reply: Reply) -> dict[str, Any]:
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise TransientError(f"{doing}: the answer is not JSON") from error
    if not isinstance(found, dict):
        raise TransientError(f"{doing}: the answer is not an object")
    return found


def _date(headers: Mapping[str, str]) -> datetime | None:
    text = next((value for key, value in headers.items() if key.lower() == "date"), None)
    try:
        moment = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None
