"""Who may speak for which resource manager, as it is written in the settings: names of clients, each with rmIDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

EVERYTHING = "*"
"""As a name: every client; as an rmID: every one of them; at the end of one: all that begin like this."""

_HOW = "must be NAME=RMID pairs with commas between them, like shim=rm-a,shim=rm-b*,ops=*"


def _read(value: object) -> object:
    """Pairs as flags and environment give them, a name as often as it has rmIDs; a mapping, as the file gives it."""
    if isinstance(value, str):
        return _joined(value)
    if isinstance(value, Mapping):
        return {name: (rm_ids,) if isinstance(rm_ids, str) else rm_ids for name, rm_ids in value.items()}
    return value


def _joined(text: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for name, rm_id in _pairs(text):
        found.setdefault(name, []).append(rm_id)
    return found


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        name, sign, rm_id = pair.partition("=")
        if not sign:
            raise ValueError(_HOW)
        yield name.strip(), rm_id.strip()


def _name(name: str) -> str:
    if not name:
        raise ValueError(
            "an empty name is nobody's; it must be a name in the client's certificate, or * for every client"
        )
    return name


def _rm_id(rm_id: str) -> str:
    if not rm_id:
        raise ValueError("an rmID is empty; it must be an rmID, the beginning of some with * behind it, or * for all")
    if EVERYTHING in rm_id[:-1]:
        raise ValueError(f"the rmID {rm_id!r} has a * that is not at its end; only there it stands for the rest of it")
    return rm_id


def _some(rm_ids: tuple[str, ...]) -> tuple[str, ...]:
    if not rm_ids:
        raise ValueError("must name at least one rmID")
    return rm_ids


ClientName = Annotated[str, AfterValidator(_name)]
RmIdPattern = Annotated[str, AfterValidator(_rm_id)]
RmIdPatterns = Annotated[tuple[RmIdPattern, ...], AfterValidator(_some)]
RmIdentities = Annotated[dict[ClientName, RmIdPatterns], BeforeValidator(_read)]
"""The rmIDs that a client with a name may use, by that name."""
