"""How much of an update stream waits, goes out at a time, and is kept to be sent again."""

from __future__ import annotations

import asyncio

import pytest
from grpc import aio

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import SendQueueFull
from schedulerd.client.request_lists import ALLOCATION_LISTS, ASK_RELEASES, ASKS, RELEASES
from schedulerd.client.update_stream import (
    DRAINED_ITEMS_MAX,
    ITEMS_PER_REQUEST_MAX,
    ITEMS_QUEUED_MAX,
    KEPT_BYTES_MAX,
    REQUEST_BYTES_MAX,
    SENT_HEADER,
    UpdateStream,
)
from tests.unit.client.fake_channel import FakeChannel
from tests.unit.virtual_loop import run

A_WHILE_S = 1.0
AN_ASK = si_pb2.AllocationAsk()

Allocations = UpdateStream[si_pb2.AllocationRequest, si_pb2.AllocationResponse]


def a_stream(channel: FakeChannel) -> Allocations:
    parse = si_pb2.AllocationResponse.FromString
    made: Allocations = UpdateStream(
        "UpdateAllocation",
        channel,  # type: ignore[arg-type]
        si_pb2.AllocationRequest,
        ALLOCATION_LISTS,
        parse,
        "rm",
        lambda response: None,
        lambda: None,
    )
    return made


def a_request(size_bytes: int) -> si_pb2.AllocationRequest:
    """One of so many bytes, with the rmID that the stream fills in."""
    request = si_pb2.AllocationRequest(rmID="rm")
    ask = request.asks.add()
    ask.allocationKey = "x" * (size_bytes - 100)
    ask.allocationKey += "x" * (size_bytes - request.ByteSize())
    assert request.ByteSize() == size_bytes
    return request


async def for_a_while(stream: Allocations) -> None:
    """Lets it run until all that can happen has happened."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(A_WHILE_S):
            await stream.run()


async def until_lost(stream: Allocations) -> None:
    with pytest.raises(aio.AioRpcError):
        await stream.run()


def test_so_many_items_wait_and_not_one_more() -> None:
    stream = a_stream(FakeChannel())
    stream.check_room(ITEMS_QUEUED_MAX)
    stream.put(si_pb2.AllocationRequest(), ITEMS_QUEUED_MAX - 1)
    stream.check_room(1)
    stream.add(ASKS, AN_ASK)
    with pytest.raises(SendQueueFull, match=f"{ITEMS_QUEUED_MAX} items wait .* at most {ITEMS_QUEUED_MAX}"):
        stream.check_room(1)


def test_so_many_items_go_out_in_a_request_and_the_next_begins_another() -> None:
    async def main() -> None:
        channel = FakeChannel()
        stream = a_stream(channel)
        for number in range(2 * ITEMS_PER_REQUEST_MAX + 1):
            stream.add(ASKS, si_pb2.AllocationAsk(allocationKey=str(number)))
        await for_a_while(stream)
        requests = channel.streams[0].requests()
        assert [len(request.asks) for request in requests] == [ITEMS_PER_REQUEST_MAX, ITEMS_PER_REQUEST_MAX, 1]
        assert requests[-1].asks[0].allocationKey == str(2 * ITEMS_PER_REQUEST_MAX)

    run(main())


def test_a_request_takes_items_of_so_many_bytes_and_one_is_never_too_large() -> None:
    async def main() -> None:
        channel = FakeChannel()
        stream = a_stream(channel)
        quarter = REQUEST_BYTES_MAX // 4
        for size in (*[quarter] * 4, *[quarter] * 3, quarter + 1, 2 * REQUEST_BYTES_MAX, 10):
            ask = si_pb2.AllocationAsk(allocationKey="x" * (size - 8))
            ask.allocationKey += "x" * (size - ask.ByteSize())
            assert ask.ByteSize() == size
            stream.add(ASKS, ask)
        await for_a_while(stream)
        assert [len(request.asks) for request in channel.streams[0].requests()] == [4, 3, 1, 1, 1]

    run(main())


def test_items_of_all_lists_go_out_in_the_order_of_the_calls() -> None:
    """Behind a list that is taken later, an item of an earlier one begins another request."""

    async def main() -> None:
        channel = FakeChannel()
        stream = a_stream(channel)
        key = "key" * 100  # longer than one byte can say
        stream.add(ASKS, si_pb2.AllocationAsk(allocationKey=key))
        stream.add(RELEASES, si_pb2.AllocationRelease(UUID="a"))
        stream.add(RELEASES, si_pb2.AllocationRelease(UUID="b"))
        stream.add(ASK_RELEASES, si_pb2.AllocationAskRelease(allocationKey="c"))
        stream.add(ASKS, AN_ASK)
        await for_a_while(stream)
        first, second = channel.streams[0].requests()
        assert first == si_pb2.AllocationRequest(
            rmID="rm",
            asks=[si_pb2.AllocationAsk(allocationKey=key)],
            releases=si_pb2.AllocationReleasesRequest(
                allocationsToRelease=[si_pb2.AllocationRelease(UUID="a"), si_pb2.AllocationRelease(UUID="b")],
                allocationAsksToRelease=[si_pb2.AllocationAskRelease(allocationKey="c")],
            ),
        )
        assert second == si_pb2.AllocationRequest(rmID="rm", asks=[AN_ASK])

    run(main())


def test_a_drain_ends_when_so_many_items_are_left_and_not_before() -> None:
    async def main() -> None:
        channel = FakeChannel()
        channel.may_take(0)
        stream = a_stream(channel)
        for items in (1, 1, DRAINED_ITEMS_MAX):
            stream.put(si_pb2.AllocationRequest(), items)
        draining = asyncio.create_task(stream.drain())
        running = asyncio.create_task(stream.run())
        await asyncio.sleep(A_WHILE_S)
        for left in (2, 1, 0):
            assert stream.queued_items == DRAINED_ITEMS_MAX + left
            assert draining.done() == (left == 0)
            channel.may_take(1)
            await asyncio.sleep(A_WHILE_S)
        running.cancel()

    run(main())


@pytest.mark.parametrize(("more_bytes", "kept"), [(0, 4), (1, 3)])
def test_the_last_requests_of_so_many_bytes_are_sent_again_after_a_loss(more_bytes: int, kept: int) -> None:
    """Of four whose size is the bound, or one byte more; what came before them is not."""

    async def main() -> None:
        channel = FakeChannel(streams_last_s=A_WHILE_S, resumes=True)
        stream = a_stream(channel)
        sizes = [KEPT_BYTES_MAX, *[KEPT_BYTES_MAX // 4] * 3, KEPT_BYTES_MAX // 4 + more_bytes]
        for size in sizes:
            stream.put(a_request(size), 1)
        await until_lost(stream)
        await until_lost(stream)
        first, again = channel.streams
        assert [len(payload) for payload in first.written[1:]] == sizes
        assert again.headers[SENT_HEADER] == str(len(sizes) - kept)
        assert again.written[1:] == first.written[-kept:]

    run(main())


def test_a_request_that_is_larger_than_what_is_kept_is_kept_alone() -> None:
    async def main() -> None:
        channel = FakeChannel(streams_last_s=A_WHILE_S, resumes=True)
        stream = a_stream(channel)
        for size in (1000, KEPT_BYTES_MAX + 1):
            stream.put(a_request(size), 1)
        await until_lost(stream)
        await until_lost(stream)
        assert [len(payload) for payload in channel.streams[1].written[1:]] == [KEPT_BYTES_MAX + 1]

    run(main())
