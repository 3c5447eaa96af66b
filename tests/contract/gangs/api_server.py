"""The truth behind a socket: one resource manager at a time lists what there is, and writes what it does.

Messages are JSON, one to a line. What a resource manager had sent whole when it died has happened, the rest has not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from tests.contract.gangs.truth import Pod, Truth

HOST = "127.0.0.1"
LINE_BYTES_MAX = 64 << 20
STARTED, LOST = "started", "lost the scheduler"
"""Why a resource manager lists what there is."""


class ApiServer:
    """Serves a `Truth` on a free port; a context."""

    def __init__(self, truth: Truth) -> None:
        self.started = 0
        """Resource managers that have come, each a process of its own."""
        self.lost = 0
        """How often one of them has begun anew because it lost the scheduler."""
        self.settled = asyncio.Event()
        """Set while a resource manager has said that it, and the scheduler that runs now, have nothing left to do."""
        self.failed = asyncio.Event()
        """Set when there are problems: going on makes no sense."""
        self._truth = truth
        self._has_changed = asyncio.Event()
        self._is_registered = False
        """With the scheduler that runs now."""
        self._turn = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        """Of the resource manager that is served."""

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def reach(self, changes: int, started: int) -> None:
        """Waits until so much has happened, and so many resource managers have come."""
        while self._truth.progress().changes < changes or self.started < started:
            self._has_changed.clear()
            await self._has_changed.wait()

    def part(self) -> None:
        """Scheduler or resource manager are about to die: nothing is settled before one has registered anew."""
        self._is_registered = False
        self.settled.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=LINE_BYTES_MAX)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the connection, which the resource manager takes for the end of it all."""
        self._server.close()
        if self._writer is not None:
            self._writer.close()
        async with self._turn:
            self._writer = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A successor is not served before all that the one before it had sent is taken.
        async with self._turn:
            self._writer = writer
            try:
                while (line := await reader.readline()).endswith(b"\n"):
                    answer = self._take(json.loads(line))
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
            except ConnectionError:
                return
            finally:
                writer.close()

    def _take(self, request: dict[str, Any]) -> dict[str, Any]:
        created: list[Pod] = []
        if "list" in request:
            self.started += request["list"] == STARTED
            self.lost += request["list"] == LOST
            created += self._truth.pods.values()
        if "registered" in request:
            self._is_registered = True
        gone = []
        for name, node in request.get("writes", ()):
            if node:
                created += self._truth.bind(name, node)
            else:
                self._truth.delete(name)
                gone.append(name)
        self._has_changed.set()
        if "problem" in request:
            self._truth.problems.append(request["problem"])
        if self._truth.problems:
            self.failed.set()
        if "settled" in request and self._is_registered:
            self.settled.set()
        return {"pods": _plain(created), "gone": gone, "done": self._truth.is_done()}


def _plain(pods: Iterable[Pod]) -> list[dict[str, object]]:
    return [asdict(pod) for pod in pods]
