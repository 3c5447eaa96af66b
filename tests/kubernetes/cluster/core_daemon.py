"""The real core behind the real books of the client, without a network: messages wait in queues until they are moved.

A request goes from the shim's writer through the client's books into the queue of its stream; `deliver` decodes it and
steps the core. Responses go the way back. A daemon that is killed is a new core, to which the books report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.books import Books
from schedulerd.client.callback_stream import hello_of
from schedulerd.client.connection import Connection
from schedulerd.client.reporting import Answers, Reporting
from schedulerd.client.request_lists import ALLOCATION_LISTS, APPLICATION_LISTS, NODE_LISTS
from schedulerd.client.requests import Requests
from schedulerd.client.resource_manager import ResourceManager
from schedulerd.client.update_stream import UpdateStream
from schedulerd.config import matches
from schedulerd.config.queue_file import load_queue_file
from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    GivePredicateResults,
    PredicateResult,
    RingAlarms,
    RunCycle,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, Released
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted, SlotHeld
from schedulerd.core.language.facts.queues import QueueNameUnused
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged
from schedulerd.core.language.specs import NO_CONFIGURATION, PartitionSpec, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.partition import Partition
from schedulerd.instant import Instant
from schedulerd.wire.callback import CallBuilder, InterfaceVersion, read_hello
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.kubernetes.cluster.play import EPOCH_NS

RM_ID = "kubernetes"
QUEUES = """
partitions:
  - name: default
    placementrules:
      - {name: provided, create: false}
      - {name: fixed, value: root.q}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: q}
          - {name: small, resources: {max: {vcore: 500m}}}
"""
PARTITIONS = load_queue_file(QUEUES).partitions
PLACEMENTS_MAX = 3
_CALLS = (PredicateWanted, PreemptionPredicateWanted, PendingReasonChanged, QueueNameUnused, SlotHeld)


class Unheld(NamedTuple):
    """Room that slots hold no longer."""

    uuid: str
    taken_by: str


class _NoChannel:
    def stream_stream(self, *_: Any, **__: Any) -> None: ...


class Queue(UpdateStream[Any, Any]):
    """A stream of the client that nobody runs."""

    def __init__(self, name: str, request_type: type[Any], lists: Sequence[Sequence[int]]) -> None:
        super().__init__(name, cast(Any, _NoChannel()), request_type, lists, bytes, RM_ID, lambda _: None, lambda: None)

    def next(self) -> bytes:
        return self._next()


class Streams:
    """What a client's connection is to its requests and reports."""

    def __init__(self) -> None:
        self.nodes = Queue(Stream.NODE, si_pb2.NodeRequest, NODE_LISTS)
        self.applications = Queue(Stream.APPLICATION, si_pb2.ApplicationRequest, APPLICATION_LISTS)
        self.allocations = Queue(Stream.ALLOCATION, si_pb2.AllocationRequest, ALLOCATION_LISTS)
        self.streams = (self.nodes, self.applications, self.allocations)


class SimulatedClient(Requests):
    def _check_alive(self) -> None: ...


