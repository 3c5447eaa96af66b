"""A running owner with callback streams, whose clients the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.core.language.commands import Command, ConnectCallbacks, DisconnectCallbacks, GivePredicateResults
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.predicates import (
    PredicateWanted,
)
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.callback_stream import CallbackStream
from schedulerd.daemon.transport.callbacks import GRACE_SECONDS, Callbacks, Cancellable
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.stream_call import ServicerContext
from schedulerd.observe.callback_tally import CallbackTally
from schedulerd.wire.callback import USUAL_STATES
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.daemon.fake_call import FakeContext, turns, until_over
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, registration


class CallbackCall(FakeContext):
    """A call of Connect."""

    def hello(self, rm_id: str = "rm", *, version: int = 0, **serves: bool) -> None:
        hello = callback_pb2.CallbackHello(rmID=rm_id)
        hello.version = version  # type: ignore[assignment]  # also a number that is none
        for callback, served in serves.items():
            setattr(hello, callback, served)
        self.answer(callback_pb2.CallbackAnswer(hello=hello))

    def answer(self, answer: callback_pb2.CallbackAnswer) -> None:
        self.requests.put_nowait(answer.SerializeToString())

    def results(self, *call_ids: int) -> None:
        results = [callback_pb2.PredicatesResult(callID=call_id, success=True) for call_id in call_ids]
        self.answer(callback_pb2.CallbackAnswer(predicates=results))

    @property
    def received(self) -> callback_pb2.CallbackCall:
        """All messages as one."""
        return callback_pb2.CallbackCall.FromString(b"".join(self.responses))

    @property
    def asked(self) -> list[int]:
        return [call.callID for call in self.received.predicates]


class Timer:
    """Rings when the test says so."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.ring = call

    def cancel(self) -> None:
        self.ring = lambda: None


class World:
    """A running owner, and callback streams that are served."""

    def __init__(self) -> None:
        self.scheduler = RecordingScheduler()
        self.tally = CallbackTally()
        self.sessions = RmSessions(ResponseEncoder(), self._post, outbox_bytes_max=1_000_000)
        self.grace_is_over = True
        """False to have a stream's end not told before `end_grace`."""
        self._waiting: list[Timer] = []
        self.callbacks = Callbacks(self.sessions, self._post, self.tally, self._call_later)
        self.owner = Owner(
            self.scheduler,
            [self.sessions.deliver, self.callbacks.deliver],
            NoStopwatch(),
            inbox_max=100,
            placements_max=10,
            clocks=lambda: at(SECOND_NS),
        )

    def _post(self, command: Command) -> None:
        self.owner.post(command)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Cancellable:
        assert seconds == GRACE_SECONDS
        if self.grace_is_over:
            return asyncio.get_running_loop().call_soon(call)
        self._waiting.append(Timer(call))
        return self._waiting[-1]

    def end_grace(self) -> None:
        """The time is over of all that ended since `grace_is_over` was made False."""
        for timer in self._waiting:
            timer.ring()

    def open(self) -> tuple[CallbackCall, asyncio.Task[None]]:
        context = CallbackCall()
        parse = RequestLimits(items_max=1_000, resource_managers_max=1).parser(callback_pb2.CallbackAnswer)
        stream = CallbackStream(
            self.callbacks,
            self.tally,
            GrpcAccess(),
            self.sessions,
            self.owner,
            cast(ServicerContext, context),
            parse,
            lambda: 0.0,
        )
        return context, asyncio.create_task(until_over(stream))

    async def connected(self, rm_id: str = "rm", **serves: bool) -> tuple[CallbackCall, asyncio.Task[None]]:
        context, served = self.open()
        context.hello(rm_id, **serves)
        await turns()
        assert context.received.HasField("connected")
        return context, served

    def say(self, *facts: Fact) -> None:
        self.callbacks.deliver(facts, at(0))

    def want(self, *call_ids: int, rm_id: str = "rm") -> None:
        self.say(*(PredicateWanted(rm_id, "default", "app", f"ask-{one}", "node", one, True) for one in call_ids))

    @property
    def heard(self) -> list[ConnectCallbacks | DisconnectCallbacks | GivePredicateResults]:
        """What the scheduler was told of callbacks, in order."""
        commands = [command for _, command in self.scheduler.stepped]
        return [
            one for one in commands if isinstance(one, ConnectCallbacks | DisconnectCallbacks | GivePredicateResults)
        ]

    @property
    def results(self) -> list[int]:
        return [result.call_id for one in self.heard if isinstance(one, GivePredicateResults) for result in one.results]


def connecting(**serves: bool) -> ConnectCallbacks:
    """What the scheduler hears of a hello of `rm` that names no scheduling states."""
    return ConnectCallbacks("rm", wanted_states=USUAL_STATES, **serves)


def run(
    play: Callable[[World], Coroutine[None, None, None]],
    on: Callable[[Coroutine[None, None, None]], None] = asyncio.run,
) -> None:
    """Plays for up to 10 s on the clock of the loop that `on` makes."""

    async def all_of_it() -> None:
        world = World()
        owner = asyncio.create_task(world.owner.run())
        async with asyncio.timeout(10):
            for rm_id in ("rm", "other"):
                await (await world.owner.submit(registration(rm_id)))
            await play(world)
        owner.cancel()
        await asyncio.wait({owner})

    on(all_of_it())
