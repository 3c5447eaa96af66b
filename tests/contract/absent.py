"""A resource manager under load that is away for a while, in the dialect of its choice; what it has heard in the end.

`python -m tests.contract.absent SECONDS...` plays it with real pauses and prints what came of it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import grpc

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from tests.contract import raw_client, raw_client_2021
from tests.contract.cable import Cable
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, Record, UpdateStream
from tests.contract.raw_client_2021 import RawClient2021, merged

DIALECTS = ("2021-02", "2023-06")
PODS = 3_000
NODES = 30
PODS_PER_MESSAGE = 100
SHORT_PODS = 400
SHORT_MS = 2_000
"""How long allocations may run that are to end while the RM is away: it has heard of all of them long before that."""


class Heard(NamedTuple):
    """What responses say, in order."""

    placed: list[str]
    """Keys."""
    ended: list[str]
    """UUIDs that the scheduler wants released."""


CONNECTION_SECONDS_MAX = 5
"""A connection that stands still for longer than about twice that is taken for dead, which is another story."""

AGAIN = Heard(["again"], [])
"""What is heard after a resynchronisation by who asks for this one pod."""


ClientT = TypeVar("ClientT", bound=RawClient)


class Absent(ABC, Generic[ClientT]):
    """What the two dialects do differently in these stories; every one is about the stream that carries allocations."""

    def __init__(self, client: ClientT, record: Record | None) -> None:
        """With a `record` it takes part in resumption, which its stream is opened with."""
        self.client: ClientT = client
        self.record = record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.channel.close()

    def heard(self, responses: Iterable[Any]) -> Heard:
        got = list(responses)
        return Heard([one.allocationKey for one in self.allocations(got)], [one.UUID for one in self.releases(got)])

    @abstractmethod
    def set_up(self) -> None:
        """Registers, with nodes that have room for all pods and the application `app-1`."""

    @abstractmethod
    def open(self) -> UpdateStream[Any]:
        """Opens the stream, and says whose it is."""

    @abstractmethod
    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> Any:
        """A request for a pod of each key."""

    @abstractmethod
    def allocations(self, responses: Iterable[Any]) -> list[Any]:
        """Those that are new, in order."""

    @abstractmethod
    def releases(self, responses: Iterable[Any]) -> list[Any]:
        """In order."""

    @abstractmethod
    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        """Whether a stream that ended so told to register again."""

    @abstractmethod
    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        """Registers again and reports a node with these allocations; the stream that carries allocations."""


class Absent2023(Absent[RawClient]):
    def set_up(self) -> None:
        self.client.set_up(nodes=NODES, memory=10 * PODS, vcore=PODS)

    def open(self) -> UpdateStream[si_pb2.AllocationResponse]:
        stream = self.client.allocations(record=self.record)
        stream.send(self.client.hello())
        return stream

    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> si_pb2.AllocationRequest:
        request = self.client.asks("app-1", keys)
        for ask in request.asks:
            ask.executionTimeoutMilliSeconds = timeout_ms
        return request

    def allocations(self, responses: Iterable[si_pb2.AllocationResponse]) -> list[Any]:
        return raw_client.allocated(responses)

    def releases(self, responses: Iterable[si_pb2.AllocationResponse]) -> list[Any]:
        return [one for response in responses for one in response.released]

    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        return not responses and code is grpc.StatusCode.ABORTED and details.startswith("RESYNC")

    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        self.client.register()
        applications, nodes = self.client.applications(), self.client.nodes()
        applications.send(self.client.application("app-1"))
        applications.until(lambda got: any(response.accepted for response in got))
        request = self.client.node("node-0", 10 * PODS, PODS)
        request.nodes[0].existingAllocations.extend(existing)
        nodes.send(request)
        nodes.until(lambda got: any(response.accepted for response in got))
        return self.open()


class Absent2021(Absent[RawClient2021]):
    def set_up(self) -> None:
        self.client.register()
        stream = self.open()
        request = self.client.everything([f"node-{number}" for number in range(NODES)], "app-1", [])
        for node in request.newSchedulableNodes:
            node.schedulableResource.CopyFrom(raw_client_2021.resource(memory=10 * PODS, vcore=PODS))
        stream.send(request)
        stream.until(lambda got: len(merged(got).acceptedNodes) == NODES)
        stream.cancel()

    def open(self) -> UpdateStream[si_2021_pb2.UpdateResponse]:
        stream = self.client.updates(record=self.record)
        stream.send(self.client.update())
        return stream

    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> si_2021_pb2.UpdateRequest:
        request = self.client.work("app-1", keys)
        for ask in request.asks:
            ask.executionTimeoutMilliSeconds = timeout_ms
        return request

    def allocations(self, responses: Iterable[si_2021_pb2.UpdateResponse]) -> list[Any]:
        return raw_client_2021.placed(responses)

    def releases(self, responses: Iterable[si_2021_pb2.UpdateResponse]) -> list[Any]:
        return [one for response in responses for one in response.releasedAllocations]

    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        told = [response.action for response in responses]
        return told == [si_2021_pb2.UpdateResponse.RESYNC] and code is grpc.StatusCode.OK

    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        self.client.register()
        stream = self.client.updates()
        request = self.client.everything(["node-0"], "app-1", [])
        (node,) = request.newSchedulableNodes
        node.schedulableResource.CopyFrom(raw_client_2021.resource(memory=10 * PODS, vcore=PODS))
        node.existingAllocations.extend(existing)
        stream.send(request)
        stream.until(lambda got: bool(merged(got).acceptedNodes))
        return stream


def speaking(dialect: str, target: str, record: Record | None = None) -> Absent[Any]:
    """A resource manager of one of `DIALECTS`."""
    if dialect == "2021-02":
        return Absent2021(RawClient2021(target), record)
    return Absent2023(RawClient(target), record)


def pods(count: int) -> list[str]:
    return [f"pod-{number:05}" for number in range(count)]


def flood(rm: Absent[Any], stream: UpdateStream[Any], count: int = PODS, timeout_ms: int = 0) -> None:
    """Sends so many asks, in many messages."""
    keys = pods(count)
    for first in range(0, count, PODS_PER_MESSAGE):
        stream.send(rm.asks(keys[first : first + PODS_PER_MESSAGE], timeout_ms))


def cable_pulled(cable: Cable, rm: Absent[Any], pause: Callable[[], None]) -> Heard:
    """The network stands still in the middle of a flood of placements, and then goes on."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    got = [stream.next()]
    cable.pull()
    pause()
    cable.put_back()
    while len(rm.heard(got).placed) < PODS:
        got.append(stream.next())
    return rm.heard(got)


