"""The two dialects of the scheduler interface, and the update streams that each of them has.

Everything behind the wire is the same for both. Which one a resource manager speaks is decided by the first update
stream it opens after registering (SEMANTICS B1).
"""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """A specification of the scheduler interface. 2022-12 is a subset of 2023-06 on the wire."""

    V2021_02 = "2021-02"
    V2023_06 = "2023-06"


class Stream(StrEnum):
    """The update streams of `si.v1.Scheduler`, named by the method that opens them."""

    ALLOCATION = "UpdateAllocation"
    APPLICATION = "UpdateApplication"
    NODE = "UpdateNode"
    UPDATE = "Update"

    @property
    def dialect(self) -> Dialect:
        return Dialect.V2021_02 if self is Stream.UPDATE else Dialect.V2023_06


ALLOCATION_STREAMS = {Dialect.V2021_02: Stream.UPDATE, Dialect.V2023_06: Stream.ALLOCATION}
"""The stream of each dialect that carries allocations: a resource manager is there while it is open (SEMANTICS C3)."""


def update_streams(dialect: Dialect) -> tuple[Stream, ...]:
    """The streams of one dialect."""
    return tuple(stream for stream in Stream if stream.dialect is dialect)
