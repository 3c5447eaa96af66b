"""Any bytes in place of a message: they are refused, or are one, and the scheduler's books balance after it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import (
    Command,
    ConnectCallbacks,
    ConnectResourceManager,
    GivePredicateResults,
    RegisterResourceManager,
    RunCycle,
)
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.sessions.open_calls import Refused
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.wire.callback import HelloInvalid, read_hello, results_in
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.decode_2021 import UpdateDecoder
from tests.hostile_bytes import field, hostile
from tests.methods import METHODS
from tests.sim.simulation import START_NS, new_scheduler
from tests.unit.core.builders import a_partition_spec

RM = "rm"
LIMITS = RequestLimits(items_max=1_000, resource_managers_max=1)
seeds = st.integers(0, 2**32 - 1)


def callback_commands(answer: callback_pb2.CallbackAnswer) -> Iterable[Command]:
    yield GivePredicateResults(RM, [result for _, results in results_in(answer) for result in results])
    try:
        hello = read_hello(answer.hello, None)
    except HelloInvalid:
        return
    yield ConnectCallbacks(RM, predicates=hello.connect.predicates, scheduling_states=hello.connect.scheduling_states)


DECODER = RequestDecoder()
DECODERS: dict[type[Any], Callable[[Any], Iterable[Command]]] = {
    si_pb2.NodeRequest: DECODER.nodes,
    si_pb2.ApplicationRequest: DECODER.applications,
    si_pb2.AllocationRequest: DECODER.allocations,
    si_2021_pb2.UpdateRequest: UpdateDecoder(DECODER.shared, {"high": 1000}).commands,
    callback_pb2.CallbackAnswer: callback_commands,
}


def read(message_type: type[Any], raw: bytes) -> Any:
    """The message, or None if the bytes are none; anything else that is raised is a mistake of ours."""
    try:
        return asyncio.run(LIMITS.parser(message_type)(raw))
    except (DecodeError, Refused):
        return None


def registered() -> Scheduler:
    scheduler = new_scheduler()
    scheduler.step(START_NS, RegisterResourceManager(RM, (a_partition_spec(),)))
    scheduler.step(START_NS, ConnectResourceManager(RM))
    return scheduler


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
@given(seed=seeds)
def test_bytes_are_a_message_or_are_refused(method: Any, seed: int) -> None:
    message_type = GetMessageClass(method.input_type)
    message = read(message_type, hostile(random.Random(seed), message_type))
    assert message is None or isinstance(message, message_type)


@pytest.mark.parametrize("message_type", DECODERS, ids=lambda one: one.DESCRIPTOR.full_name)
def test_what_can_be_read_leaves_the_books_balanced(message_type: type[Message]) -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(seed=seeds)
    def send(seed: int) -> None:
        choose, scheduler = random.Random(seed), registered()
        for _ in range(10):
            message = read(message_type, hostile(choose, message_type))
            reached["refused" if message is None else "read"] += 1
            if message is None:
                continue
            if "rmID" in message.DESCRIPTOR.fields_by_name:
                message.rmID = RM
            for command in DECODERS[message_type](message):
                reached["facts"] += len(scheduler.step(START_NS, command))
            scheduler.step(START_NS, RunCycle(100))
        assert violations(scheduler) == []

    send()
    assert min(reached["refused"], reached["read"]) > 50
    if message_type is not callback_pb2.CallbackAnswer:
        assert reached["facts"] > 50


def test_a_million_entries_are_refused_before_they_are_read() -> None:
    asks = si_pb2.AllocationRequest.DESCRIPTOR.fields_by_name["asks"].number
    with pytest.raises(Refused, match="more than 1000 items"):
        asyncio.run(LIMITS.parser(si_pb2.AllocationRequest)(field(asks, b"") * 1_000_000))
