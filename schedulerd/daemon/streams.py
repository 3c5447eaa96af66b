"""One update stream of one resource manager: a reader, a writer, and an end with a status.

Which RM a stream belongs to is known from the rmID of its first message and cannot be known earlier, so responses that
wait for an RM flow once it has sent one; a message with nothing but the rmID is enough.

A client that has finished sending and still reads is served like any other (SEMANTICS C3): the end of its requests ends
the reader, and nothing else. When a newer stream of the kind is opened, the older one first reads what its client had
already sent, so that requests of an RM that opens a stream per message keep their order, and then ends with OK.

A response counts as delivered when the transport has taken it. What was on its way when a connection broke may be lost
with it, as in any stream without acknowledgements, and what was being written when a newer stream took over may come on
both: an RM that lost a connection it did not close itself should register again, which is how the interface
resynchronises.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Generic, Protocol, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError

from schedulerd.core.commands import Command
from schedulerd.core.facts import Fact
from schedulerd.daemon.link import Ending, Link
from schedulerd.daemon.links import Links, Refused, rm_id_problem
from schedulerd.daemon.owner import Owner
from schedulerd.wire.encode import Stream

COMMANDS_UNDER_WAY_MAX = 4
"""Commands of one stream that may wait in the inbox, so that an RM can neither crowd out the others there nor have much
answered that it has not read. Decoding so many takes a few milliseconds, after which the loop turns."""

GIVE_WAY_IDLE_SECONDS = 0.1
"""A stream that gives way ends when its client sends nothing for so long: what was sent before has arrived by then."""

GIVE_WAY_SECONDS_MAX = 2.0
"""A stream that gives way ends after this even if its client goes on sending."""

log = structlog.stdlib.get_logger(__name__)


class Request(Protocol):
    """What the three update requests have in common."""

    @property
    def rmID(self) -> str: ...


RequestT = TypeVar("RequestT", bound=Request)


class Dialogue(Generic[RequestT]):
    """What differs between the three kinds of stream: the request's message and the commands it becomes."""

    def __init__(
        self,
        kind: Stream,
        parse: Callable[[bytes], RequestT],
        decode: Callable[[RequestT], Iterator[Command]],
        complete: Callable[[Command], Awaitable[Command]] | None = None,
    ) -> None:
        self.kind = kind
        self.parse = parse
        self.decode = decode
        self.complete = complete
        """Adds to a command what its sender left to us, before it is queued."""


ServicerContext = grpc.aio.ServicerContext[bytes, bytes]