class CoreDaemon:
    """`rm` is the shim's link; no two daemons draw the same from `uuids`."""

    def __init__(
        self, rm: ResourceManager, uuids: Iterator[int], partitions: tuple[PartitionSpec, ...] = PARTITIONS
    ) -> None:
        self.now_ns = 0
        self._partitions = partitions
        self.books = Books()
        self.streams = Streams()
        connection = cast(Connection, self.streams)
        self.reporting = Reporting(rm, self.books, _nobody_waits)
        self.client = SimulatedClient(connection, self.reporting, self.books)
        rm.client = cast(Any, self.client)
        self.responses: dict[Stream, deque[bytes]] = {}
        self.calls: deque[Fact | Unheld] = deque()
        """Of the callback stream, in order."""
        self._rm = rm
        self._uuids = uuids
        self._decoder = RequestDecoder(self._clocks)
        self._encoder = ResponseEncoder()
        self._reports = True
        """Until the stream of allocations is open."""
        self.kill()

    @property
    def partition(self) -> Partition:
        return self.scheduler.cluster.resource_managers[RM_ID].partitions["default"]

    def kill(self) -> None:
        """Everything on its way is lost; a new daemon knows nothing, and is told everything."""
        uuids = self._uuids
        self.scheduler = Scheduler(Timeouts(), lambda: f"u{next(uuids)}", matches)
        self.register()

    def register(self) -> None:
        """The client registers, perhaps with the daemon that knows it."""
        self._encoder.forget(RM_ID)
        self.responses = {kind: deque() for kind in (Stream.NODE, Stream.APPLICATION, Stream.ALLOCATION)}
        self.calls.clear()
        request = si_pb2.RegisterResourceManagerRequest(rmID=RM_ID, version="2023-06")
        self.step(self._decoder.registration(request, self._partitions, NO_CONFIGURATION))
        for stream in self.streams.streams:
            stream.begin_anew()
        self._reports = True
        self.reporting.report(cast(Connection, self.streams))

    def open_requests(self) -> list[Queue]:
        """Streams with a request that may be delivered now: in a report they are opened one after the other."""
        if not _all_answered(self.reporting.applications):
            streams: tuple[Queue, ...] = (self.streams.applications,)
        elif not _all_answered(self.reporting.nodes):
            streams = (self.streams.applications, self.streams.nodes)
        else:
            if self._reports:
                self._reports = False
                self.reporting.report_asks(cast(Connection, self.streams))
                self._rm.on_holds_void()
                self.step(read_hello(_hello(self._rm), None).connect)
                self.step(ConnectResourceManager(RM_ID))
            streams = self.streams.streams
        return [stream for stream in streams if stream.queued_items]

    def deliver(self, stream: Queue) -> None:
        payload = stream.next()
        commands: Any
        if stream is self.streams.nodes:
            commands = self._decoder.nodes(si_pb2.NodeRequest.FromString(payload))
        elif stream is self.streams.applications:
            commands = self._decoder.applications(si_pb2.ApplicationRequest.FromString(payload))
        else:
            commands = self._decoder.allocations(si_pb2.AllocationRequest.FromString(payload))
        for command in commands:
            self.step(command)

    def open_responses(self) -> list[Stream]:
        return [kind for kind, payloads in self.responses.items() if payloads]

    def answer(self, kind: Stream, joined: int = 1) -> None:
        """The next responses come, joined as the daemon's sender does, but those about applications."""
        waiting = self.responses[kind]
        number = 1 if kind is Stream.APPLICATION else min(joined, len(waiting))
        payload = b"".join(waiting.popleft() for _ in range(number))
        if kind is Stream.NODE:
            self.reporting.take_nodes(si_pb2.NodeResponse.FromString(payload))
        elif kind is Stream.APPLICATION:
            self.reporting.take_applications(si_pb2.ApplicationResponse.FromString(payload))
        else:
            self.reporting.take_allocations(si_pb2.AllocationResponse.FromString(payload))

    def call(self) -> None:
        """The next call of the callback stream is made, and answered in the same turn."""
        builder = CallBuilder(RM_ID, InterfaceVersion.V2023_06)
        match self.calls.popleft():
            case PredicateWanted() as fact:
                builder.predicate_wanted(fact)
            case PreemptionPredicateWanted() as fact:
                builder.preemption_predicate_wanted(fact)
            case PendingReasonChanged() as fact:
                builder.pending_reason(fact)
            case QueueNameUnused() as fact:
                builder.queue_name_unused(fact)
            case Allocated() | SlotHeld() as fact:
                builder.hold(fact.uuid, fact)
            case Unheld() as ended:
                builder.unhold(ended.uuid, ended.taken_by)
        message = callback_pb2.CallbackCall.FromString(builder.payload())
        if message.holds or message.unholds:
            self._rm.on_holds(message.holds, message.unholds)
        results = []
        for one in message.predicates:
            results.append(PredicateResult(one.callID, cast(Any, self._rm.predicates(one)) or ""))
        for each in message.preemptionPredicates:
            index = cast(Any, self._rm.preemption_predicates(each))
            results.append(PredicateResult(each.callID, "no" if index is None else "", index or 0))
        if message.pendingReasons:
            self._rm.on_pending_reasons(message.pendingReasons)
        if message.applicationNotices:
            self._rm.on_application_notices(message.applicationNotices)
        if results:
            self.step(GivePredicateResults(RM_ID, results))

    def cycle(self) -> None:
        if self.scheduler.wants_cycle():
            self.step(RunCycle(PLACEMENTS_MAX))

    def pass_time(self, now_ns: int) -> None:
        self.now_ns = now_ns
        while (due_ns := self.scheduler.next_deadline_ns()) is not None and due_ns <= now_ns:
            self.step(RingAlarms())

    def step(self, command: Command) -> None:
        facts = self.scheduler.step(self.now_ns, command)
        assert not self.scheduler.failed_checks, self.scheduler.failed_checks
        taken = {one.replaces: one.allocation_key for one in facts if isinstance(one, Allocated) and one.replaces}
        for fact in facts:
            if isinstance(fact, _CALLS) or (isinstance(fact, Allocated) and fact.slot):
                self.calls.append(fact)
            elif isinstance(fact, Released) and fact.slot:
                self.calls.append(Unheld(fact.uuid, taken.get(fact.uuid, "")))
        self._encoder.add(facts, self._clocks())
        for response in self._encoder.drain():
            self.responses[response.stream].append(response.payload)

    def _clocks(self) -> Instant:
        return Instant(self.now_ns, EPOCH_NS + self.now_ns)


def _hello(rm: ResourceManager) -> callback_pb2.CallbackHello:
    hello = hello_of(rm, RM_ID)
    assert hello is not None
    return hello


def _all_answered(answers: Answers) -> bool:
    return not answers._reported


def _nobody_waits(_: Awaitable[None]) -> None:
    raise AssertionError("the shim's callbacks are plain")
