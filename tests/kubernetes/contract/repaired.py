"""A kube-apiserver that does not die of maps: a copy in which one function is another one.

kube-apiserver 1.20 brings a JSON library that reads maps as Go laid them out before 1.18. Built with a later Go, it
reads memory that is not the map's, and dies, when it writes the annotation for its audit log after a webhook has
patched something, and when it reads the metadata of a custom resource. In the copy, that library's `Marshal` jumps to
the one of Go's standard library, with which it promises to agree. Everything else is the server's own code.
"""

from __future__ import annotations

import atexit
import mmap
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

BROKEN = "k8s.io/kubernetes/vendor/github.com/json-iterator/go.(*frozenConfig).Marshal"
STANDARD = "encoding/json.Marshal"
MAGICS = (0xFFFFFFF0, 0xFFFFFFF1)
"""Of tables of functions since Go 1.18."""
MOVES = bytes.fromhex("4889d8 4889cb")
"""Registers of the second and third argument become those of the first and second: there is no receiver."""


@cache
def repaired(server: Path) -> Path:
    """The copy; `server` itself if it is not in need of one."""
    with server.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
        found = _functions(program, (BROKEN, STANDARD))
        if len(found) < 2:
            return server
        (address, offset), (target, _) = found[BROKEN], found[STANDARD]
    folder = Path(tempfile.mkdtemp(prefix="kube-apiserver-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / server.name
    shutil.copy(server, copy)
    after = address + len(MOVES) + 5
    with copy.open("r+b") as made:
        made.seek(offset)
        made.write(MOVES + b"\xe9" + struct.pack("<i", target - after))
    return copy


def _functions(program: mmap.mmap, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Address, and offset in the file, of each function that there is. None of an older Go, or another processor."""
    sections = _sections(program)
    if ".gopclntab" not in sections:
        return {}
    _, table = sections[".gopclntab"]
    if struct.unpack_from("<I", program, table)[0] not in MAGICS:
        return {}
    count, _, text, funcname, _, _, _, funcs = struct.unpack_from("<8Q", program, table + 8)
    wanted = {}
    for name in names:
        at = program.find(b"\0" + name.encode() + b"\0", table + funcname)
        wanted[at + 1 - table - funcname] = name
    text_address, text_offset = sections[".text"]
    entries = struct.unpack_from(f"<{2 * count}I", program, table + funcs)
    found = {}
    for number in range(count):
        entry, name_at = struct.unpack_from("<Ii", program, table + funcs + entries[2 * number + 1])
        if name_at in wanted:
            found[wanted[name_at]] = text + entry, text + entry - text_address + text_offset
    return found


def _sections(program: mmap.mmap) -> Mapping[str, tuple[int, int]]:
    """Address and offset by name, of a program for x86-64."""
    return dict(_each_section(program)) if program[:6] == b"\x7fELF\x02\x01" and program[18:20] == b"\x3e\0" else {}


def _each_section(program: mmap.mmap) -> Iterator[tuple[str, tuple[int, int]]]:
    (start,) = struct.unpack_from("<Q", program, 0x28)
    size, count, names = struct.unpack_from("<3H", program, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", program, start + number * size) for number in range(count)]
    names_at = heads[names][4]
    for name, _, _, address, offset, _ in heads:
        end = program.find(b"\0", names_at + name)
        yield program[names_at + name : end].decode(), (address, offset)
