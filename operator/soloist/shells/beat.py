"""What the parent must know of its child's term, once the child is dead: a page of memory that both have.

The child writes the whole document at each renewal, before anything may act on that renewal; the parent reads it only
after it has seen the child dead. A child can die in the middle of a write, so two slots are written in turn, each under
a checksum, and the newest whole one counts. The memory is a memfd: it has no name, reaches no disk (the document may
carry a token), and ends with the two processes. Only the standard library's lightest modules, since the parent reads it.
"""

import json
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any

FD_VARIABLE = "SOLOIST_BEAT_FD"
SLOT = 256 * 1024
_HEADER = struct.Struct("<QII")  # number of the write, length, CRC-32 of number and text


def create() -> int:
    """A new, empty page; the descriptor is inherited by the next program that is started."""
    fd = os.memfd_create("soloist-beat", 0)
    os.ftruncate(fd, 2 * SLOT)
    return fd


def write(fd: int, number: int, document: Mapping[str, Any]) -> None:
    """Write number ``number`` (rising) of this page."""
    text = json.dumps(document, separators=(",", ":")).encode()
    if len(text) > SLOT - _HEADER.size:
        raise ValueError(f"the beat has {len(text)} bytes, more than the {SLOT} that fit")
    os.pwrite(fd, _HEADER.pack(number, len(text), _checksum(number, text)) + text, (number % 2) * SLOT)


def read(fd: int) -> dict[str, Any]:
    """The newest whole document; empty where there is none."""
    newest = max((_slot(fd, offset) for offset in (0, SLOT)), key=lambda slot: slot[0])
    document: dict[str, Any] = json.loads(newest[1])
    return document


def _slot(fd: int, offset: int) -> tuple[int, bytes]:
    number, length, checksum = _HEADER.unpack(os.pread(fd, _HEADER.size, offset))
    text = os.pread(fd, min(length, SLOT), offset + _HEADER.size)
    if number and len(text) == length and _checksum(number, text) == checksum:
        return number, text
    return 0, b"{}"


def _checksum(number: int, text: bytes) -> int:
    return zlib.crc32(text, number & 0xFFFFFFFF)
