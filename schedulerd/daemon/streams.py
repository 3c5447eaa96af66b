"""One update stream of one resource manager: a reader, a writer, and an end with a status.

Which RM a stream belongs to is known from the rmID of its first message and cannot be known earlier, so responses that
wait for an RM flow once it has sent one; a message with nothing but the rmID is enough.

A client that has finished sending and still reads is served like any other (SEMANTICS C3): the end of its requests ends
the reader, and nothing else. When a newer stream of the kind is opened, the older one first reads what its client had
already sent, so that requests of an RM that opens a stream per message keep their order, and then ends with OK.

A response counts as delivered when the transport has taken it. What was on its way when a connection broke may be lost
with it, as in any stream without acknowledgements: an RM that lost a connection it did not close itself should register
again, which is how the interface resynchronises, unless it says how far it has come (see `resumption`); the daemon can
be told to make it do so (see `link`). What was being written when a client cancelled its call comes again on the next
one: twice is better than never. A stream that gives way sends what it has begun, and nothing more. A client that says
how far it has come also is done when it has finished sending: the stream ends when everything it sent is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import grpc
import structlog

from schedulerd.core.commands import AbsenceCause, Command
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.resumption import AHEAD, BEHIND, RESUMES, Position, Taken, position, takes_part
from schedulerd.daemon.rm_session import CloseReason, RmSession
from schedulerd.daemon.rm_sessions import Refused, RmSessions
from schedulerd.daemon.stream_call import Parse, ServicerContext, StreamCall
from schedulerd.wire.dialect import Stream
from schedulerd.wire.reading import PIECE_BYTES_MAX

GIVE_WAY_IDLE_SECONDS = 0.1
"""A stream that gives way ends when its client sends nothing for so long: what was sent before has arrived by then."""

GIVE_WAY_SECONDS_MAX = 2.0
"""A stream that gives way reads nothing more after this even if its client goes on sending."""

GIVE_WAY_WRITE_SECONDS = 1.0
"""After that its client has so long to take what is being written, lest it come on both streams."""

FINISH_SECONDS = 5.0
"""How long a client that has finished may take to read what is under way."""

IN_DOUBT_SECONDS = 1.0
"""What was sent so shortly before a client was gone may not have come."""

RESYNC_SECONDS = 5.0
"""How long a client that has to resync may take to read what is under way, and likewise the response that says so."""


log = structlog.stdlib.get_logger(__name__)


class Request(Protocol):
    """What the update requests have in common."""

    @property
    def rmID(self) -> str: ...


RequestT = TypeVar("RequestT", bound=Request)


class Dialogue(Generic[RequestT]):
    """What differs between the kinds of stream: the request's message and the commands it becomes."""

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
        """Given a request and its size in bytes."""
        self.complete = complete
        """Adds to a command what its sender left to us, before it is queued."""
        self.resync = resync
        """The response that tells an RM to register again, after which the stream ends with OK; b'' where the status of
        the stream's end tells it."""


