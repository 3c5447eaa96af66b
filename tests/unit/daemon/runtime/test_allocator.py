"""The C library's allocator, in a process of its own: what is set there cannot be taken back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from schedulerd.daemon.runtime.allocator import ARENAS_MAX

MANY_THREADS_ALLOCATE = """
import ctypes, sys, threading
from schedulerd.daemon.runtime.allocator import hold_little
if "shared" in sys.argv:
    assert hold_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.fopen.restype, libc.fopen.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_char_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
together = threading.Barrier(12)
def allocate():
    together.wait()
    held = libc.malloc(5_000)
    together.wait()
    libc.free(held)
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, out)
libc.fflush(out)
"""


LARGE_BLOCKS_COME_AND_GO = """
import ctypes, os, pathlib, sys
from schedulerd.daemon.runtime.allocator import hold_little
if "little" in sys.argv:
    assert hold_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def a_block(size):
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    return block
libc.free(a_block(30 << 20))
before, held = resident(), []
for _ in range(20):
    block = a_block(4 << 20)
    held.append(a_block(1_000))
    held.append(block)
for block in held[1::2]:
    libc.free(block)
print((resident() - before) >> 20)
"""
GLIBC_ONLY = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other allocators")


def output(program: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    ).stdout


@GLIBC_ONLY
def test_threads_share_arenas() -> None:
    assert output(MANY_THREADS_ALLOCATE).count("<heap nr=") > ARENAS_MAX
    assert output(MANY_THREADS_ALLOCATE, "shared").count("<heap nr=") == ARENAS_MAX


@GLIBC_ONLY
def test_large_blocks_go_back_to_the_system_whatever_stands_beside_them() -> None:
    assert int(output(LARGE_BLOCKS_COME_AND_GO)) > 70
    assert int(output(LARGE_BLOCKS_COME_AND_GO, "little")) < 2
