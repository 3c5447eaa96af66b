"""What identifies an application in the cluster: its namespace, and the id by which its pods name it.

Two namespaces that use the same id have two applications. With `--application-ids bare` (`ApplicationIds.BARE`) they do
not: then an id means one application in the whole cluster, and has no namespace.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ApplicationIds(StrEnum):
    """What an application id means (`--application-ids`): which of the pods that name it are in one application."""

    NAMESPACED = "namespaced"
    """Pods of the same namespace are."""
    BARE = "bare"
    """Pods of the namespace that was the first to use the id are; pods of other namespaces wait for the end of that
    application."""


class ApplicationId(NamedTuple):
    """The identity of an application in the shim; the daemon knows it by another text (`shim.application_ids`)."""

    namespace: str
    """Empty where ids are bare."""
    name: str
    """The id as pods name it."""
