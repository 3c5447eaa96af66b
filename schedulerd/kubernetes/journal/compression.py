"""Compression of blocks: one event of a pod is like the last one, but most blocks of a quiet cluster have only one.

So a block is compressed with the end of the text before it as its dictionary. All blocks are read in order anyway.
"""

from __future__ import annotations

import zlib

_LEVEL = 1
"""The fastest."""
_DICTIONARY_BYTES = 32 * 1024
"""How far back deflate can refer."""
TEXT_BYTES_MAX = 512 << 20
"""Of one block when it is read: ten times the report of 50,000 pods. Compressed, a gigabyte may be one megabyte."""


class Deflater:
    def __init__(self) -> None:
        self._before = b""

    def compress(self, text: bytes) -> bytes:
        compressor = zlib.compressobj(_LEVEL, zdict=self._before)
        self._before = _tail(self._before, text)
        return compressor.compress(text) + compressor.flush()

    @staticmethod
    def compress_alone(text: bytes) -> bytes:
        """Can be read whatever was read before, so also if a block before it could not be written."""
        return zlib.compress(text, _LEVEL)


class Inflater:
    """Has to get all blocks of a journal in order."""

    def __init__(self) -> None:
        self._before = b""

    def decompress(self, content: bytes) -> bytes:
        """Raises `ValueError` if it is not what was compressed."""
        decompressor = zlib.decompressobj(zdict=self._before)
        try:
            text = decompressor.decompress(content, TEXT_BYTES_MAX)
        except zlib.error as error:
            raise ValueError(f"a block cannot be decompressed: {error}") from error
        if decompressor.unconsumed_tail:
            raise ValueError(f"a block is longer than {TEXT_BYTES_MAX} bytes")
        if not decompressor.eof or decompressor.unused_data:
            raise ValueError("a block is not the whole of something compressed")
        self._before = _tail(self._before, text)
        return text


def _tail(before: bytes, text: bytes) -> bytes:
    if len(text) >= _DICTIONARY_BYTES:
        return text[-_DICTIONARY_BYTES:]
    return (before + text)[-_DICTIONARY_BYTES:]
