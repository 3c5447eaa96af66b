"""Logs when the process has no file descriptor left. Nothing else reports it: new connections are just not accepted.

Open connections are served as before. A new connection waits in the system until a descriptor is free; then gRPC
accepts it.
"""

from __future__ import annotations

import asyncio
import resource
import socket

import structlog

INTERVAL_SECONDS = 0.5

log = structlog.stdlib.get_logger(__name__)


class DescriptorWatch:
    """Logs when file descriptors run out, and when some are free again."""

    def __init__(self) -> None:
        self._ran_out = False

    async def run(self) -> None:
        """Checks every `INTERVAL_SECONDS`, forever."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            self.look()

    def look(self) -> None:
        """Tries to get a file descriptor, as accepting a connection would."""
        try:
            socket.socket().close()
        except OSError as error:
            if not self._ran_out:
                log.error(
                    "no file descriptor left: no new connection is accepted, open connections are served",
                    limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                    reason=error.strerror,
                )
            self._ran_out = True
        else:
            if self._ran_out:
                log.info("file descriptors again: connections are accepted")
            self._ran_out = False
