"""The setting `rm_identities`: which client names may use which rmIDs.

A name with a kind (`uri:spiffe://cluster/shim`) matches certificate names of that kind. Without a kind, a name with
`://` matches URIs only, and any other name matches common names and DNS names only (SEMANTICS I23).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

EVERYTHING = "*"
"""As a name: every client; as an rmID: every one of them; at the end of one: all that begin like this."""


class NameKind(StrEnum):
    """Kinds of names in a certificate: the common name, and the kinds of subject alternative names."""

    CN = "cn"
    DNS = "dns"
    URI = "uri"
    EMAIL = "email"
    IP = "ip"


NAME_KINDS = frozenset(NameKind)
DEFAULT_NAME_KINDS = (NameKind.CN, NameKind.DNS, NameKind.URI)

_HOW = "must be NAME=RMID pairs with commas between them, like shim=rm-a,shim=rm-b*,ops=*"


def _read(value: object) -> object:
    """Converts NAME=RMID pairs of a flag or environment variable to a mapping; a mapping of the file stays as it is.

    A name with several rmIDs is repeated in the pairs.
    """
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


def names_meant(entry: str) -> list[tuple[NameKind, str]]:
    """The names of certificates that an entry stands for, each with its kind. Raises `ValueError` for no IP address."""
    prefix, colon, text = entry.partition(":")
    if colon and prefix in NAME_KINDS:
        kind = NameKind(prefix)
        return [(kind, str(ipaddress.ip_address(text)) if kind is NameKind.IP else text)]
    if "://" in entry:
        return [(NameKind.URI, entry)]
    return [(NameKind.CN, entry), (NameKind.DNS, entry)]


def _name(entry: str) -> str:
    if entry == EVERYTHING:
        return entry
    for _, text in names_meant(entry):
        if not text:
            raise ValueError("the name is empty; it must be a name in the client's certificate, or * for every client")
        if EVERYTHING in text or not text.isprintable():
            raise ValueError(
                f"the name {entry!r} has a * or a character that cannot be printed; it must be the whole name as it "
                "is in the client's certificate, and * alone stands for every client"
            )
    return entry


def _kinds(value: object) -> object:
    """Converts kinds with commas (flag, environment) to a list; a list of the file stays as it is."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


def _some_kinds(kinds: tuple[NameKind, ...]) -> tuple[NameKind, ...]:
    if not kinds:
        raise ValueError(f"must name at least one of {', '.join(NameKind)}")
    return kinds


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


NameKinds = Annotated[tuple[NameKind, ...], BeforeValidator(_kinds), AfterValidator(_some_kinds)]
ClientName = Annotated[str, AfterValidator(_name)]
RmIdPattern = Annotated[str, AfterValidator(_rm_id)]
RmIdPatterns = Annotated[tuple[RmIdPattern, ...], AfterValidator(_some)]
RmIdentities = Annotated[dict[ClientName, RmIdPatterns], BeforeValidator(_read)]
"""The rmIDs that a client with a name may use, by that name."""
