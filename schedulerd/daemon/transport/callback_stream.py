"""One callback stream of one resource manager: hello, calls, answers, and an end.

The stream carries answers only while its RM can send them. So when the client has finished sending, the stream ends if
the RM serves any call that needs an answer, and continues if the RM only receives information.

Predicate results go through the owner's inbox like any request: a few commands at a time, with a reader that waits
while the inbox is full. Answers that no call waits for are dropped before that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.core.language.commands import GivePredicateResults
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.open_calls import CloseReason, Refused
from schedulerd.daemon.sessions.rm_session import RmSession
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.calls import PODS_ASKED_MAX, Calls
from schedulerd.daemon.transport.stream_call import Parse, ServicerContext, StreamCall
from schedulerd.observe.callback_tally import CallbackTally, CallKind
from schedulerd.wire.callback import Hello, HelloInvalid, NoPodAnswer, NoStateDump, read_hello, results_in

METHOD = "Connect"
POD_SECONDS = 5.0
"""Maximum time that an explanation of a pod waits for the answer of the RM."""


class Directory(Protocol):
    """Where a stream reports that it is now the current one of its RM, and that it has ended."""

    def took_over(self, rm_id: str, stream: CallbackStream) -> None: ...

    def left(self, rm_id: str, stream: CallbackStream) -> None: ...


class CallbackStream(StreamCall):
    """Serves one call of `Callback.Connect`."""

    def __init__(
        self,
        directory: Directory,
        tally: CallbackTally,
        access: GrpcAccess,
        sessions: RmSessions,
        owner: Owner,
        context: ServicerContext,
        parse: Parse[callback_pb2.CallbackAnswer],
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(METHOD, access, sessions, owner, context)
        self._directory = directory
        self._tally = tally
        self._clock_seconds = clock_seconds
        self._parse = parse
        self._session: RmSession | None = None
        self._hello: Hello | None = None
        self._calls: Calls | None = None
        self._connected = asyncio.Event()
        """Set when the scheduler has taken the hello."""

    @property
    def hello(self) -> Hello:
        """What the RM said in its hello. Use it only after the stream is registered."""
        assert self._hello is not None
        return self._hello

    @property
    def calls(self) -> Calls:
        """The calls of this stream. Use it only after the stream is registered."""
        assert self._calls is not None
        return self._calls

    async def state_dump(self, timeout_seconds: float) -> str:
        """The RM's state dump. Raises `NoStateDump` if the RM serves none, has none, or does not answer in time."""
        if not self.hello.state_dump:
            raise NoStateDump("the resource manager does not serve state dumps")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self.calls.state_dump()
        except TimeoutError as error:
            raise NoStateDump(f"no answer of the resource manager within {timeout_seconds:g} s") from error

    async def pod_said(self, namespace: str, name: str) -> str:
        """What the RM says of a pod; '' if it does not know it.

        Raises `NoPodAnswer` if it serves no such calls, has too many of them, or does not answer in time.
        """
        if not self.hello.pods:
            raise NoPodAnswer("it does not answer questions about pods")
        try:
            async with asyncio.timeout(POD_SECONDS):
                return await self.calls.pod_said(namespace, name)
        except TimeoutError as error:
            raise NoPodAnswer(f"it gave no answer within {POD_SECONDS:g} s; try again") from error

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
            del message  # it can be large, and the next one may be long in coming
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
            problem = "hello: is missing; the first message names the resource manager and the calls that it answers"
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, problem)
        rm_id = message.hello.rmID
        self._check_rm_id(rm_id, "hello.")
        try:
            self._hello = read_hello(message.hello, self._sessions.dialect(rm_id))
        except HelloInvalid as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        self._session = self._sessions.accompany(rm_id, self)
        self._calls = Calls(rm_id, self._hello.version, self._tally, self._clock_seconds)
        self._directory.took_over(rm_id, self)

    async def _take(self, answer: callback_pb2.CallbackAnswer) -> None:
        if answer.HasField("stateDump"):
            self.calls.dumped(answer.stateDump.callID, answer.stateDump.dump, answer.stateDump.error)
        for pod in answer.pods[:PODS_ASKED_MAX]:
            self.calls.told_of_pod(pod.callID, pod.said)
        for about_preemption, results in results_in(answer):
            kind = CallKind.PREEMPTION_PREDICATES if about_preemption else CallKind.PREDICATES
            wanted = [result for result in results if self.calls.answered(kind, result.call_id)]
            if wanted:
                await self._submit(GivePredicateResults(self.hello.connect.rm_id, wanted))
            else:
                await asyncio.sleep(0)  # a message full of unwanted answers must not hold the loop

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
        if self._session is not None:
            self._session.leave(self)
            self.calls.close()
            self._directory.left(self._session.rm_id, self)
