"""One update stream of a resource manager, which lives on in the next call when a call is lost.

Two things make that exact. Every request is kept for a while after it was sent, and every response is counted; when the
stream is opened again it says how many responses have come, and from which request on it will send again. A scheduler
that takes part (it says so in its headers) then goes on where the call broke off, both ways: nothing is lost, and
nothing done twice. With one that does not, neither side knows what was on its way, and the client has to report anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message
from grpc import aio

from schedulerd.client.errors import SendQueueFull

RESUMES_HEADER = "schedulerd-resumes"
"""Header of the server, in its initial metadata: it supports resumption."""
RECEIVED_HEADER = "schedulerd-received"
"""Of the client: how many responses of this kind of stream have come since the registration."""
SENT_HEADER = "schedulerd-sent"
"""Of the client: how many requests there were before the next that comes on this call, the first of a call not counted:
it only tells whose the stream is."""

ITEMS_PER_REQUEST_MAX = 1_000
REQUEST_BYTES_MAX = 1 << 20
"""A request of several items is not larger than this, so that no scheduler refuses it: an item may be a node with all
that runs there, and gRPC servers take 4 MiB by default."""
ITEMS_QUEUED_MAX = 1_000_000
DRAINED_ITEMS_MAX = 10_000
KEPT_BYTES_MAX = 16 << 20
"""Maximum size of the sent requests that are kept. It is more than connection and peer can hold unread."""


class Request(Protocol):
    """The common part of the three update requests."""

    rmID: str

    def SerializeToString(self) -> bytes: ...


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT")


@dataclass(slots=True)
class _Queued:
    pieces: list[bytes]
    """Together they are the request: messages of protobuf, one after the other, are one with all their items."""
    items: int
    bytes: int = 0
    """Of the items that were added."""
    rank: int = 0
    """Of the list that an item was added to last."""

    def is_full_for(self, item_bytes: int) -> bool:
        return self.items >= ITEMS_PER_REQUEST_MAX or (self.items > 0 and self.bytes + item_bytes > REQUEST_BYTES_MAX)


class UpdateStream(Generic[RequestT, ResponseT]):
    """Sends what is `put` into it, in order, while `run` runs, and hands over every response."""

    def __init__(
        self,
        name: str,
        channel: aio.Channel,
        request_type: type[RequestT],
        lists: Sequence[Sequence[int]],
        parse: Callable[[bytes], ResponseT],
        rm_id: str,
        take: Callable[[ResponseT], None],
        accepted: Callable[[], None],
    ) -> None:
        """`lists` are those of a request, in the order in which they are taken: for each the numbers of the fields that
        lead to it. `take` is given every response; `accepted` is called when `is_accepted` has become true."""
        self.name = name
        self.requests_sent = self.responses_received = 0
        """Totals, including requests and responses of earlier calls."""
        self.queued_items = 0
        self.room = asyncio.Event()
        """Set when something has left the queue."""
        # Bytes go out as they are: they were serialised to be kept.
        self._method: Any = channel.stream_stream(f"/si.v1.Scheduler/{name}", response_deserializer=parse)
        self._lists = lists
        self._rm_id = rm_id
        self._hello = _serialised(request_type(), rm_id)
        self._take = take
        self._accepted = accepted
        self._queue: deque[_Queued] = deque()
        self._open: _Queued | None = None
        """The last one of the queue, while items may be added to it."""
        self._wake = asyncio.Event()
        self._finishing = False
        self.resumes = False
        """Whether the scheduler takes part in going on after a loss."""
        self.is_accepted = False
        """Whether it has said so in the call that is open: it does when the call goes on where the one before broke."""
        self._sent = self._received = 0
        """Since the registration."""
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._keeps = True
        """False once it is known that the scheduler does not support resumption."""

    def check_room(self, items: int) -> None:
        """Raises `SendQueueFull` if so many more are too many."""
        if self.queued_items + items > ITEMS_QUEUED_MAX:
            raise SendQueueFull(
                f"{self.queued_items} items wait to be sent on the {self.name} stream, and at most {ITEMS_QUEUED_MAX} "
                "are kept; `await client.drain()` waits until the scheduler has taken some"
            )

    def put(self, request: RequestT, items: int) -> None:
        """Queues a whole request; `items` is the number of items in it."""
        self._append(_Queued([_serialised(request, self._rm_id)], items))
        self._open = None

    def add(self, rank: int, item: Message) -> None:
        """Adds the item to the last request of the queue, or to a new one if that is full or its order would be wrong.

        The scheduler takes the lists of a request one after the other; `rank` is which of them the item goes into.
        """
        self.add_serialised(rank, item.SerializeToString())

    def add_serialised(self, rank: int, content: bytes) -> None:
        """`add` for an item that is bytes already."""
        queued, item_bytes = self._open, len(content)
        if queued is None or rank < queued.rank or queued.is_full_for(item_bytes):
            queued = self._open = _Queued([self._hello], 0)
            self._append(queued)
        for number in self._lists[rank][::-1]:
            content = _field(number, content)
        queued.pieces.append(content)
        queued.rank = rank
        queued.items += 1
        queued.bytes += item_bytes
        self.queued_items += 1

    async def drain(self) -> None:
        """Returns when no more than `DRAINED_ITEMS_MAX` items wait to be sent."""
        while self.queued_items > DRAINED_ITEMS_MAX:
            self.room.clear()
            await self.room.wait()

    def begin_anew(self) -> None:
        """Starts again after a registration: earlier queued and kept requests are void."""
        self._queue.clear()
        self._open = None
        self.queued_items = 0
        self.room.set()
        self.resumes = False
        self._sent = self._received = self._kept_bytes = 0
        self._kept.clear()
        self._keeps = True

    def finish(self) -> None:
        """Sends all queued requests and ends the sending side; the scheduler may still answer."""
        self._finishing = True
        self._wake.set()

    async def run(self) -> None:
        """One call, to its end. Raises `AioRpcError` unless the scheduler ended it with OK."""
        headers = (
            (RECEIVED_HEADER, str(self._received)),
            (SENT_HEADER, str(self._sent - len(self._kept))),
        )
        call = self._method(metadata=headers)
        writer = asyncio.create_task(self._write_all(call))
        try:
            # A call that is lost at once has no headers, which says nothing about the scheduler.
            if any(name == RESUMES_HEADER for name, _ in await call.initial_metadata() or ()):
                self.resumes = self.is_accepted = True
                self._accepted()
            while (response := await call.read()) is not aio.EOF:
                if not self.resumes and self._keeps:
                    self._keeps = False
                    self._kept.clear()
                self._received += 1
                self.responses_received += 1
                self._take(response)
        finally:
            self.is_accepted = False
            writer.cancel()
            call.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write_all(self, call: Any) -> None:
        try:
            for payload in (self._hello, *self._kept):
                await call.write(payload)
            while not (self._finishing and not self._queue):
                if self._queue:
                    await call.write(self._next())
                else:
                    self._wake.clear()
                    await self._wake.wait()
            await call.done_writing()
        except (aio.AioRpcError, asyncio.InvalidStateError):
            return  # how the call ended is for the reader to hear

    def _next(self) -> bytes:
        queued = self._queue.popleft()
        if queued is self._open:
            self._open = None
        self.queued_items -= queued.items
        self.room.set()
        payload = b"".join(queued.pieces)
        self._sent += 1
        self.requests_sent += 1
        if self._keeps:
            self._kept.append(payload)
            self._kept_bytes += len(payload)
            while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
                self._kept_bytes -= len(self._kept.popleft())
        return payload

    def _append(self, queued: _Queued) -> None:
        self._queue.append(queued)
        self.queued_items += queued.items
        self._wake.set()


def _serialised(request: Request, rm_id: str) -> bytes:
    request.rmID = rm_id
    return request.SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    """A field of a message that has a message as its value, as protobuf encodes it."""
    return _field_head(number, len(content)) + content


@lru_cache(4_096)
def _field_head(number: int, content_bytes: int) -> bytes:
    """Items of one kind differ little in size."""
    return _varint(number << 3 | 2) + _varint(content_bytes)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
