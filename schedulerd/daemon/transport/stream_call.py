"""One call of a method that streams both ways: the tasks that serve it, and its end with a status.

The difficult part of such a call is its end. It may come from the client, from its registration, from the daemon that
shuts down or from a bug, at the same time, and gRPC may cancel the call while it ends by itself. Subclasses define what
is read and written.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError

from schedulerd.core.language.commands import Command
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.rm_ids import rm_id_problem
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.shares import NoneLeft
from schedulerd.daemon.sessions.back_pressure import CommandsUnderWay
from schedulerd.daemon.sessions.open_calls import CloseReason, Refused
from schedulerd.daemon.sessions.rm_sessions import RmSessions

log = structlog.stdlib.get_logger(__name__)

MessageT = TypeVar("MessageT")
ServicerContext = grpc.aio.ServicerContext[bytes, bytes]

Parse: TypeAlias = Callable[[bytes], Coroutine[None, None, MessageT]]
"""Parses a message; a large one takes several turns of the loop. Raises `DecodeError` or `Refused`."""

_LOST = CloseReason(grpc.StatusCode.OK, "the client is gone")


class StreamCall(ABC):
    """Serves one call; `run` returns or aborts when it is over."""

    def __init__(
        self, method: str, access: GrpcAccess, sessions: RmSessions, owner: Owner, context: ServicerContext
    ) -> None:
        self.over = asyncio.Event()
        """Set when the call neither reads nor writes any more."""
        self._method = method
        self._access = access
        self._sessions = sessions
        self._context = context
        self._rm_id = ""
        """The rmID that the client has sent, whether it may use it or not."""
        self._ended: asyncio.Future[CloseReason] = asyncio.get_running_loop().create_future()
        self._owner = owner
        self._under_way = CommandsUnderWay(owner)
        self._request_bytes = 0
        """Size in bytes of the last message that was received."""

    def end(self, ending: CloseReason) -> None:
        """Closes the call soon; only the first `ending` counts."""
        if not self._ended.done():
            self._ended.set_result(ending)

    async def run(self) -> None:
        """Serves the call until it is over. A status other than OK leaves as the error that `context.abort` raises."""
        try:
            with self._access.share(self._context):
                await self._serve()
        except NoneLeft as problem:
            ending = CloseReason(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{problem}; close one first")
            self._tell_operator(ending)
            await self._context.abort(ending.code, ending.details)

    async def _serve(self) -> None:
        await self._begin()
        self._sessions.open(self)
        reader, writer, *others = (
            asyncio.create_task(self._guard(part)) for part in (self._read_all, self._write_all, *self._other_parts())
        )
        try:
            ending = await self._ended
            self._tell_operator(ending)
            reader.cancel()
            await asyncio.wait({writer}, timeout=self._flush_seconds(ending))
        finally:
            for task in (reader, writer, *others):
                task.cancel()
            try:
                await asyncio.wait({reader, writer, *others})
            finally:
                # This runs even if gRPC cancels the call while it ends by itself: an older stream that is never over
                # would block its successor, and its RM would count as connected forever.
                self._leave()
                self._sessions.over(self)
                self.over.set()
        await self._say_end(ending)

    async def _begin(self) -> None:
        """Sends the headers before anything is known of the client.

        Otherwise gRPC sends them with the first response, and it cannot send a status while a response with headers is
        under way: a client that is refused then would never learn of it.
        """
        await self._context.send_initial_metadata(())

    def _tell_operator(self, ending: CloseReason) -> None:
        # A shutdown is known to the operator, and would be reported for every stream.
        if ending.code not in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE):
            peer = self._context.peer()
            self._access.refusals.tell(self._method, ending.code, ending.details, rm_id=self._rm_id, peer=peer)

    @property
    def _was_refused(self) -> bool:
        """Whether the daemon ended the call with an error. False if the client cancelled it, or is gone."""
        return (
            self._ended.done() and not self._ended.cancelled() and self._ended.result().code is not grpc.StatusCode.OK
        )

    @property
    def is_lost(self) -> bool:
        """Whether the call is over although the daemon did not end it: its client cancelled it, or is gone."""
        return not self._ended.done() or self._ended.cancelled() or self._ended.result() is _LOST

    async def _say_end(self, ending: CloseReason) -> None:
        if ending.code is not grpc.StatusCode.OK:
            await self._context.abort(ending.code, ending.details)

    @abstractmethod
    async def _read_all(self) -> None:
        """Handles everything that the client sends; is cancelled when the call ends."""

    @abstractmethod
    async def _write_all(self) -> None:
        """Sends everything until the call ends, and then may continue for `_flush_seconds`."""

    @abstractmethod
    def _leave(self) -> None:
        """Removes the call from where it was added; none of its tasks runs any more."""

    def _flush_seconds(self, _ending: CloseReason) -> float:
        """How long the writer may continue after the end of the call."""
        return 0.0

    def _other_parts(self) -> Sequence[Callable[[], Coroutine[None, None, None]]]:
        """Further tasks that run as long as the call."""
        return ()

    async def _receive(self) -> bytes | None:
        """The next message, or None if the client has finished sending."""
        raw: object = await self._context.read()
        if raw is grpc.aio.EOF:
            return None
        assert isinstance(raw, bytes), "without a deserialiser gRPC hands over bytes"
        self._request_bytes = len(raw)
        return raw

    async def _parsed(self, raw: bytes, parse: Parse[MessageT]) -> MessageT:
        """The parsed message. Raises `Refused` if it cannot be parsed."""
        try:
            return await parse(raw)
        except DecodeError as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"not a request of {self._method}: {error}") from error

    def _check_rm_id(self, rm_id: str, message: str = "") -> None:
        """Raises `Refused` if the rmID is invalid or forbidden for this client. `message` precedes the details."""
        self._rm_id = rm_id
        problem = rm_id_problem(rm_id)
        if problem is not None:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message + problem)
        refusal = self._access.identities.refusal(rm_id, self._context)
        if refusal is not None:
            raise Refused(grpc.StatusCode.PERMISSION_DENIED, message + refusal)

    async def _submit(self, command: Command) -> None:
        """Queues a command that the client sent; waits while too many of this call, or of all calls, are queued."""
        await self._under_way.submit(command, self._request_bytes)

    async def _guard(self, part: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await part()
        except Refused as refusal:
            self.end(refusal.ending)
        except grpc.aio.BaseError as error:
            # The client is gone. gRPC cancels this call as well, but an operation under way may fail before that.
            log.debug("stream lost", stream=self._method, peer=self._context.peer(), reason=str(error))
            self.end(_LOST)
        except Exception:
            log.exception("stream failed", stream=self._method, peer=self._context.peer())
            self.end(CloseReason(grpc.StatusCode.INTERNAL, "an error of schedulerd; its log has the details"))
