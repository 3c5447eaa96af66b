"""Notices that the process has no file descriptor left, which nobody else says: connections are just not accepted.

Who is connected is served all the same. A connection waits in the system until a descriptor is free, and gRPC accepts
it then.
"""

from __future__ import annotations

import asyncio
import resource
import socket

import structlog

INTERVAL_SECONDS = 0.5

log = structlog.stdlib.get_logger(__name__)


class DescriptorWatch:
    """Tells the log when descriptors run out, and when there are some again."""

    def __init__(self) -> None:
        self._ran_out = False

    async def run(self) -> None:
        """Looks every `INTERVAL_SECONDS`, for ever."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            self.look()

    def look(self) -> None:
        """Tries to get a descriptor, as accepting a connection would."""
        try:
            socket.socket().close()
        except OSError as error:
            if not self._ran_out:
                log.error(
                    "no file descriptor left: no new connection is accepted, those that are open are served",
                    limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                    reason=error.strerror,
                )
            self._ran_out = True
        else:
            if self._ran_out:
                log.info("file descriptors again: connections are accepted")
            self._ran_out = False
