"""Blocks of bytes in a file, each with its length and checksums, so that a file that ends anywhere can be read so far.

A file is `MAGIC` and then blocks. A crash leaves a file that is too short, or one whose end is zeros because its length
reached the disk before its content: that is a torn tail, which is no damage. Anything else that is not as it was
written is damage, and never passed over.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import SEEK_END
from typing import BinaryIO

MAGIC = b"schedulerd journal\n"

_FRAME = struct.Struct(">III")
"""Length of the content, its CRC-32, and the CRC-32 of these two: a length that is wrong is never believed."""
FRAME_BYTES = _FRAME.size

_PART_BYTES = 1024 * 1024


class TornTail(Exception):
    """The bytes from `offset` on are no whole block, as a crash leaves them."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"torn from offset {offset} on")
        self.offset = offset


class Damaged(ValueError):
    """A block is not as it was written."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"damaged at offset {offset}: {what}")
        self.offset = offset


def block(content: bytes) -> bytes:
    """The content with its frame."""
    numbers = struct.pack(">II", len(content), zlib.crc32(content))
    return numbers + struct.pack(">I", zlib.crc32(numbers)) + content


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """The contents of all blocks of a file, from its beginning.

    Raises `TornTail` or `Damaged` at bytes that are not a block.
    """
    size = file.seek(0, SEEK_END)
    file.seek(0)
    magic = file.read(len(MAGIC))
    if magic != MAGIC[: len(magic)]:
        raise Damaged(0, "this is no journal of schedulerd")
    if len(magic) < len(MAGIC):
        raise TornTail(0)
    while (start := file.tell()) < size:
        frame = file.read(FRAME_BYTES)
        if len(frame) < FRAME_BYTES:
            raise TornTail(start)
        length, checksum, frame_checksum = _FRAME.unpack(frame)
        if zlib.crc32(frame[:-4]) != frame_checksum:
            raise _torn_or_damaged(file, start, start, "the frame of a block has another checksum")
        if start + FRAME_BYTES + length > size:
            raise TornTail(start)
        content = file.read(length)
        if zlib.crc32(content) != checksum:
            raise _torn_or_damaged(file, start, file.tell(), "the content of a block has another checksum")
        yield content


def _torn_or_damaged(file: BinaryIO, start: int, rest: int, what: str) -> TornTail | Damaged:
    """Torn if nothing but zeros was written from `rest` on."""
    file.seek(rest)
    while part := file.read(_PART_BYTES):
        if part.count(0) < len(part):
            return Damaged(start, what)
    return TornTail(start)
