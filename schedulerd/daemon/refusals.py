"""What the operator hears of calls that are ended with an error: a count of each, and lines in the log.

The client is told why, but whoever runs the daemon does not see that. A client that is refused tends to try again at
once, so of each kind only the first lines of a second are written; the rest is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import grpc
import structlog

LINES_MAX = 5
"""About calls of one method with one status, in a second."""

CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls something in so many seconds."""

log = structlog.stdlib.get_logger(__name__)


def _on_the_loop(delay_seconds: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_seconds, call)


class Refusals:
    """Counts and logs them for all clients."""

    def __init__(self, call_later: CallLater = _on_the_loop) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """All so far, by method and status code in lower case."""
        self._call_later = call_later
        self._of_this_second: Counter[tuple[str, str]] = Counter()

    def tell(self, method: str, code: grpc.StatusCode, reason: str, *, rm_id: str, peer: str) -> None:
        """A call is ended with this status. `reason` is for the log, so it must not have anything secret in it.

        `method` is the name of one of ours; `rm_id` is what the client says, '' if it has not said anything.
        """
        kind = (method, code.name.lower())
        if not self._of_this_second:
            self._call_later(1.0, self._end_second)
        self.counts[kind] += 1
        self._of_this_second[kind] += 1
        if self._of_this_second[kind] <= LINES_MAX:
            log.warning("call refused", method=method, code=kind[1], rm_id=rm_id, peer=peer, reason=reason)

    def tell_of_http(self, peer: str, reason: str) -> None:
        """A connection of the HTTP port was closed before its client was done."""
        self.tell("HTTP", grpc.StatusCode.RESOURCE_EXHAUSTED, reason, rm_id="", peer=peer)

    def _end_second(self) -> None:
        for (method, code), count in self._of_this_second.items():
            if count > LINES_MAX:
                log.warning("lines suppressed", of="call refused", method=method, code=code, count=count - LINES_MAX)
        self._of_this_second.clear()
