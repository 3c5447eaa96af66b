"""One callback stream of one resource manager: hello, calls, answers, and an end.

The stream carries answers only if its RM can still send them. So one whose client has finished sending goes on if all
it wants is to be told things, and ends if anything it serves is to be answered.

Results go through the owner's inbox like any request: a few commands at a time, and a reader that waits while the
inbox is full. Answers that nobody waits for do not get that far.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.core.commands import GivePredicateResults
from schedulerd.daemon.calls import Calls, NoStateDump
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.rm_session import CloseReason, RmSession
from schedulerd.daemon.rm_sessions import Refused, RmSessions
from schedulerd.daemon.stream_call import Parse, ServicerContext, StreamCall
from schedulerd.observe.callback_tally import CallbackTally, CallKind
from schedulerd.wire.callback import Hello, HelloInvalid, read_hello, results_in

METHOD = "Connect"


class Directory(Protocol):
    """Where a stream says that it is now the one of its RM, and that it is not any longer."""

    def took_over(self, rm_id: str, stream: CallbackStream) -> None: ...

    def left(self, rm_id: str, stream: CallbackStream) -> None: ...


class CallbackStream(StreamCall):
    """Serves one call of `Callback.Connect`."""

    def __init__(
        self,
        directory: Directory,
        tally: CallbackTally,
        links: RmSessions,
        owner: Owner,
        context: ServicerContext,
        parse: Parse[callback_pb2.CallbackAnswer],
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(METHOD, links, owner, context)
        self._directory = directory
        self._tally = tally
        self._clock_seconds = clock_seconds
        self._parse = parse
        self._link: RmSession | None = None
        self._hello: Hello | None = None
        self._calls: Calls | None = None
        self._connected = asyncio.Event()
        """Set when the scheduler has taken the hello."""

    @property
    def hello(self) -> Hello:
        """To be asked for from when the stream is registered."""
        assert self._hello is not None
        return self._hello

    @property
    def calls(self) -> Calls:
        """To be asked for from when the stream is registered."""
        assert self._calls is not None
        return self._calls

    async def state_dump(self, timeout_seconds: float) -> str:
        """Raises `NoStateDump` if the RM serves none, has none, or does not answer in time."""
        if not self.hello.state_dump:
            raise NoStateDump("the resource manager does not serve state dumps")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self.calls.state_dump()
        except TimeoutError as error:
            raise NoStateDump(f"no answer of the resource manager within {timeout_seconds:g} s") from error

    async def _read_all(self) -> None:
        message = await self._read()
        if message is None:
            self.end(CloseReason(grpc.StatusCode.OK, "no hello was sent"))
            return
        self._greet(message)
        await (await self._owner.submit(self.hello.connect))
        self._connected.set()
        while message is not None:
            await self._take(message)
            del message  # It can be large, and the next one may be long in coming.
            message = await self._read()
            if message is not None and message.HasField("hello"):
                raise Refused(
                    grpc.StatusCode.INVALID_ARGUMENT, "hello: was sent before; to change it open a new stream"
                )
        if self.hello.answers:
            self.end(CloseReason(grpc.StatusCode.OK, "the client has finished sending and cannot answer any more"))

    async def _read(self) -> callback_pb2.CallbackAnswer | None:
        """The next message, or None if the client has finished sending."""
        raw = await self._receive()
        return None if raw is None else await self._parsed(raw, self._parse)

    def _greet(self, message: callback_pb2.CallbackAnswer) -> None:
        if not message.HasField("hello"):
            problem = "hello: is missing; the first message says whose stream it is and what is served on it"
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, problem)
        rm_id = message.hello.rmID
        self._check_rm_id(rm_id, "hello.")
        try:
            self._hello = read_hello(message.hello, self._links.dialect(rm_id))
        except HelloInvalid as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        self._link = self._links.accompany(rm_id, self)
        self._calls = Calls(rm_id, self._hello.version, self._tally, self._clock_seconds)
        self._directory.took_over(rm_id, self)

    async def _take(self, answer: callback_pb2.CallbackAnswer) -> None:
        if answer.HasField("stateDump"):
            self.calls.dumped(answer.stateDump.callID, answer.stateDump.dump, answer.stateDump.error)
        for about_preemption, results in results_in(answer):
            kind = CallKind.PREEMPTION_PREDICATES if about_preemption else CallKind.PREDICATES
            wanted = [result for result in results if self.calls.answered(kind, result.call_id)]
            if wanted:
                await self._submit(GivePredicateResults(self.hello.connect.rm_id, wanted))
            else:
                await asyncio.sleep(0)  # A message full of answers that nobody waits for must not hold the loop.

    async def _write_all(self) -> None:
        await self._connected.wait()
        while True:
            message = self.calls.next_message()
            if message is not None:
                await self._context.write(message)
            else:
                self.calls.changed.clear()
                await self.calls.changed.wait()

    def _leave(self) -> None:
        self._links.leave(self._link, self)
        if self._link is not None:
            self.calls.close()
            self._directory.left(self._link.rm_id, self)
