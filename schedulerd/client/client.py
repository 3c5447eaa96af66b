"""The client of a resource manager: methods to send, and callbacks of a `ResourceManager` for what is received.

The client is a context manager, because it owns a connection and tasks: they end with the block, and a failure of the
connection ends the block, wherever it waits.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import grpc

from schedulerd.client.books import Books
from schedulerd.client.callback_stream import CallbackStream, hello_of
from schedulerd.client.channel import open_channel
from schedulerd.client.connection import Connection, Registration
from schedulerd.client.reporting import Reporting
from schedulerd.client.requests import Requests
from schedulerd.client.rm_methods import Callbacks, Updates


class Served(Updates, Callbacks, Protocol):
    """A `ResourceManager`, or anything else with its methods."""

    client: Client
    """Set by the client."""


class Client(Requests):
    """A resource manager's connection to the scheduler at `target`, HOST:PORT; a context.

    It is registered when the `async with` begins, and connected until it ends, where everything queued is sent first.
    A lost connection is restored for up to `reconnect_timeout_s`: the scheduler and the client go on where they were,
    or, if the scheduler knows nothing any longer, the client registers again and reports everything it has in its books
    (`ResourceManager.on_resynced`). With `resync=False` there are no books, and it fails instead. A failure, an
    exception of the resource manager's own methods included, cancels the block and is raised where it ends.

    `config` is a queue file as YAML, and wins over the one that `policy_group` picks. `connect_timeout_s` is how long
    to wait for a scheduler that is not there yet. To be made in a running event loop. The ids of applications must be
    unique over all partitions.
    """

    def __init__(
        self,
        target: str,
        rm: Served,
        *,
        rm_id: str,
        policy_group: str = "",
        config: str = "",
        build_info: Mapping[str, str] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        connect_timeout_s: float = 10.0,
        reconnect_timeout_s: float = math.inf,
        resync: bool = True,
    ) -> None:
        channel = open_channel(target, credentials)
        hello = hello_of(rm, rm_id)
        books = Books() if resync else None
        reporting = Reporting(rm, books, self.spawn)
        connection = Connection(
            target,
            channel,
            Registration(rm_id, policy_group, config, build_info or {}),
            reporting,
            None if hello is None else CallbackStream(channel, hello, rm, self.spawn),
            reconnect_timeout_s=reconnect_timeout_s,
            resync=resync,
        )
        super().__init__(connection, reporting, books)
        self.rm_id = rm_id
        self._connect_timeout_s = connect_timeout_s
        self._tasks: set[asyncio.Future[None]] = set()
        self._failure: BaseException | None = None
        self._body: asyncio.Task[Any] | None = None
        self._body_cancelled = False
        rm.client = self

    async def __aenter__(self) -> Self:
        """Raises `SchedulerUnreachable` or `RegistrationRejected`."""
        try:
            await self._connection.start(self._connect_timeout_s)
        except BaseException:
            await self._connection.abandon()
            raise
        assert self._connection.over is not None
        self._body = asyncio.current_task()
        self._connection.over.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        body, self._body = self._body, None
        if kind is None and self._failure is None:
            await self._connection.close()
        else:
            await self._connection.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._body_cancelled:
            assert body is not None
            cancelled_by_others = body.uncancel() > 0
            if cancelled_by_others or (kind is not None and kind is not asyncio.CancelledError):
                return
        if self._failure is not None and error is not self._failure:
            raise self._failure

    async def serve_forever(self) -> None:
        """Waits until it is cancelled, as it also is when the connection fails."""
        await asyncio.Event().wait()

    async def unregister(self) -> None:
        """Unregisters the resource manager: the scheduler forgets it at once. Nothing can be sent afterwards."""
        self._body = None
        await self._connection.unregister()

    def spawn(self, awaitable: Awaitable[None]) -> None:
        """Runs an awaitable as a task of the client; its failure is a failure of the client."""
        task = asyncio.ensure_future(awaitable)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    @property
    def requests_sent(self) -> int:
        """Number of requests sent; a request that was sent again counts once."""
        return sum(stream.requests_sent for stream in self._connection.streams)

    @property
    def responses_received(self) -> int:
        return sum(stream.responses_received for stream in self._connection.streams)

    @property
    def is_settled(self) -> bool:
        """Connected, and the scheduler knows everything: it can be lost at any moment all the same."""
        return self._connection.is_settled

    @property
    def times_resumed(self) -> int:
        """How often a lost connection was restored without a new report."""
        return self._connection.times_resumed

    @property
    def times_resynced(self) -> int:
        """How often everything was reported again."""
        return self._connection.times_resynced

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _ended(self, task: asyncio.Future[None]) -> None:
        """Called when a task of the client ends. The first failure ends the client."""
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None or self._failure is not None:
            return
        self._failure = task.exception()
        if self._body is not None:
            self._body_cancelled = True
            self._body.cancel()
