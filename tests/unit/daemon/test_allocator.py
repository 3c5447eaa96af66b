"""Arenas of the C library's allocator, counted in a process of their own: they cannot be taken back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from schedulerd.daemon.allocator import ARENAS_MAX

MANY_THREADS_ALLOCATE = """
import ctypes, sys, threading
from schedulerd.daemon.allocator import share_arenas
if "shared" in sys.argv:
    assert share_arenas()
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


def arenas(*arguments: str) -> int:
    command = [sys.executable, "-c", MANY_THREADS_ALLOCATE, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_threads_share_arenas() -> None:
    assert arenas() > ARENAS_MAX
    assert arenas("shared") == ARENAS_MAX