class StreamSession(StreamCall, Generic[RequestT]):
    """Serves one call of an update method."""

    def __init__(self, dialogue: Dialogue[RequestT], links: RmSessions, owner: Owner, context: ServicerContext) -> None:
        super().__init__(dialogue.kind.value, links, owner, context)
        self._dialogue = dialogue
        self._position: Position | None = None
        """How far the client has come, if it says so."""
        self._headers: asyncio.Future[None] | None = None
        """That they are sent; None before."""
        self._link: RmSession | None = None
        self._overtaken = asyncio.Event()
        self._may_read = asyncio.Event()
        self._my_turn = asyncio.Event()
        """Set when it is known whose stream this is and no older one of the kind is in its way."""
        self._reads_on = True
        self._finished_reading = asyncio.Event()
        """Set when nothing more is read: the client has finished sending, or it is for a newer stream to read on."""
        self._has_given_way = False
        """Whether what is still to be sent is for the newer stream to send."""
        self._requests = 0
        self._waiting_for_client = False
        self._is_writing = False
        self._written_at = float("-inf")
        """By the loop's clock, when the transport took a response last."""

    @property
    def peer(self) -> str:
        """The client's end of the connection: its address with its port."""
        return self._context.peer()

    def is_in_doubt(self, seconds: float) -> bool:
        """Whether its client may not have got what was written in the last seconds, and nobody can know."""
        was_written = self._is_writing or asyncio.get_running_loop().time() - self._written_at < seconds
        return was_written and self._position is None

    def end(self, ending: CloseReason) -> None:
        """Closes the stream soon; the first ending counts. A writer that may go on until it has sent all is told."""
        super().end(ending)
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

    def _other_parts(self) -> Sequence[Callable[[], Coroutine[None, None, None]]]:
        return (self._make_way,)

    async def _begin(self) -> None:
        """A client that takes part in resumption gets its headers when it may go on, and knows by them that it may."""
        if not takes_part(self._context.invocation_metadata() or ()):
            await self._send_headers(RESUMES)

    async def _send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Once, and to the end even if who wanted it is cancelled: gRPC takes nothing else of the call meanwhile."""
        if self._headers is None:
            self._headers = asyncio.ensure_future(self._context.send_initial_metadata(headers))
            self._headers.add_done_callback(_look_at)
        await asyncio.shield(self._headers)

    def _flush_seconds(self, ending: CloseReason) -> float:
        if not self._my_turn.is_set():
            return 0
        return RESYNC_SECONDS if self._says_resync(ending) else ending.flush_seconds

    def _says_resync(self, ending: CloseReason) -> bool:
        return ending.resync and bool(self._dialogue.resync)

    async def _say_end(self, ending: CloseReason) -> None:
        if ending.code is not grpc.StatusCode.OK:
            await self._send_headers(())
        # A client that did not take even what was under way gets the status: nothing more can be written then.
        if not self._says_resync(ending) or self._is_writing or not await self._say_resync():
            await super()._say_end(ending)

    async def _say_resync(self) -> bool:
        """False if the client does not take the response in time, or is gone."""
        try:
            await asyncio.wait_for(self._context.write(self._dialogue.resync), RESYNC_SECONDS)
        except (TimeoutError, grpc.aio.BaseError):
            return False
        return True

    def _leave(self) -> None:
        if self.is_lost and self.is_in_doubt(IN_DOUBT_SECONDS):
            self._tell_of_doubt()
        cause = AbsenceCause.REFUSED if self._was_refused else AbsenceCause.GONE
        self._links.detach(self._link, self._dialogue.kind, self, cause)

    def _tell_of_doubt(self) -> None:
        """For the operator who will look for the pods that a client knows nothing of."""
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
        self._link = self._links.attach(rm_id, self._dialogue.kind, self)
        while (older := self._link.before(self._dialogue.kind, self)) is not None:
            await older.over.wait()
        taken = self._resume(self._link)
        if self._position is not None:
            await self._send_headers(RESUMES)
        self._my_turn.set()
        await self._take(message, rm_id, Taken())
        del message
        while await self._take_next(rm_id, taken):
            pass
        if self._position is not None and self._reads_on:
            await asyncio.gather(*self._under_way)
            self.end(CloseReason(grpc.StatusCode.OK, "the client has finished", flush_seconds=FINISH_SECONDS))

    async def _take_next(self, rm_id: str, taken: Taken) -> bool:
        """False if nothing more is to be read. Between requests the stream holds none: they can be large."""
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
        for command in taken.new(self._dialogue.decode(message, self._request_bytes)):
            if self._dialogue.complete is not None:
                command = await self._dialogue.complete(command)
            await self._submit(command)
            taken.command_taken()
            if self._request_bytes > PIECE_BYTES_MAX:
                await asyncio.sleep(0)  # Commands of large items take longer to decode than others.
        taken.request_taken()
        await self._may_read.wait()

    def _resume(self, link: RmSession) -> Taken:
        """Goes on where the client is; gives what counts the requests after the first one."""
        outbox, taken = link.outboxes[self._dialogue.kind], link.taken[self._dialogue.kind]
        if self._position is None:
            outbox.keep_nothing()
            return Taken()
        try:
            outbox.resume(self._position.received)
        except ValueError:
            raise Refused(grpc.StatusCode.ABORTED, AHEAD) from None
        except IndexError:
            raise Refused(grpc.StatusCode.ABORTED, BEHIND, resync=True) from None
        if not taken.resume(self._position.sent):
            raise Refused(grpc.StatusCode.ABORTED, BEHIND, resync=True)
        return taken

    async def _read(self) -> RequestT | None:
        """The next request, or None if nothing more is to be read."""
        self._waiting_for_client = True
        raw = await self._receive()
        self._waiting_for_client = False
        self._requests += 1
        if raw is None or not self._reads_on:
            return None
        return await self._parsed(raw, self._dialogue.parse)

    async def _write_all(self) -> None:
        await self._my_turn.wait()
        assert self._link is not None
        outbox = self._link.outboxes[self._dialogue.kind]
        while not self._has_given_way:
            message = outbox.head()
            if message is not None:
                self._is_writing = True
                await self._context.write(message)
                self._is_writing = False
                self._written_at = asyncio.get_running_loop().time()
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
        self._reads_on = False
        if not self._waiting_for_client:
            await self._finished_reading.wait()  # what it has read is taken to the end, however long that is
        if not self._ended.done():
            self._has_given_way = True
            self.end(
                CloseReason(grpc.StatusCode.OK, "a newer stream of this RM has taken over", GIVE_WAY_WRITE_SECONDS)
            )

    async def _has_read_all(self) -> bool:
        """True if the client has finished sending; after a moment also if nothing more of it has arrived meanwhile."""
        requests = self._requests
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finished_reading.wait(), GIVE_WAY_IDLE_SECONDS)
            return True
        return self._waiting_for_client and requests == self._requests


def _look_at(headers: asyncio.Future[None]) -> None:
    """That they did not get through is no error nobody has looked at: the client is gone, which its reader hears of."""
    if not headers.cancelled():
        headers.exception()
