"""What a pod knows of its claims on the way from its allocation to its binding (`volumes` has the rules)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Written(Enum):
    """What a write is to."""

    VOLUME = "persistentvolume"
    CLAIM = "persistentvolumeclaim"


class WriteKey(NamedTuple):
    kind: Written
    name: str


@dataclass(slots=True, eq=False)
class AwaitedVolumes:
    """The claims of an assumed pod that get their volumes now. All names are in the namespace of the pod."""

    to_bind: dict[str, str]
    """Existing volumes by claim."""
    to_provision: tuple[str, ...]
    """Claims that get a new volume."""
    uids: dict[str, str]
    """Of these claims."""
    until_ns: int
    """When the wait is given up."""
    unanswered: set[WriteKey] = field(default_factory=set)
    """Writes that are under way."""
    versions: dict[WriteKey, str] = field(default_factory=dict)
    """Resource versions that writes have made: an older object says nothing yet."""


@dataclass(slots=True, eq=False)
class PodVolumes:
    attempt: int = 0
    """Counts allocations, so that late answers to writes are known as such."""
    awaited: AwaitedVolumes | None = None
    """None while no binding of volumes is under way."""
    failures: int = 0
    """In a row."""
    again_ns: int = 0
    """After a failure: the pod is not asked for before."""
