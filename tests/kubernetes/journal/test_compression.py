"""Blocks are read as they were written, in their order and in no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.kubernetes.journal import compression
from schedulerd.kubernetes.journal.compression import Deflater, Inflater


@given(st.lists(st.binary(max_size=50) | st.integers(1, 50_000).map(lambda size: b"x" * size), max_size=8))
def test_blocks_are_read_as_they_were_written(texts: list[bytes]) -> None:
    deflater, inflater = Deflater(), Inflater()
    assert [inflater.decompress(deflater.compress(text)) for text in texts] == texts


def test_a_block_that_is_like_the_one_before_is_short() -> None:
    deflater = Deflater()
    text = bytes(range(256)) * 4
    first, second = deflater.compress(text), deflater.compress(text)
    assert len(second) < 50 < len(first)


def test_the_last_block_can_be_read_though_the_one_before_is_missing() -> None:
    deflater, inflater = Deflater(), Inflater()
    first, _, last = deflater.compress(b"one"), deflater.compress(b"lost"), deflater.compress_alone(b"the end")
    assert [inflater.decompress(one) for one in (first, last)] == [b"one", b"the end"]


def test_a_block_is_not_read_without_those_before_it() -> None:
    deflater = Deflater()
    deflater.compress(b"one")
    second = deflater.compress(b"two")
    with pytest.raises(ValueError, match="cannot be decompressed"):
        Inflater().decompress(second)


def test_a_block_that_becomes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a stranger could fill the memory: 512 MB may be half a MB when compressed."""
    monkeypatch.setattr(compression, "TEXT_BYTES_MAX", 1_000)
    assert Inflater().decompress(Deflater().compress(b"x" * 999)) == b"x" * 999
    with pytest.raises(ValueError, match="longer than 1000 bytes"):
        Inflater().decompress(Deflater().compress(b"x" * 100_000))
