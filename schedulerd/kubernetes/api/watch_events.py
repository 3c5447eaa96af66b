"""What a watch tells of the objects of one resource, after everything that has to do with connections is gone.

Every object is first told by `Upserted`; `Deleted` is told once for each object that was told and exists no longer,
also if the watch missed its end. `Synced` says that all objects of a complete list were told, and all deletions that
follow from it. After a gap in the watch the same comes again: differences, then another `Synced`.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec


class Metadata(Protocol):
    """What every decoded object has to know of itself; the empty text for what it has not."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class KubernetesObject(Protocol):
    @property
    def metadata(self) -> Metadata: ...


ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class Upserted(msgspec.Struct, Generic[ObjectT], frozen=True, gc=False):
    """The object is new or has changed."""

    object: ObjectT
    old: ObjectT | None
    """What was told of it before."""


class Deleted(msgspec.Struct, Generic[ObjectT], frozen=True, gc=False):
    """The object is gone, or no longer selected."""

    object: ObjectT
    """Its last state, or the last one that was told if the end itself was missed."""
    was_missed: bool = False


class Synced(msgspec.Struct, frozen=True, gc=False):
    """All objects that a list had are told."""

    is_first: bool
    is_forbidden: bool = False
    """The server does not let this process see any: none is known, whatever there is."""


WatchEvent: TypeAlias = "Upserted[Any] | Deleted[Any] | Synced"


class PlainMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class PlainObject(msgspec.Struct, gc=False):
    """An object of which nothing but its metadata counts."""

    metadata: PlainMetadata = msgspec.field(default_factory=PlainMetadata)
