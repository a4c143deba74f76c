"""A receiver that costs as little as one in Python can: it reads each request to its end, answers 200, and counts.

`python sink.py FILE` writes its port into FILE. It keeps connections, as servers do. A GET asks it for the count so far.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Sink(asyncio.Protocol):
    """One connection; ``served`` is of all of them."""

    served = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.read = transport, bytearray()

    def data_received(self, data: bytes) -> None:
        self.read += data
        while (end := self.read.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.read[:end]).lower()
            _, named, length = head.partition(b"\r\ncontent-length:")
            size = int(length.split(b"\r\n", 1)[0]) if named else 0
            if len(self.read) < end + 4 + size:
                return
            del self.read[: end + 4 + size]
            if head.startswith(b"get "):
                body = json.dumps(Sink.served).encode()
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                continue
            Sink.served += 1
            self.transport.write(OK)


async def main(file: Path) -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0, backlog=4096)
    half = file.with_suffix(".new")
    half.write_text(str(server.sockets[0].getsockname()[1]))
    half.rename(file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
