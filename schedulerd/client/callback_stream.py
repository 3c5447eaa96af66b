"""The callback stream of a resource manager: calls of the scheduler, and the answers.

Answers are sent as they come, several in a message if possible. They belong to the stream on which the call came: a
later stream does not know them, and after a registration the call ids are used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from grpc import aio

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.rm_methods import Callbacks

ResultT = TypeVar("ResultT")
Spawn = Callable[[Awaitable[None]], None]


def hello_of(rm: Callbacks, rm_id: str) -> callback_pb2.CallbackHello | None:
    """Which callbacks `rm` serves; None if it serves none."""
    hello = callback_pb2.CallbackHello(
        predicates=rm.serves_callback("predicates"),
        preemptionPredicates=rm.serves_callback("preemption_predicates"),
        events=rm.serves_callback("on_events"),
        schedulingStates=rm.serves_callback("on_scheduling_states"),
        stateDump=rm.serves_callback("state_dump"),
        pendingReasons=rm.serves_callback("on_pending_reasons"),
        pods=rm.serves_callback("about_pod"),
        applicationNotices=rm.serves_callback("on_application_notices"),
        holds=rm.serves_callback("on_holds"),
    )
    if not hello.ByteSize():
        return None
    hello.wantedStates.extend(rm.wanted_states)
    hello.rmID = rm_id
    hello.version = callback_pb2.INTERFACE_VERSION_2023_06
    return hello


class CallbackStream:
    """Asks the methods of a resource manager and sends their answers, while `run` runs."""

    name = "Callback"

    def __init__(self, channel: aio.Channel, hello: callback_pb2.CallbackHello, rm: Callbacks, spawn: Spawn) -> None:
        """`spawn` runs the awaitable of an async method as a task."""
        self.connected = asyncio.Event()
        """Set while the scheduler waits for results."""
        self._method: Any = callback_pb2_grpc.CallbackStub(channel).Connect
        self._hello = hello
        self._rm = rm
        self._spawn = spawn

    async def run(self) -> None:
        """One call, to its end. Raises `AioRpcError` unless the scheduler ended it with OK."""
        call = self._method()
        answers = _Answers(self._hello)
        writer = asyncio.create_task(answers.write_all(call))
        try:
            while (message := await call.read()) is not aio.EOF:
                if message.HasField("connected"):
                    self.connected.set()
                self._take(message, answers)
        finally:
            self.connected.clear()
            writer.cancel()
            call.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def _take(self, message: callback_pb2.CallbackCall, answers: _Answers) -> None:
        if message.HasField("connected") and self._hello.holds:
            self._rm.on_holds_void()
        if message.holds or message.unholds:
            self._rm.on_holds(message.holds, message.unholds)
        for wanted in message.predicates:
            self._answer(self._rm.predicates(wanted), partial(answers.result, wanted.callID))
        for preemption in message.preemptionPredicates:
            self._answer(
                self._rm.preemption_predicates(preemption), partial(answers.preemption_result, preemption.callID)
            )
        if message.HasField("stateDump"):
            self._answer(self._rm.state_dump(), partial(answers.dump, message.stateDump.callID))
        for pod in message.pods:
            self._answer(self._rm.about_pod(pod.namespace, pod.name), partial(answers.pod, pod.callID))
        for told in (
            self._rm.on_scheduling_states(message.schedulingStates) if message.schedulingStates else None,
            self._rm.on_pending_reasons(message.pendingReasons) if message.pendingReasons else None,
            self._rm.on_application_notices(message.applicationNotices) if message.applicationNotices else None,
            self._rm.on_events(message.events) if message.events else None,
        ):
            if told is not None:
                self._spawn(told)

    def _answer(self, result: ResultT | Awaitable[ResultT], answer: Callable[[ResultT], None]) -> None:
        if isinstance(result, Awaitable):
            self._spawn(_when_done(result, answer))
        else:
            answer(result)


class _Answers:
    """Answers of one call that wait to be sent."""

    def __init__(self, hello: callback_pb2.CallbackHello) -> None:
        self._waiting = callback_pb2.CallbackAnswer(hello=hello)
        self._some = asyncio.Event()
        self._some.set()

    def result(self, call_id: int, reason: str | None) -> None:
        self._waiting.predicates.add(callID=call_id, success=reason is None, reason=reason or "")
        self._some.set()

    def preemption_result(self, call_id: int, index: int | None) -> None:
        self._waiting.preemptionPredicates.add(
            callID=call_id, response=si_pb2.PreemptionPredicatesResponse(success=index is not None, index=index or 0)
        )
        self._some.set()

    def dump(self, call_id: int, text: str) -> None:
        self._waiting.stateDump.callID = call_id
        self._waiting.stateDump.dump = text
        self._some.set()

    def pod(self, call_id: int, said: str) -> None:
        self._waiting.pods.add(callID=call_id, said=said)
        self._some.set()

    async def write_all(self, call: Any) -> None:
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                answer, self._waiting = self._waiting, callback_pb2.CallbackAnswer()
                await call.write(answer)
        except (aio.AioRpcError, asyncio.InvalidStateError):
            return  # how the call ended is for the reader to hear


async def _when_done(result: Awaitable[ResultT], answer: Callable[[ResultT], None]) -> None:
    answer(await result)
