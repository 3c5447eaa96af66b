"""What sessions know of their open calls: why a call is closed, and what it can do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

import grpc


@dataclass(frozen=True, slots=True)
class CloseReason:
    """The status that closes a stream, and how long waiting responses may take to be sent before that."""

    code: grpc.StatusCode
    details: str
    flush_seconds: float = 0.0
    resync: bool = False
    """Whether the RM has to register again. A dialect may say so in a response instead of the status."""


class Refused(Exception):
    """A stream cannot continue; `ending` is what its client is told."""

    def __init__(self, code: grpc.StatusCode, details: str, *, resync: bool = False) -> None:
        super().__init__(details)
        self.ending = CloseReason(code, details, resync=resync)


class OpenCall(Protocol):
    """A stream of any service; it ends with the registration of its RM at the latest."""

    over: asyncio.Event
    """Set when the stream neither reads nor writes any more."""

    def end(self, ending: CloseReason) -> None:
        """Closes the stream soon; only the first `ending` counts."""


class OpenStream(OpenCall, Protocol):
    """What a session needs of an update stream."""

    @property
    def peer(self) -> str:
        """The client's end of the connection: its address with its port."""

    @property
    def is_lost(self) -> bool:
        """Whether the stream is over although the daemon did not end it: its client cancelled it, or is gone."""

    def is_in_doubt(self, seconds: float) -> bool:
        """Whether the client may have missed what was written in the last `seconds`, and this cannot be known."""

    def supersede(self) -> None:
        """Makes way for a newer stream of the kind: reads what was already sent, then closes."""

    def let_read(self, allowed: bool) -> None:
        """Allows or forbids the reading of requests."""
