"""What all kinds of objects share: metadata, label selectors, references (Kubernetes API: meta/v1, core/v1)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`managedFields` is left out on purpose: it can be most of an object's bytes."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    """RFC 3339, whole seconds."""
    deletion_timestamp: str | None = None
    """RFC 3339; set as soon as the object is being deleted."""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class LabelSelectorRequirement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    """In, NotIn, Exists, DoesNotExist."""
    values: tuple[str, ...] | None = None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All parts are to be met: an empty selector matches everything. No selector at all (None) matches nothing."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class ObjectReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class NodeSelectorRequirement(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    """In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All requirements are to be met; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of the terms is to match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


@lru_cache(1024)
def epoch_seconds(timestamp: str | None) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 if there is none, or it cannot be read."""
    if not timestamp:
        return 0
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return 0


def micro_time(wall_s: float) -> str:
    """Seconds since the epoch as a MicroTime of the API."""
    seconds, micros = divmod(round(wall_s * 1_000_000), 1_000_000)
    return f"{_whole_second(seconds)}.{micros:06d}Z"


@lru_cache(8)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]
