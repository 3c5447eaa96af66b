"""The callback stream over a real socket: what is declared, asked and answered, and on which call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio

from schedulerd._generated.schedulerd.v1 import callback_pb2, callback_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, EventRecord, PredicatesCall, PreemptionPredicatesCall, StreamRefused
from schedulerd.client.callback_stream import hello_of
from tests.contract.client_world import Diary
from tests.contract.fake_scheduler import FakeScheduler, fake_scheduler

TIMEOUT_S = 20.0


class FakeCallbacks:
    """The scheduler's side of the callback stream: `calls` go out once the hello is in, answers are kept."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[callback_pb2.CallbackCall | None] = asyncio.Queue()
        """None ends the call."""
        self.answers: asyncio.Queue[callback_pb2.CallbackAnswer] = asyncio.Queue()
        self.hellos: list[callback_pb2.CallbackHello] = []
        self.refusal: tuple[grpc.StatusCode, str] | None = None

    async def Connect(self, requests: AsyncIterator[callback_pb2.CallbackAnswer], context: Any) -> None:
        if self.refusal is not None:
            await context.abort(*self.refusal)
        self.hellos.append((await anext(requests)).hello)
        await context.write(callback_pb2.CallbackCall(connected=callback_pb2.CallbackConnected()))
        reader = asyncio.create_task(self._read(requests))
        try:
            while (call := await self.calls.get()) is not None:
                await context.write(call)
        finally:
            reader.cancel()

    async def _read(self, requests: AsyncIterator[callback_pb2.CallbackAnswer]) -> None:
        async for answer in requests:
            self.answers.put_nowait(answer)

    async def results(self, count: int) -> dict[int, tuple[bool, str]]:
        found: dict[int, tuple[bool, str]] = {}
        while len(found) < count:
            found |= {each.callID: (each.success, each.reason) for each in (await self.answers.get()).predicates}
        return found


def predicates(*call_ids: int) -> callback_pb2.CallbackCall:
    return callback_pb2.CallbackCall(
        predicates=[
            callback_pb2.PredicatesCall(
                callID=call_id, args=si_pb2.PredicatesArgs(allocationKey=f"pod-{call_id}", nodeID="node")
            )
            for call_id in call_ids
        ]
    )


@asynccontextmanager
async def a_scheduler() -> AsyncIterator[tuple[FakeScheduler, FakeCallbacks]]:
    callbacks = FakeCallbacks()
    servicer: Any = callbacks

    def add(server: aio.Server) -> None:
        callback_pb2_grpc.add_CallbackServicer_to_server(servicer, server)

    async with fake_scheduler(also=add) as fake:
        yield fake, callbacks


