"""TensorBoard's event files, scalars only: records of a length, an Event message, and checksums of both.

The packages that write them are not used: they keep a thread and an exit handler, which answer a full disk with
tracebacks.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from pathlib import Path

from vergence.core.errors import VergenceError
from vergence.core.files import make_folder, open_plain


class EventFile:
    """One event file in a folder; every scalar is on disk when the call returns."""

    def __init__(self, folder: Path, purge_step: int = 0) -> None:
        """Values at and after ``purge_step`` in earlier files of the folder no longer count, if it is above 0."""
        self.path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        make_folder(folder)
        self.file = open_plain(self.path, "a+b", buffering=0)
        self._write(_event(0, _field(3, b"brain.Event:2")))
        if purge_step:
            self._write(_event(purge_step, _field(7, _field(1, 1))))  # a session starts here

    def add(self, tag: str, value: float, step: int) -> None:
        """One scalar."""
        named = _field(1, tag.encode()) + _tag(2, 5) + _float(value)
        self._write(_event(step, _field(5, _field(1, named))))

    def close(self) -> None:
        self.file.close()

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        record = length + struct.pack("<I", _masked(length)) + event + struct.pack("<I", _masked(event))
        try:
            self.file.write(record)
        except OSError as error:
            raise VergenceError(f"cannot write {self.path}: {error.strerror or error}") from error


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # more than a float32 holds
        return struct.pack("<f", math.copysign(math.inf, value))


def _event(step: int, what: bytes) -> bytes:
    return _tag(1, 1) + struct.pack("<d", time.time()) + _field(2, step) + what


# The wire format of protocol buffers: a number for field and kind, then a number, or a length and bytes.


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _tag(number, 0) + _varint(value)
    return _tag(number, 2) + _varint(len(value)) + value


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
