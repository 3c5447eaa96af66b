"""1.4 -> head: an answer of 1.4 as head would give it, as far as that is known (FACTS of the recordings, part 6)."""

from __future__ import annotations

from tests.rest.compare import Json


def to_head(
    path: str, status: int, headers: dict[str, str], body: Json, ours: Json
) -> tuple[int, dict[str, str], Json, Json]:
    raise NotImplementedError
