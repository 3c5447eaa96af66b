"""One update stream of one resource manager: a reader, a writer, and an end with a status.

The first message names the RM of a stream, which cannot be known earlier. So responses that wait for an RM are sent
after its first message; a message with nothing but the rmID is enough.

A client that has finished sending and still reads is served like any other (SEMANTICS C3): the end of its requests ends
the reader, and nothing else. When a newer stream of the kind is opened, the older one first reads what its client has
already sent, and then ends with OK. So the requests of an RM that opens a stream per message keep their order.

A response counts as delivered when the transport has taken it. If a connection breaks, responses under way may be lost,
as in any stream without acknowledgements. An RM that lost a connection that it did not close itself should register
again, which is how the interface resynchronises, unless it says how far it has come (see `resumption`). The daemon can
be configured to force this (see `lost_connections`). A response that was being written when a client cancelled its call
is sent again on the next stream: twice is better than never. A superseded stream completes the response that it is
writing, and sends nothing more. The stream of a client that says how far it has come ends after the client has finished
sending and everything it sent is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import grpc
import structlog

from schedulerd.core.language.commands import AbsenceCause, Command
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.open_calls import CloseReason, Refused
from schedulerd.daemon.sessions.resumption import RESUMES, Position, Taken, position, takes_part
from schedulerd.daemon.sessions.rm_session import RmSession
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.stream_call import Parse, ServicerContext, StreamCall
from schedulerd.wire.dialect import Stream
from schedulerd.wire.reading import PIECE_BYTES_MAX

SUPERSEDED_IDLE_SECONDS = 0.1
"""A superseded stream ends after its client was silent for this time: earlier messages have arrived by then."""

SUPERSEDED_SECONDS_MAX = 2.0
"""A superseded stream stops reading after this time, even if its client continues to send."""

SUPERSEDED_WRITE_SECONDS = 1.0
"""How long a superseded stream may take, after reading, to finish its response, so that it is not sent twice."""

FINISH_SECONDS = 5.0
"""How long a client that has finished sending may take to read what is under way."""

IN_DOUBT_SECONDS = 1.0
"""A response that was sent within this time before its client was gone may not have arrived."""

RESYNC_SECONDS = 5.0
"""How long a client that has to resync may take to read what is under way, and then to read that it has to."""


log = structlog.stdlib.get_logger(__name__)


class Request(Protocol):
    """The common part of all update requests."""

    @property
    def rmID(self) -> str: ...


RequestT = TypeVar("RequestT", bound=Request)


class UpdateMethod(Generic[RequestT]):
    """What differs between the kinds of update stream: the request's message, and the commands that it becomes."""

    def __init__(
        self,
        kind: Stream,
        parse: Parse[RequestT],
        decode: Callable[[RequestT, int], Iterator[Command]],
        complete: Callable[[Command], Awaitable[Command]] | None = None,
        resync: bytes = b"",
    ) -> None:
        self.kind = kind
        self.parse = parse
        self.decode = decode
        """Makes commands of a request, given with its size in bytes."""
        self.complete = complete
        """Adds to a command what its sender left to the daemon, before the command is queued."""
        self.resync = resync
        """The response that tells an RM to register again, after which the stream ends with OK; b'' in a dialect where
        the status of the stream tells it."""


