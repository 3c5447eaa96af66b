"""Predicates over a real callback stream, whose end is in another process and thinks for 20 ms, or for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.callback_process import NEVER_MS, CallbackProcess
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, UpdateStream, allocated

DELAY_MS = 20
ASKS = 1_000


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One with a time limit for results that no test waits for. What a test leaves ends as the next one registers."""
    with DaemonProcess("--predicates-timeout-s", "1000") as process:
        yield process


@pytest.fixture
def asked(daemon: DaemonProcess) -> Iterator[RawClient]:
    """A resource manager whose callbacks are served by another process."""
    with RawClient(daemon.target, "rm") as client:
        yield client


@pytest.fixture
def other(daemon: DaemonProcess) -> Iterator[RawClient]:
    """A resource manager without callbacks."""
    with RawClient(daemon.target, "other") as client:
        yield client


def keys(count: int, prefix: str = "pod") -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def set_up(client: RawClient, pods: int) -> UpdateStream[si_pb2.AllocationResponse]:
    """With room for that many pods on ten nodes; the stream of its allocations."""
    client.set_up(nodes=10, memory=pods, vcore=pods // 10)
    stream = client.allocations()
    stream.send(client.hello())
    return stream


def placed(stream: UpdateStream[si_pb2.AllocationResponse], count: int) -> list[str]:
    """The keys of the next `count` allocations, when they have come."""
    return [one.allocationKey for one in allocated(stream.until(lambda got: len(allocated(got)) >= count))]


def assert_sound(daemon: DaemonProcess, *, pending: int = 0) -> None:
    assert daemon.state()["violations"] == []
    pending_asks = daemon.metric("schedulerd_pending_allocations", rm="rm", partition="default", queue="root")
    assert pending_asks == pending


def test_a_thousand_asks_are_placed_with_a_say_that_takes_its_time(daemon: DaemonProcess, asked: RawClient) -> None:
    names = ("calls_total", "answer_seconds_count", "late_answers_total")
    before = [daemon.metric(f"schedulerd_callback_{name}", call="predicates") for name in names]
    stream = set_up(asked, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, DELAY_MS):
        stream.send(asked.asks("app-1", keys(ASKS)))
        assert sorted(placed(stream, ASKS)) == sorted(keys(ASKS))
        counts = [daemon.metric(f"schedulerd_callback_{name}", call="predicates") for name in names]
        assert [count - old for count, old in zip(counts, before, strict=True)] == [ASKS, ASKS, 0]
        assert_sound(daemon)


def test_no_ask_waits_for_the_predicate_results_of_others(
    daemon: DaemonProcess, asked: RawClient, other: RawClient
) -> None:
    stream = set_up(asked, ASKS)
    unasked = set_up(other, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, NEVER_MS) as process:
        stream.send(asked.asks("app-1", keys(100)))
        process.wait_for("asked")
        unasked.send(other.asks("app-1", keys(ASKS)))
        assert sorted(placed(unasked, ASKS)) == sorted(keys(ASKS))
        assert_sound(daemon, pending=100)


def test_a_stream_that_dies_before_its_results_leaves_no_ask_waiting(daemon: DaemonProcess, asked: RawClient) -> None:
    stream = set_up(asked, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, NEVER_MS) as process:
        stream.send(asked.asks("app-1", keys(ASKS)))
        process.wait_for("asked")
        process.kill()
        assert sorted(placed(stream, ASKS)) == sorted(keys(ASKS))
    assert_sound(daemon)


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_stream_that_dies_between_its_results_leaves_no_ask_waiting(
    daemon: DaemonProcess, asked: RawClient, batches: int
) -> None:
    stream = set_up(asked, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, DELAY_MS) as process:
        for first in range(0, ASKS, 100):
            stream.send(asked.asks("app-1", keys(ASKS)[first : first + 100]))
        for _ in range(batches):
            process.wait_for("asked")
        process.kill()
        assert sorted(placed(stream, ASKS)) == sorted(keys(ASKS))
    assert_sound(daemon)


def test_the_next_stream_is_asked_what_the_one_before_did_not_answer(daemon: DaemonProcess, asked: RawClient) -> None:
    stream = set_up(asked, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, NEVER_MS) as silent:
        stream.send(asked.asks("app-1", keys(100)))
        silent.wait_for("asked")
        with CallbackProcess(daemon.target, asked.rm_id, DELAY_MS):
            assert sorted(placed(stream, 100)) == sorted(keys(100))
            assert_sound(daemon)


def test_an_rm_that_is_registered_again_starts_anew(daemon: DaemonProcess, asked: RawClient) -> None:
    stream = set_up(asked, ASKS)
    with CallbackProcess(daemon.target, asked.rm_id, NEVER_MS) as silent:
        stream.send(asked.asks("app-1", keys(100)))
        silent.wait_for("asked")
        stream = set_up(asked, ASKS)
        stream.send(asked.asks("app-1", keys(100, "again")))
        assert sorted(placed(stream, 100)) == sorted(keys(100, "again"))
    assert_sound(daemon)


def test_an_ask_without_a_result_in_time_says_so_and_is_placed_when_no_predicates_are_wanted() -> None:
    with DaemonProcess("--predicates-timeout-s", "0.2") as daemon, RawClient(daemon.target, "rm") as client:
        stream = set_up(client, ASKS)
        with CallbackProcess(daemon.target, client.rm_id, NEVER_MS) as silent:
            stream.send(client.asks("app-1", keys(1)))
            silent.wait_for("asked")
            while "no result" not in str(daemon.state()):
                pass  # until the test's own time limit, if it is in vain
            silent.kill()
            assert placed(stream, 1) == keys(1)
        assert_sound(daemon)
