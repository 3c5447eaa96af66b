"""Blocks, and files that do not end where they should."""

from __future__ import annotations

from io import BytesIO

import pytest

from schedulerd.journal_files.blocks import FRAME_BYTES, MAGIC, Damaged, TornTail, block, blocks
from tests.loops import each_row

CONTENTS = [b"first", b"", b"third " * 50]
FILE = MAGIC + b"".join(map(block, CONTENTS))
STARTS = [len(MAGIC), len(MAGIC) + len(block(b"first")), len(MAGIC) + len(block(b"first")) + FRAME_BYTES]


def read(data: bytes) -> tuple[list[bytes], Exception | None]:
    """The blocks, and what stopped the reading."""
    found = []
    try:
        for content in blocks(BytesIO(data)):
            found.append(content)
    except (TornTail, Damaged) as stopped:
        return found, stopped
    return found, None


def test_a_file_is_its_blocks() -> None:
    assert read(FILE) == (CONTENTS, None)


@each_row("length", range(len(FILE)))
def test_a_file_that_was_cut_anywhere_is_the_blocks_that_are_whole(length: int) -> None:
    found, stopped = read(FILE[:length])
    ends = [*STARTS[1:], len(FILE)]
    assert found == CONTENTS[: sum(length >= end for end in ends)]
    if length in STARTS:
        assert stopped is None
    else:
        assert isinstance(stopped, TornTail)
        assert stopped.offset == max((start for start in (0, *STARTS) if start <= length), default=0)


@pytest.mark.parametrize("zeros", [1, FRAME_BYTES, 4096])
def test_zeros_at_the_end_are_a_torn_tail(zeros: int) -> None:
    found, stopped = read(FILE + bytes(zeros))
    assert found == CONTENTS
    assert isinstance(stopped, TornTail)
    assert stopped.offset == len(FILE)


@pytest.mark.parametrize("lost", [1, 100])
def test_a_last_block_whose_content_did_not_reach_the_disk_is_a_torn_tail(lost: int) -> None:
    found, stopped = read(FILE[:-lost] + bytes(lost))
    assert found == CONTENTS[:2]
    assert isinstance(stopped, TornTail)
    assert stopped.offset == STARTS[2]


@each_row("offset", range(len(MAGIC), STARTS[2]))
def test_a_byte_that_changed_before_the_last_block_is_damage(offset: int) -> None:
    changed = bytearray(FILE)
    changed[offset] ^= 0x10
    found, stopped = read(bytes(changed))
    assert isinstance(stopped, Damaged)
    assert stopped.offset in STARTS
    assert f"offset {stopped.offset}" in str(stopped)
    assert found == CONTENTS[: STARTS.index(stopped.offset)]


def test_another_file_is_no_journal() -> None:
    found, stopped = read(b"partitions: []\n")
    assert isinstance(stopped, Damaged)
    assert "no journal" in str(stopped)
    assert found == []