def run(rm: Diary, story: Callable[[FakeScheduler, FakeCallbacks, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(TIMEOUT_S),
            a_scheduler() as (fake, callbacks),
            Client(fake.target, rm, rm_id="rm") as client,
        ):
            await story(fake, callbacks, client)

    asyncio.run(main())


class Picky(Diary):
    """Takes odd ones only; those from 10 on need some time, which the test gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def predicates(self, call: PredicatesCall) -> str | None:
        if call.callID >= 10:
            await self.go_on.wait()
        return None if call.callID % 2 else "is even"


def test_a_client_that_overrides_nothing_opens_no_callback_stream() -> None:
    async def story(fake: FakeScheduler, callbacks: FakeCallbacks, client: Client) -> None:
        await client.add_node("node", {"memory": 1})
        assert callbacks.hellos == []

    assert hello_of(Diary(), "rm") is None
    run(Diary(), story)


def test_the_hello_says_what_the_class_has_methods_for() -> None:
    class Everything(Diary):
        def preemption_predicates(self, call: PreemptionPredicatesCall) -> int | None:
            return None

        def on_events(self, events: Sequence[EventRecord]) -> None: ...

        def on_scheduling_states(self, states: Sequence[si_pb2.UpdateContainerSchedulingStateRequest]) -> None: ...

        def on_pending_reasons(self, reasons: Sequence[callback_pb2.PendingReason]) -> None: ...

        def on_application_notices(self, notices: Sequence[callback_pb2.ApplicationNotice]) -> None: ...

        def state_dump(self) -> str:
            return "{}"

        def about_pod(self, namespace: str, name: str) -> str:
            return ""

    version = callback_pb2.INTERFACE_VERSION_2023_06
    assert hello_of(Picky(), "rm") == callback_pb2.CallbackHello(rmID="rm", predicates=True, version=version)
    assert hello_of(Everything(), "rm") == callback_pb2.CallbackHello(
        rmID="rm",
        preemptionPredicates=True,
        events=True,
        schedulingStates=True,
        pendingReasons=True,
        stateDump=True,
        pods=True,
        applicationNotices=True,
        version=version,
    )


def test_results_go_out_as_they_come_together_if_they_come_together() -> None:
    rm = Picky()

    async def story(fake: FakeScheduler, callbacks: FakeCallbacks, client: Client) -> None:
        callbacks.calls.put_nowait(predicates(10, 1, 2, 11))
        assert await callbacks.results(2) == {1: (True, ""), 2: (False, "is even")}
        rm.go_on.set()
        answer = await callbacks.answers.get()
        assert [each.callID for each in answer.predicates] == [10, 11]

    run(rm, story)


def test_a_result_that_is_late_for_its_call_is_not_sent_on_the_next_one() -> None:
    rm = Picky()

    async def story(fake: FakeScheduler, callbacks: FakeCallbacks, client: Client) -> None:
        callbacks.calls.put_nowait(predicates(1, 10))
        assert await callbacks.results(1) == {1: (True, "")}
        callbacks.calls.put_nowait(None)
        callbacks.calls.put_nowait(predicates(3))
        assert await callbacks.results(1) == {3: (True, "")}
        rm.go_on.set()
        callbacks.calls.put_nowait(predicates(5))
        assert await callbacks.results(1) == {5: (True, "")}
        assert len(callbacks.hellos) == 2

    run(rm, story)


def test_preemption_and_dump_are_answered_and_news_is_handed_over_in_batches() -> None:
    class Everything(Diary):
        def __init__(self) -> None:
            super().__init__()
            self.events: list[list[str]] = []
            self.states: list[list[str]] = []
            self.reasons: list[list[str]] = []

        def preemption_predicates(self, call: PreemptionPredicatesCall) -> int | None:
            return call.args.startIndex + 1 if call.callID == 1 else None

        def on_events(self, events: Sequence[EventRecord]) -> None:
            self.events.append([each.objectID for each in events])

        async def on_scheduling_states(self, states: Sequence[si_pb2.UpdateContainerSchedulingStateRequest]) -> None:
            self.states.append([each.allocationKey for each in states])

        def on_pending_reasons(self, reasons: Sequence[callback_pb2.PendingReason]) -> None:
            self.reasons.append([each.allocationKey for each in reasons])

        async def state_dump(self) -> str:
            return '{"pods": 3}'

        async def about_pod(self, namespace: str, name: str) -> str:
            return f"{namespace}/{name} waits"

    rm = Everything()

    async def story(fake: FakeScheduler, callbacks: FakeCallbacks, client: Client) -> None:
        args = si_pb2.PreemptionPredicatesArgs(startIndex=4)
        callbacks.calls.put_nowait(
            callback_pb2.CallbackCall(
                preemptionPredicates=[
                    callback_pb2.PreemptionPredicatesCall(callID=call_id, args=args) for call_id in (1, 2)
                ],
                events=[si_pb2.EventRecord(objectID=name) for name in ("a", "b")],
                schedulingStates=[si_pb2.UpdateContainerSchedulingStateRequest(allocationKey="pod")],
                pendingReasons=[callback_pb2.PendingReason(allocationKey=name) for name in ("c", "d")],
                stateDump=callback_pb2.StateDumpCall(callID=9),
                pods=[callback_pb2.PodCall(callID=7, namespace="ns", name="p")],
            )
        )
        answer = await callbacks.answers.get()
        responses = {each.callID: each.response for each in answer.preemptionPredicates}
        assert (responses[1].success, responses[1].index, responses[2].success) == (True, 5, False)
        while not (answer.HasField("stateDump") and answer.pods):
            answer.MergeFrom(await callbacks.answers.get())
        assert (answer.stateDump.callID, answer.stateDump.dump) == (9, '{"pods": 3}')
        assert [(each.callID, each.said) for each in answer.pods] == [(7, "ns/p waits")]
        assert (rm.events, rm.states) == ([["a", "b"]], [["pod"]])
        assert rm.reasons == [["c", "d"]]

    run(rm, story)


def test_a_scheduler_that_has_no_callbacks_is_said() -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler() as fake, Client(fake.target, Picky(), rm_id="rm"):
            await asyncio.Event().wait()

    with pytest.raises(StreamRefused, match="ended the Callback stream: UNIMPLEMENTED"):
        asyncio.run(main())
