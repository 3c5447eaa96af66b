"""Which application a pod belongs to.

Pods name their application by an id. Two namespaces that use the same id have two applications, unless the ids of all
namespaces are one space (`ApplicationIds.BARE`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ApplicationIds(StrEnum):
    """Which pods with equal application ids are in one application."""

    NAMESPACED = "namespaced"
    """Those of one namespace."""
    BARE = "bare"
    """Those of the namespace that was first to use the id; pods of other namespaces wait for its end."""


class ApplicationId(NamedTuple):
    """What identifies an application in the cluster."""

    namespace: str
    """Empty where ids are bare."""
    name: str
    """The id as pods name it."""
