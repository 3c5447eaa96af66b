"""Reports calls that end with an error to the operator: a count for each kind, and log lines.

The client is told why its call is refused, but the operator does not see that. A refused client often tries again at
once, so only the first lines of each kind are written per second; the others are counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import grpc
import structlog

LINES_MAX = 5
"""Maximum number of log lines per second about one method and status."""

CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls a function after a delay in seconds."""

log = structlog.stdlib.get_logger(__name__)


def _on_the_loop(delay_seconds: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_seconds, call)


class Refusals:
    """Counts and logs refused calls of all clients."""

    def __init__(self, call_later: CallLater = _on_the_loop) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of refused calls so far, by method and status code in lower case."""
        self._call_later = call_later
        self._of_this_second: Counter[tuple[str, str]] = Counter()

    def tell(self, method: str, code: grpc.StatusCode, reason: str, *, rm_id: str, peer: str) -> None:
        """Reports a call that ends with status `code`. `reason` goes to the log, so it must not contain a secret.

        `method` is the name of a method of the server; `rm_id` is the one that the client sent, '' before that.
        """
        kind = (method, code.name.lower())
        if not self._of_this_second:
            self._call_later(1.0, self._end_second)
        self.counts[kind] += 1
        self._of_this_second[kind] += 1
        if self._of_this_second[kind] <= LINES_MAX:
            log.warning("call refused", method=method, code=kind[1], rm_id=rm_id, peer=peer, reason=reason)

    def tell_of_http(self, peer: str, reason: str) -> None:
        """Reports a connection of the HTTP port that was closed before its client was done."""
        self.tell("HTTP", grpc.StatusCode.RESOURCE_EXHAUSTED, reason, rm_id="", peer=peer)

    def _end_second(self) -> None:
        for (method, code), count in self._of_this_second.items():
            if count > LINES_MAX:
                log.warning("lines suppressed", of="call refused", method=method, code=code, count=count - LINES_MAX)
        self._of_this_second.clear()
