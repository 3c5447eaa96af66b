"""Anything in any field: bad items get a reason back, good ones are served, and the daemon's books still balance."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated, resource
from tests.unit.wire.messages import messages, spoiled

RM = "rm"
KNOWN = ["app-1", "node-0", "pod-1", "uuid-1", "root.a", "root.b", "root", "default", "[rm]default", "vcore", "memory"]
KNOWN += ["si/node-partition", "ready", "false"]


class Session:
    """A resource manager with all streams open, which can wait until everything it sent was handled."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.client = RawClient(daemon.target, RM)
        self.client.set_up()
        self.nodes, self.applications = self.client.nodes(), self.client.applications()
        self.allocations = self.client.allocations()
        self._barriers = itertools.count()
        self.applications.send(self.client.application("barrier", "root.b"))
        self.applications.until(lambda got: any(app.applicationID == "barrier" for r in got for app in r.accepted))

    def settle(self) -> tuple[list[Any], list[Any], list[Any]]:
        """All responses up to those to one more request on each stream, whose answers cannot be mistaken."""
        name = f"barrier-{next(self._barriers)}"
        self.nodes.send(self.client.node(name))
        nodes = self.nodes.until(lambda got: any(node.nodeID == name for r in got for node in r.accepted))
        self.applications.send(self.client.application(name, "root.b"))
        applications = self.applications.until(
            lambda got: any(app.applicationID == name for r in got for app in r.accepted)
        )
        self.allocations.send(self.client.asks("barrier", [name], memory=-1))
        allocations = self.allocations.until(
            lambda got: any(ask.allocationKey == name for r in got for ask in r.rejected)
        )
        return nodes, applications, allocations


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with DaemonProcess("--early-message-timeout-s", "0") as daemon:
        session = Session(daemon)
        yield session
        session.client.channel.close()


GOOD_NODE = si_pb2.NodeInfo(action=si_pb2.NodeInfo.CREATE, schedulableResource=resource(vcore=10, memory=100))
GOOD_ASK = si_pb2.AllocationAsk(applicationID="barrier", maxAllocations=2, resourceAsk=resource(vcore=1, memory=1))
GOOD_APPLICATION = si_pb2.AddApplicationRequest(queueName="root.a", ugi=si_pb2.UserGroupInformation(user="u"))


@st.composite
def batches(draw: st.DrawFn) -> tuple[si_pb2.NodeRequest, si_pb2.ApplicationRequest, si_pb2.AllocationRequest]:
    """One request per stream: garbage through and through, with items among it that are good but for a few fields."""
    nodes = draw(messages(si_pb2.NodeRequest, KNOWN, rmID=RM))
    applications = draw(messages(si_pb2.ApplicationRequest, KNOWN, rmID=RM))
    allocations = draw(messages(si_pb2.AllocationRequest, KNOWN, rmID=RM))
    for _ in range(draw(st.integers(0, 3))):
        number = draw(st.integers(0, 10**6))
        GOOD_NODE.nodeID, GOOD_ASK.allocationKey = f"node-{number}", f"pod-{number}"
        GOOD_APPLICATION.applicationID = f"app-{number}"
        nodes.nodes.append(draw(spoiled(GOOD_NODE, KNOWN)))
        allocations.asks.append(draw(spoiled(GOOD_ASK, KNOWN)))
        applications.new.append(draw(spoiled(GOOD_APPLICATION, KNOWN)))
    return nodes, applications, allocations


@pytest.mark.timeout(240)  # a look at the state after each example waits its turn
def test_garbage_is_answered_and_changes_nothing_it_should_not(session: Session) -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
    @given(batches())
    def send(batch: tuple[si_pb2.NodeRequest, si_pb2.ApplicationRequest, si_pb2.AllocationRequest]) -> None:
        session.nodes.send(batch[0])
        session.applications.send(batch[1])
        session.allocations.send(batch[2])
        answers = session.settle()

        rejected = [item for responses in answers for response in responses for item in response.rejected]
        assert all(item.reason for item in rejected)
        assert session.daemon.state()["violations"] == []
        reached["rejected"] += len(rejected)
        reached["nodes"] += sum(len(response.accepted) for response in answers[0]) - 1
        reached["applications"] += sum(len(response.accepted) for response in answers[1]) - 1
        reached["allocations"] += len(allocated(answers[2]))
        reached["releases"] += sum(len(response.released) for response in answers[2])

    send()
    assert min(reached[what] for what in ("rejected", "nodes", "applications", "allocations")) > 2, reached


@given(raw=st.binary(max_size=60))
@example(raw=b"\x0a")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_that_are_no_message_end_their_stream_and_nothing_else(session: Session, raw: bytes) -> None:
    stream: UpdateStream[bytes] = UpdateStream(session.client.channel.stream_stream("/si.v1.Scheduler/UpdateNode"))
    stream.send(raw)
    stream.half_close()
    code, details = stream.status()
    assert code.name in {"OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION"}, details
    session.settle()