class StreamSession(Generic[RequestT]):
    """Serves one call of an update method; `run` returns or aborts when the stream is over."""

    def __init__(self, dialogue: Dialogue[RequestT], links: Links, owner: Owner, context: ServicerContext) -> None:
        self.over = asyncio.Event()
        self._dialogue = dialogue
        self._links = links
        self._owner = owner
        self._context = context
        self._link: Link | None = None
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._overtaken = asyncio.Event()
        self._may_read = asyncio.Event()
        self._my_turn = asyncio.Event()
        """Set when it is known whose stream this is and no older one of the kind is in its way."""
        self._finished_sending = asyncio.Event()
        self._requests = 0
        self._waiting_for_client = False

    def end(self, ending: Ending) -> None:
        """Closes the stream soon; the first ending counts."""
        if not self._ended.done():
            self._ended.set_result(ending)
            if self._link is not None:
                self._link.outboxes[self._dialogue.kind].changed.set()

    def give_way(self) -> None:
        """A newer stream of the kind has come: read what was already sent, then close."""
        self._overtaken.set()
        self._may_read.set()

    def let_read(self, allowed: bool) -> None:
        """Whether requests may be read now."""
        if allowed:
            self._may_read.set()
        else:
            self._may_read.clear()

    async def run(self) -> None:
        """Serves the stream until it is over; an end other than OK leaves as the error that `context.abort` raises."""
        # gRPC sends headers with the first response unless they were sent before, and cannot send a status while a
        # response with headers is under way: a client that is refused then would never hear of it.
        await self._context.send_initial_metadata(())
        self._links.open(self)
        reader, writer, watch = (
            asyncio.create_task(self._guard(part)) for part in (self._read_all, self._write_all, self._make_way)
        )
        try:
            ending = await self._ended
            reader.cancel()
            await asyncio.wait({writer}, timeout=ending.flush_seconds if self._my_turn.is_set() else 0)
        finally:
            for task in (reader, writer, watch):
                task.cancel()
            try:
                await asyncio.wait({reader, writer, watch})
            finally:
                # Even if gRPC cancels this call while it ends by itself: an older stream that is never over would hold
                # up its successor, and its RM would count as connected for ever.
                self._links.detach(self._link, self._dialogue.kind, self)
                self.over.set()
        if ending.code is not grpc.StatusCode.OK:
            await self._context.abort(ending.code, ending.details)

    async def _guard(self, part: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await part()
        except Refused as refusal:
            self.end(refusal.ending)
        except grpc.aio.BaseError as error:
            # The client is gone; gRPC cancels this call as well, but what was under way may hear of it first.
            log.debug("stream lost", stream=self._dialogue.kind.value, peer=self._context.peer(), reason=str(error))
            self.end(Ending(grpc.StatusCode.OK, "the client is gone"))
        except Exception:
            log.exception("stream failed", stream=self._dialogue.kind.value, peer=self._context.peer())
            self.end(Ending(grpc.StatusCode.INTERNAL, "an error of schedulerd; its log says more"))

    async def _read_all(self) -> None:
        message = await self._read()
        if message is None:
            self.end(Ending(grpc.StatusCode.OK, "no request was sent"))
            return
        rm_id = message.rmID
        problem = rm_id_problem(rm_id)
        if problem is not None:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, problem)
        self._link, older = self._links.attach(rm_id, self._dialogue.kind, self)
        if older is not None:
            await older.over.wait()
        self._my_turn.set()
        under_way: deque[asyncio.Future[list[Fact]]] = deque()
        while message is not None:
            if message.rmID != rm_id:
                raise Refused(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"rmID: {message.rmID!r} on a stream of {rm_id!r}; a stream carries one RM, the one it began with",
                )
            for command in self._dialogue.decode(message):
                if self._dialogue.complete is not None:
                    command = await self._dialogue.complete(command)
                if len(under_way) >= COMMANDS_UNDER_WAY_MAX:
                    await under_way.popleft()
                under_way.append(await self._owner.submit(command))
            await self._may_read.wait()
            message = await self._read()

    async def _read(self) -> RequestT | None:
        """The next request, or None if its client has finished sending."""
        self._waiting_for_client = True
        raw: object = await self._context.read()
        self._waiting_for_client = False
        self._requests += 1
        if raw is grpc.aio.EOF:
            self._finished_sending.set()
            return None
        assert isinstance(raw, bytes), "without a deserialiser gRPC hands over bytes"
        try:
            return self._dialogue.parse(raw)
        except DecodeError as error:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT, f"not a request of {self._dialogue.kind.value}: {error}"
            ) from error

    async def _write_all(self) -> None:
        await self._my_turn.wait()
        assert self._link is not None
        outbox = self._link.outboxes[self._dialogue.kind]
        while True:
            message = outbox.head()
            if message is not None:
                await self._context.write(message)
                outbox.sent()
                self._link.regulate()
            elif self._ended.done():
                return
            else:
                outbox.changed.clear()
                await outbox.changed.wait()

    async def _make_way(self) -> None:
        await self._overtaken.wait()
        await self._my_turn.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_WAY_SECONDS_MAX):
                while not await self._has_read_all():
                    pass
        self.end(Ending(grpc.StatusCode.OK, "a newer stream of this RM has taken over"))

    async def _has_read_all(self) -> bool:
        """True if the client has finished sending; after a moment also if nothing more of it has arrived meanwhile."""
        requests = self._requests
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finished_sending.wait(), GIVE_WAY_IDLE_SECONDS)
            return True
        return self._waiting_for_client and requests == self._requests