def until_nothing_is_sent(daemon: DaemonProcess) -> None:
    """What is being written when a stream is cancelled may have arrived and comes again on the next one."""
    before, now = -1.0, daemon.metric("schedulerd_outbox_depth")
    while now != before:
        before, now = now, daemon.metric("schedulerd_outbox_depth")


def away_while_all_ends(daemon: DaemonProcess, rm: Absent[Any], pause: Callable[[], None]) -> tuple[list[str], Heard]:
    """There is no stream while the time of all allocations runs out: their UUIDs, and what is heard on the next one."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream, SHORT_PODS, SHORT_MS)
    got = stream.until(lambda got: len(rm.heard(got).placed) == SHORT_PODS)
    until_nothing_is_sent(daemon)
    stream.cancel()
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
    pause()
    back = rm.open()
    rest = back.until(lambda more: len(rm.heard(more).ended) >= SHORT_PODS)
    return [one.UUID for one in rm.allocations(got)], rm.heard(rest)


def cut_off(cable: Cable, rm: Absent[Any]) -> Heard:
    """The connection breaks in the middle of a flood, and the RM comes back at once and asks for one more."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    got = [stream.next()]
    cable.cut()
    got += stream.rest()[0]
    while "the last" not in rm.heard(got).placed:
        back = rm.open()
        back.send(rm.asks(["the last"]))
        # The channel may still have given this call to the connection that is breaking, and then it ends with that.
        with contextlib.suppress(AssertionError):
            while "the last" not in rm.heard(got).placed:
                got.append(back.next())
    return rm.heard(got)


