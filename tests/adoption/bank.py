"""A bank that numbers its payments, and tells whoever asks of those after a number, a few at a time."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

PAGE = 5


class Bank:
    """`with Bank() as bank:` … GET bank.url?after=N; from `open()` to `close()` a payment comes every `EVERY` seconds, if those
    who ask are not far behind: on a slow machine there are fewer, and no backlog is left in the end."""

    EVERY = 0.04

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.known = self._asked = 0
        self._closed = threading.Event()
        self._paying = threading.Thread(target=self._pay, name="bank", daemon=True)
        bank = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                after = int(self.path.partition("after=")[2])
                bank._asked = max(bank._asked, after)
                numbers = range(after + 1, min(after + PAGE, bank.known) + 1)
                body = json.dumps([{"number": n, "invoiceId": n, "cents": 100 * n} for n in numbers]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """Whoever asked was killed."""

        self._server = Server((address, 0), Answers)
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_address[1]}/payments"

    def open(self) -> None:
        self._paying.start()

    def close(self) -> None:
        """No further payment comes; `known` is the last one's number."""
        self._closed.set()
        self._paying.join(10)

    def _pay(self) -> None:
        while not self._closed.is_set():
            if self.known < self._asked + 2 * PAGE:
                self.known += 1
            time.sleep(self.EVERY)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
