"""A Lease behind the smallest API server there is: one object, uid and resourceVersion as preconditions, a bearer token.

``tests/contracts/test_lease.py`` holds it to what the real one does.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
ABSENT = {"kind": "Status", "reason": "NotFound", "details": {"kind": "leases", "name": "soloist"}, "code": 404}


class LeaseServer:
    """``on_request(method)`` is called before each answer and may return a status to give instead. ``lease`` {}: there is none."""

    def __init__(self, *, token: str = "open sesame") -> None:
        self.token = token
        self.requests: list[str] = []
        self._version = 7
        self.on_request: Callable[[str], int | None] = lambda _method: None
        self.lease: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "namespace": "ns",
                "name": "soloist",
                "uid": "lease-uid",
                "resourceVersion": "7",
                "labels": {"kept": "yes"},
                "annotations": {"soloist.dev/nonce": "n1", "soloist.dev/epoch": "5"},
            },
            "spec": {
                "holderIdentity": "pod/1",
                "leaseDurationSeconds": 10,
                "leaseTransitions": 3,
                "renewTime": "2031-01-01T00:00:00.000000Z",
            },
        }
        outer = self

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append(self.command)
                status, reply = outer._answer(self.command, self.path, self.headers.get("Authorization"), body)
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = answer  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def _answer(self, method: str, path: str, authorization: str | None, body: bytes) -> tuple[int, Any]:
        if (instead := self.on_request(method)) is not None:
            return instead, {}
        if authorization != f"Bearer {self.token}":
            return 401, {}
        if (method, path) == ("POST", LEASES):
            return self._create(json.loads(body))
        if path != f"{LEASES}/soloist" or not self.lease:
            return 404, ABSENT
        if method == "PUT":
            new = json.loads(body)
            if any(new["metadata"][name] != self.lease["metadata"][name] for name in ("uid", "resourceVersion")):
                return 409, {}
            self.write(new)
        return 200, self.lease

    def _create(self, lease: dict[str, Any]) -> tuple[int, Any]:
        if self.lease:
            return 409, {}
        lease["metadata"]["uid"] = "lease-uid"
        self.write(lease)
        return 201, self.lease

    def write(self, lease: dict[str, Any]) -> None:
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.lease = lease

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"
