"""What is no regular file, or too large, is not read, and nothing waits for it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from schedulerd.config.files import FileUnusable, read_file, read_text_file


def refusal(path: Path, bytes_max: int = 100) -> str:
    with pytest.raises(FileUnusable) as unusable:
        read_file(path, bytes_max)
    return str(unusable.value)


def test_a_regular_file_is_read_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link") == b"content"
    assert read_text_file(tmp_path / "link") == "content"


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo") == "cannot be read: it is a FIFO; it must be a regular file"


def test_a_fifo_with_a_writer_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    both = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(both, b"partitions: []")
    assert "it is a FIFO" in refusal(tmp_path / "fifo")
    os.close(both)


def test_a_directory_a_socket_and_a_device_are_not_read(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "cannot be read: it is a directory; it must be a regular file"
    assert refusal(Path("/dev/zero")) == "cannot be read: it is a device; it must be a regular file"
    assert refusal(Path("/dev/tty")).startswith("cannot be read: ")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert refusal(tmp_path / "socket").startswith("cannot be read: ")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_file(file, 100) == b"x" * 100
    os.truncate(file, 3 * 2**30)
    assert refusal(file) == f"cannot be read: it has {3 * 2**30} bytes; at most 100 are allowed"


def test_a_file_that_says_it_is_empty_is_not_read_beyond_the_bound() -> None:
    """Files of /proc have a size of 0."""
    assert refusal(Path("/proc/self/smaps")) == "cannot be read: it has more than 100 bytes; at most 100 are allowed"
    assert read_file(Path("/proc/self/comm"))


def test_what_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == "cannot be read: No such file or directory"
    assert refusal(tmp_path / "a\0b") == "cannot be read: embedded null byte"
    (tmp_path / "file").write_bytes(b"ab\xff")
    with pytest.raises(FileUnusable, match=r"^cannot be read: byte 2 is not UTF-8$"):
        read_text_file(tmp_path / "file")


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 101)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, tmp_path / "file", Path("/dev/zero"), Path("/proc/self/smaps")):
        refusal(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
