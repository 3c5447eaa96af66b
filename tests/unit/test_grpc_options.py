"""The options of gRPC that the code sets are those that the library knows: it ignores others in silence."""

from __future__ import annotations

import re
from pathlib import Path

import grpc

PACKAGE = Path(__file__).parents[2] / "schedulerd"
OPTION = re.compile(r'"(grpc\.[a-z0-9_.]+)"')


def test_every_option_is_known_to_the_library() -> None:
    used = {
        name
        for path in PACKAGE.rglob("*.py")
        if "_generated" not in path.parts
        for name in OPTION.findall(path.read_text(encoding="utf-8"))
        if not name.startswith("grpc.health.") and not name.startswith("grpc.reflection.")
    }
    assert {"grpc.keepalive_time_ms", "grpc.http2.min_ping_interval_without_data_ms"} <= used
    (file,) = (Path(grpc.__file__).parent / "_cython").glob("cygrpc.*.so")
    library = file.read_bytes()
    assert sorted(name for name in used if name.encode() + b"\0" not in library) == []
