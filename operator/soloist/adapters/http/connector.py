"""aiohttp's connector, without its trust in receivers.

A connection that lay idle is used again only if its receiver has said nothing meanwhile. Whatever it said (a second answer, a
proxy's 408, what was left of a body longer than its Content-Length) would be taken for the answer to the next request: a row
that nobody has seen would count as done.

And a connection that is let go before its receiver has read all of the request is not used again, and cut after a while.
asyncio keeps the socket of a closed connection until all is written, and a receiver that reads nothing can have that last
for ever: whoever may write an address into a table could use up the sockets and the memory of the process. Not at once,
since one that answers early may still be reading.

Nor is a receiver listened to for as long as it speaks: interim answers (1xx) and answers to nothing are read in full, whether
or not anybody waits, so of one that sends them without end the connection is cut after some.
"""

import asyncio
import select
from collections import deque
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace

LINGER, MOST_LINGERING = 10.0, 64
"""Seconds for a receiver to read what it has answered already, and connections that are given them."""

MOST_ANSWERS = 32
"""To one request, most of them interim."""


class Connector(aiohttp.TCPConnector):
    """For the running loop."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._factory = cast("partial[ResponseHandler]", partial(_Listener, loop=self._loop))
        self._lingering: deque[asyncio.Transport] = deque()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """See aiohttp."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if not isinstance(protocol, _Listener) or protocol.transport is None:
                return connection
            if protocol.used_before and _has_spoken(protocol.transport):
                connection.close()
                continue
            protocol.used_before = True
            connection.add_callback(partial(self._let_go, protocol))
            return connection

    def _let_go(self, protocol: "_Listener") -> None:
        """The request is over, whatever came of it."""
        protocol.asked = False
        transport = protocol.transport
        if transport is None or not transport.get_write_buffer_size():
            return
        protocol.force_close()
        self._lingering.append(transport)
        if len(self._lingering) > MOST_LINGERING:
            self._lingering.popleft().abort()
        asyncio.get_running_loop().call_later(LINGER, transport.abort)


class _Listener(ResponseHandler):
    """One connection. ``asked``: a request is under way on it, so what comes is for somebody."""

    used_before = asked = False
    _answers = 0
    _body: StreamReader | None = None

    def set_response_params(self, **how: Any) -> None:
        """A request is about to be sent."""
        self.asked, self._answers, self._body = True, 0, None
        super().set_response_params(**how)

    def data_received(self, data: bytes) -> None:
        """A head apart from what comes with it: of a packet that breaks aiohttp's parser all is lost, the status too."""
        head, end, rest = data.partition(b"\r\n\r\n")
        for part in (head + end, rest):
            if part and self.asked:
                super().data_received(part)
            elif part:
                self._cut()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """One more status line has come, with its headers."""
        self._answers, self._body = self._answers + 1, data[1]
        if self.asked and self._answers <= MOST_ANSWERS:
            super().feed_data(data, size)
        else:
            self._cut()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Whoever reads the body is told as well, instead of waiting for the rest of it until the time is over."""
        super().set_exception(exc, *cause)
        if self._body is not None and not self._body.is_eof() and self._body.exception() is None:
            self._body.set_exception(aiohttp.ClientPayloadError("the rest of the body cannot be read"))

    def _cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _has_spoken(transport: asyncio.Transport) -> bool:
    """Whether something has come that the loop has not read yet, be it a good-bye."""
    polled = select.poll()
    polled.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(polled.poll(0))
