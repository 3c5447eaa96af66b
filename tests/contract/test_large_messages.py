"""Messages far larger than anybody needs: refused with a reason, in bounded memory, while others are served."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import grpc
import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.checks import TAGS_MAX
from schedulerd.wire.response_builder import REJECTED_ID_LENGTH_MAX
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated
from tests.hostile_bytes import field

MANY = 1_000_000
TIMES = 3
MESSAGE_BYTES_MAX = 20_000_000
GROWTH_BYTES_MAX = 300 << 20
"""What the daemon keeps of its heap once it has read the largest message here; it does not grow with the number."""
ASKS = si_pb2.AllocationRequest.DESCRIPTOR.fields_by_name["asks"].number
TAGS = si_pb2.AllocationAsk.DESCRIPTOR.fields_by_name["tags"].number


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess("--max-message-bytes", str(MESSAGE_BYTES_MAX)) as process:
        yield process


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[RawClient]:
    with RawClient(daemon.target) as client:
        client.set_up()
        yield client


def raw_stream(client: RawClient) -> UpdateStream[bytes]:
    """An allocation stream whose requests are bytes, to be sent at once when it is known whose it is."""
    stream: UpdateStream[bytes] = UpdateStream(client.channel.stream_stream("/si.v1.Scheduler/UpdateAllocation"))
    stream.send(client.hello().SerializeToString())
    return stream


def a_million_tags(client: RawClient) -> bytes:
    (ask,) = client.asks("app-1", ["tagged"]).asks
    entry = field(TAGS, field(1, b"000000"))[: -len("000000")]
    tags = b"".join(entry + b"%06d" % number for number in range(MANY))
    return client.hello().SerializeToString() + field(ASKS, ask.SerializeToString() + tags)


def test_a_million_entries_and_messages_above_the_limit_take_no_memory(
    daemon: DaemonProcess, client: RawClient
) -> None:
    before_bytes = daemon.resident_bytes()
    for raw, reason in (
        (field(ASKS, b"") * MANY, "the request has more than 250000 items"),
        (b"\x00" * (MESSAGE_BYTES_MAX + 1), "larger than max"),
    ):
        for _ in range(TIMES):
            stream = raw_stream(client)
            stream.send(raw)
            code, details = stream.status()
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert reason in details
    print(f"{2 * TIMES} messages survived, the daemon holds {(daemon.resident_bytes() - before_bytes) >> 20} MiB more")
    assert daemon.resident_bytes() - before_bytes < GROWTH_BYTES_MAX // 2


def test_a_million_tags_of_an_ask_are_that_asks_mistake(daemon: DaemonProcess, client: RawClient) -> None:
    before_bytes = daemon.resident_bytes()
    raw = a_million_tags(client)
    for _ in range(TIMES):
        stream = raw_stream(client)
        stream.send(raw)
        answer = si_pb2.AllocationResponse.FromString(stream.next())
        assert [one.reason for one in answer.rejected] == [
            f"tags have more than {TAGS_MAX} entries; at most {TAGS_MAX} are allowed"
        ]
        stream.half_close()
    print(f"{TIMES} messages survived, the daemon holds {(daemon.resident_bytes() - before_bytes) >> 20} MiB more")
    assert daemon.resident_bytes() - before_bytes < GROWTH_BYTES_MAX
    assert daemon.state()["violations"] == []


@pytest.mark.parametrize("letter", ["x", "%", "\n", "ä", "\U0001f600"])
def test_problems_of_a_queue_file_reach_its_sender_in_any_script(client: RawClient, letter: str) -> None:
    keys = ", ".join(f'"{number}{letter * 70}": 1' for number in range(200))
    with pytest.raises(grpc.RpcError) as refused:
        client.register(f"{{{keys}}}".replace("\n", "\\n"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = refused.value.details() or ""
    assert "(shortened; `schedulerd validate` shows everything)" in details
    assert 3_000 < len(quote(details, safe=" ")) < 8_000


def test_an_id_of_megabytes_is_that_items_mistake_and_the_stream_goes_on(client: RawClient) -> None:
    """Were it sent back as it is, no client would take the answer, which would be the first on every later stream."""
    long = "x" * 5_000_000
    words = "(5000000 characters); at most 1024 characters are allowed"

    applications = client.applications()
    applications.send(client.application(long))
    (application,) = applications.next().rejected
    assert (application.applicationID, words in application.reason) == (long[:REJECTED_ID_LENGTH_MAX], True)

    nodes = client.nodes()
    nodes.send(client.node(long))
    (node,) = nodes.next().rejected
    assert (node.nodeID, words in node.reason) == (long[:REJECTED_ID_LENGTH_MAX], True)

    asks = client.allocations()
    for request in (client.asks("app-1", [long]), client.asks(long, ["pod"])):
        asks.send(request)
        (ask,) = asks.next().rejected
        assert words in ask.reason
        assert request.asks[0].allocationKey.startswith(ask.allocationKey)
        assert request.asks[0].applicationID.startswith(ask.applicationID)
    asks.send(client.asks("app-1", ["good"]))
    assert [one.allocationKey for one in allocated(asks.until(lambda got: bool(allocated(got))))] == ["good"]