def cut_off_again_and_again(
    daemon: DaemonProcess, cable: Cable, rm: Absent[Any], pause: Callable[[], None]
) -> tuple[list[str], Heard]:
    """The connection breaks in floods of asks, of placements and of endings: the UUIDs placed, and all it hears."""
    rm.set_up()
    got: list[Any] = []
    stream = rm.open()
    flood(rm, stream, timeout_ms=SHORT_MS)
    for enough in (1, PODS // 2, PODS + PODS // 2):
        while sum(map(len, rm.heard(got))) < enough:
            got.append(stream.next())
        cable.cut()
        got += stream.rest()[0]
        daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "paused")
        pause()
        stream = rm.open()
    while sum(map(len, rm.heard(got))) < 2 * PODS:
        got.append(stream.next())
    return [one.UUID for one in rm.allocations(got)], rm.heard(got)


def away_for_too_long(daemon: DaemonProcess, rm: Absent[Any], pause: Callable[[], None]) -> Heard:
    """It leaves in the middle of a flood and is stopped: it is told so once, reports what runs, and goes on."""
    rm.set_up()
    stream = rm.open()
    flood(rm, stream)
    running = rm.allocations([stream.next()])[:3]
    stream.cancel()
    pause()
    daemon.wait_for_event("resource manager changed", lambda line: line["state"] == "stopped")
    assert rm.is_resync(*rm.open().rest())
    for one in running:
        one.nodeID = "node-0"
    again = rm.report(running)
    again.send(rm.asks(["again"]))
    return rm.heard(again.until(lambda got: bool(rm.heard(got).placed)))


def main(seconds: Sequence[float], timeout_seconds: float) -> None:
    for dialect in DIALECTS:
        for away in seconds:
            _play_in_time(dialect, timeout_seconds, away)
        with (
            DaemonProcess("--reconnect-timeout-s", str(timeout_seconds)) as daemon,
            speaking(dialect, daemon.target) as rm,
        ):
            # The last seconds pass in waiting for the event, which is not waited for as long as for all of the timeout.
            heard = away_for_too_long(daemon, rm, lambda: time.sleep(max(0, timeout_seconds - 5)))
            print(f"{dialect}, past {timeout_seconds} s: resynchronised, and goes on: {heard == AGAIN}")


def _play_in_time(dialect: str, timeout_seconds: float, away_seconds: float) -> None:
    with DaemonProcess("--reconnect-timeout-s", str(timeout_seconds)) as daemon:
        if away_seconds <= CONNECTION_SECONDS_MAX:
            with Cable(daemon.target) as cable, speaking(dialect, cable.target) as rm:
                heard = cable_pulled(cable, rm, lambda: time.sleep(away_seconds))
                told = heard.placed == pods(PODS)
                print(f"{dialect}, cable pulled for {away_seconds} s: all in order, once each: {told}")
        with Cable(daemon.target) as cable, speaking(dialect, cable.target, Record()) as rm:
            uuids, heard = cut_off_again_and_again(daemon, cable, rm, lambda: time.sleep(away_seconds))
            told = heard == Heard(pods(PODS), uuids)
            print(f"{dialect}, cut off for {away_seconds} s, three times: all in order, once each: {told}")
        with speaking(dialect, daemon.target) as rm:
            uuids, heard = away_while_all_ends(daemon, rm, lambda: time.sleep(away_seconds))
            print(f"{dialect}, no stream for {away_seconds} s: all in order, once each: {heard.ended == uuids}")


if __name__ == "__main__":
    main([float(argument) for argument in sys.argv[1:]] or [1, 30], timeout_seconds=40)