class UpdateStream(StreamCall, Generic[RequestT]):
    """Serves one call of an update method."""

    def __init__(
        self,
        update: UpdateMethod[RequestT],
        access: GrpcAccess,
        sessions: RmSessions,
        owner: Owner,
        context: ServicerContext,
    ) -> None:
        super().__init__(update.kind.value, access, sessions, owner, context)
        self._update = update
        self._position: Position | None = None
        """How far the client has come; None if it does not say so."""
        self._headers: asyncio.Future[None] | None = None
        """The sending of the headers; None before it begins."""
        self._session: RmSession | None = None
        self._overtaken = asyncio.Event()
        self._may_read = asyncio.Event()
        self._my_turn = asyncio.Event()
        """Set when the RM of the stream is known and all older streams of the kind have ended."""
        self._reads_on = True
        self._finished_reading = asyncio.Event()
        """Set when nothing more is read: the client has finished sending, or a newer stream reads on."""
        self._has_given_way = False
        """Whether the remaining responses are left to the newer stream."""
        self._requests = 0
        self._waiting_for_client = False
        self._is_writing = False
        self._written_at = float("-inf")
        """When the transport took the last response, by the loop's clock."""

    @property
    def peer(self) -> str:
        """The client's end of the connection: its address with its port."""
        return self._context.peer()

    def is_in_doubt(self, seconds: float) -> bool:
        """Whether the client may have missed what was written in the last `seconds`, and this cannot be known."""
        was_written = self._is_writing or asyncio.get_running_loop().time() - self._written_at < seconds
        return was_written and self._position is None

    def end(self, ending: CloseReason) -> None:
        """Closes the stream soon; only the first `ending` counts. Wakes the writer, which may send the rest first."""
        super().end(ending)
        if self._session is not None:
            self._session.outboxes[self._update.kind].changed.set()

    def supersede(self) -> None:
        """Makes way for a newer stream of the kind: reads what was already sent, then closes."""
        self._overtaken.set()
        self._may_read.set()

    def let_read(self, allowed: bool) -> None:
        """Allows or forbids the reading of requests."""
        if allowed:
            self._may_read.set()
        else:
            self._may_read.clear()

    def _other_parts(self) -> Sequence[Callable[[], Coroutine[None, None, None]]]:
        return (self._make_way,)

    async def _begin(self) -> None:
        """Sends the headers, unless the client takes part in resumption: for it they mean that it may go on."""
        if not takes_part(self._context.invocation_metadata() or ()):
            await self._send_headers(RESUMES)

    async def _send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Sends headers once. Not cancelled with its caller: until this is done, gRPC does nothing else of the call."""
        if self._headers is None:
            self._headers = asyncio.ensure_future(self._context.send_initial_metadata(headers))
            self._headers.add_done_callback(_look_at)
        await asyncio.shield(self._headers)

    def _flush_seconds(self, ending: CloseReason) -> float:
        if not self._my_turn.is_set():
            return 0
        return RESYNC_SECONDS if self._says_resync(ending) else ending.flush_seconds

    def _says_resync(self, ending: CloseReason) -> bool:
        return ending.resync and bool(self._update.resync)

    async def _say_end(self, ending: CloseReason) -> None:
        if ending.code is not grpc.StatusCode.OK:
            await self._send_headers(())
        # A client that did not even take the response under way gets the status: nothing more can be written then.
        if not self._says_resync(ending) or self._is_writing or not await self._say_resync():
            await super()._say_end(ending)

    async def _say_resync(self) -> bool:
        """Sends the response that demands a resync; returns False if the client does not take it in time."""
        try:
            await asyncio.wait_for(self._context.write(self._update.resync), RESYNC_SECONDS)
        except (TimeoutError, grpc.aio.BaseError):
            return False
        return True

    def _leave(self) -> None:
        if self.is_lost and self.is_in_doubt(IN_DOUBT_SECONDS):
            self._tell_of_doubt()
        if self._session is not None:
            cause = AbsenceCause.REFUSED if self._was_refused else AbsenceCause.GONE
            self._sessions.detach(self._session, self._update.kind, self, cause)

    def _tell_of_doubt(self) -> None:
        """Logs that responses are in doubt, for the operator who will look for pods that the client does not know."""
        log.warning(
            "connection lost while responses were on their way",
            rm_id=self._rm_id,
            stream=self._method,
            peer=self.peer,
            advice="if the resource manager did not close it itself, let it register again: it may not know all; "
            "--resync-after-lost-connection tells it to",
        )

    async def _read_all(self) -> None:
        message = await self._read()
        if message is None:
            self.end(CloseReason(grpc.StatusCode.OK, "no request was sent"))
            return
        rm_id = message.rmID
        self._check_rm_id(rm_id)
        try:
            self._position = position(self._context.invocation_metadata() or ())
        except ValueError as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        self._session = self._sessions.attach(rm_id, self._update.kind, self)
        while (older := self._session.before(self._update.kind, self)) is not None:
            await older.over.wait()
        taken = self._session.resume(self._update.kind, self._position)
        if self._position is not None:
            await self._send_headers(RESUMES)
        self._my_turn.set()
        await self._take(message, rm_id, Taken())
        del message
        while await self._take_next(rm_id, taken):
            pass
        if self._position is not None and self._reads_on:
            await self._under_way.taken()
            self.end(CloseReason(grpc.StatusCode.OK, "the client has finished", flush_seconds=FINISH_SECONDS))

    async def _take_next(self, rm_id: str, taken: Taken) -> bool:
        """Returns False if nothing more is to be read. Between requests the stream keeps none: they can be large."""
        message = await self._read() if self._reads_on else None
        if message is None:
            self._finished_reading.set()
            return False
        await self._take(message, rm_id, taken)
        return True

    async def _take(self, message: RequestT, rm_id: str, taken: Taken) -> None:
        if message.rmID != rm_id:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"rmID: {message.rmID!r} on a stream of {rm_id!r}; a stream carries one RM, the one it began with",
            )
        for command in taken.new(self._update.decode(message, self._request_bytes)):
            if self._update.complete is not None:
                command = await self._update.complete(command)
            await self._submit(command)
            taken.command_taken()
            if self._request_bytes > PIECE_BYTES_MAX:
                await asyncio.sleep(0)  # commands of large items take longer to decode than others
        taken.request_taken()
        await self._may_read.wait()

    async def _read(self) -> RequestT | None:
        """The next request, or None if nothing more is to be read."""
        self._waiting_for_client = True
        raw = await self._receive()
        self._waiting_for_client = False
        self._requests += 1
        if raw is None or not self._reads_on:
            return None
        return await self._parsed(raw, self._update.parse)

    async def _write_all(self) -> None:
        await self._my_turn.wait()
        assert self._session is not None
        outbox = self._session.outboxes[self._update.kind]
        while not self._has_given_way:
            message = outbox.head()
            if message is not None:
                self._is_writing = True
                await self._context.write(message)
                self._is_writing = False
                self._written_at = asyncio.get_running_loop().time()
                outbox.sent()
                self._session.regulate()
            elif self._ended.done():
                return
            else:
                outbox.changed.clear()
                await outbox.changed.wait()

    async def _make_way(self) -> None:
        await self._overtaken.wait()
        await self._my_turn.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUPERSEDED_SECONDS_MAX):
                while not await self._has_read_all():
                    pass
        self._reads_on = False
        if not self._waiting_for_client:
            await self._finished_reading.wait()  # what it has read is handled to the end, however long that takes
        if not self._ended.done():
            self._has_given_way = True
            self.end(
                CloseReason(grpc.StatusCode.OK, "a newer stream of this RM has taken over", SUPERSEDED_WRITE_SECONDS)
            )

    async def _has_read_all(self) -> bool:
        """Whether the client has finished sending, or has sent nothing in the last `SUPERSEDED_IDLE_SECONDS`."""
        requests = self._requests
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finished_reading.wait(), SUPERSEDED_IDLE_SECONDS)
            return True
        return self._waiting_for_client and requests == self._requests


def _look_at(headers: asyncio.Future[None]) -> None:
    """Retrieves the exception, so that asyncio does not log it: the client is gone, which the reader notices."""
    if not headers.cancelled():
        headers.exception()
