"""A test's own way to the API server: raw paths and plain dicts, one connection for each request, no library between.

It is for arranging and observing. What is under test brings its own client.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Sequence
from email.message import Message
from pathlib import Path
from typing import Any

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class ApiError(Exception):
    """The API server refused. `status` is the HTTP status, `reason` the machine's word (NotFound, Forbidden, …)."""

    def __init__(self, method: str, path: str, status: int, answer: Any) -> None:
        self.status = status
        self.reason = answer.get("reason", "") if isinstance(answer, dict) else ""
        self.message = answer.get("message", "") if isinstance(answer, dict) else str(answer)
        super().__init__(f"{method} {path}: {status} {self.reason} {self.message}")


class ApiClient:
    """Speaks to one server as one user."""

    def __init__(self, *, port: int, ca: Path, token: str, timeout: float = 30.0) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(ca))
        self._token = token
        self._timeout = timeout

    def raw(
        self, method: str, path: str, body: bytes | None = None, media: str = "application/json"
    ) -> tuple[int, bytes]:
        """One request, whatever its status. Connection errors come through as they are (OSError)."""
        status, _, answer = self.exchange(method, path, body, media)
        return status, answer

    def exchange(
        self, method: str, path: str, body: bytes | None = None, media: str = "application/json"
    ) -> tuple[int, Message, bytes]:
        """The same with the headers of the answer."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=self._timeout)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "Content-Type": media}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except http.client.HTTPException as broken:
            raise ConnectionError(f"{method} {path}: {broken!r}") from broken
        finally:
            connection.close()

    def request(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        status, answer = self.raw(method, path, None if body is None else json.dumps(body).encode(), media)
        try:
            value = json.loads(answer)
        except ValueError:
            value = answer.decode(errors="replace")
        if status >= 400:
            raise ApiError(method, path, status, value)
        return value

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as refused:
            if refused.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Any]:
        found: list[Any] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Any) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Any, media: str = MERGE) -> Any:
        return self.request("PATCH", path, body, media)

    def replace(self, path: str, body: Any) -> Any:
        return self.request("PUT", path, body)

    def delete(self, path: str, body: Any = None) -> Any:
        return self.request("DELETE", path, body)

    def may(self, user: str, groups: Sequence[str] = (), **asked: str) -> bool:
        """Whether the server would let that user: group, resource, subresource, verb, namespace and name are what is asked for."""
        spec = {"user": user, "groups": [*groups], "resourceAttributes": asked}
        return bool(self.create(REVIEWS, {"spec": spec})["status"]["allowed"])
