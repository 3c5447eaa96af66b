"""Which writes leave, when, and how many at a time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest

from schedulerd.kubernetes.api import PoolSettings, Result, pool
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.pool import BUGS_MAX, TRACEBACK_EVERY_S, TokenBucket
from schedulerd.kubernetes.api.writes import Bind, Create, Delete, Patch, Reference, WriteEvent
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Retry, Urgency
from schedulerd.kubernetes.api.writes.event_records import Event, EventName
from tests.kubernetes.api.world import UnixConnector, World, pause
from tests.kubernetes.fake import Fault

U = "u"


def event(name: str, count: int = 1) -> WriteEvent:
    about = Event(EventName(name, "default"), Reference("Pod", "p", U, "default"), "Normal", "", "", "", "", "", "")
    return WriteEvent(name, about, count, "", was_sent=False)


def patch(name: str, message: str) -> Patch:
    return Patch(r.PODS, "default", name, "", {"status": {"message": message}})


async def test_the_urgent_ones_leave_first() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        done = [pool.submit(Delete(r.PODS, "default", "first", U))]
        await pause()
        done += [
            pool.submit(event("e")),
            pool.submit(patch("p", "m")),
            pool.submit(Create(r.PODS, "default", "c", b"{}")),
            pool.submit(Delete(r.PODS, "default", "d", U)),
            pool.submit(Bind("default", "b", U, "n1")),
        ]
        await pause()
        world.cluster.faults.released.set()
        await asyncio.gather(*done)
        paths = [f"{method} {path.rpartition('/')[2]}" for method, path in world.cluster.server.requests]
        order = [path for path in paths if not path.startswith("GET")]
        assert order[:6] == ["DELETE first", "POST binding", "DELETE d", "POST pods", "PATCH status", "POST events"]


async def test_no_more_are_in_flight_than_allowed() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(in_flight_max=4))
        world.cluster.faults.add(Fault("hang"), method="DELETE", times=100)
        for i in range(20):
            pool.submit(Delete(r.PODS, "default", f"p{i}", U))
        await pause()
        assert world.cluster.server.in_flight == 4
        assert world.metrics.in_flight() == 4
        assert world.metrics.queued("delete") == 16


async def test_so_many_leave_in_a_second() -> None:
    async with World() as world:
        loop = asyncio.get_running_loop()
        pool = world.pool(PoolSettings(rate_per_s=10.0, burst=5))
        started_s = loop.time()
        done = [pool.submit(Delete(r.PODS, "default", f"p{i}", U)) for i in range(25)]
        await asyncio.gather(*done)
        assert 1.99 < loop.time() - started_s < 2.1


async def test_writes_that_the_rate_holds_back_leave_together() -> None:
    async with World() as world:
        loop = asyncio.get_running_loop()
        pool = world.pool(PoolSettings(in_flight_max=1_000, rate_per_s=1_000.0, burst=20))
        left_s: set[float] = set()
        leave = pool._leave

        def seen(entry: object) -> None:
            left_s.add(loop.time())
            leave(entry)  # type: ignore[arg-type]

        pool._leave = seen  # type: ignore[method-assign]
        started_s = loop.time()
        await asyncio.gather(*(pool.submit(Delete(r.PODS, "default", f"p{i}", U)) for i in range(200)))
        assert 0.18 < loop.time() - started_s < 0.2
        assert len(left_s) <= 1 + 180 / 10 + 1


async def test_a_small_burst_does_not_lower_the_rate() -> None:
    async with World() as world:
        loop = asyncio.get_running_loop()
        pool = world.pool(PoolSettings(rate_per_s=1_000.0, burst=1))
        started_s = loop.time()
        await asyncio.gather(*(pool.submit(Delete(r.PODS, "default", f"p{i}", U)) for i in range(200)))
        assert 0.19 < loop.time() - started_s < 0.22


def test_a_bucket_keeps_no_more_than_its_burst() -> None:
    bucket = TokenBucket(10.0, 2, 0.0)
    assert [bucket.take(100.0), bucket.take(100.0)] == [0.0, 0.0]
    assert bucket.take(100.0) == pytest.approx(0.1)
    assert bucket.take(100.1) == 0.0


async def test_a_write_that_waits_to_be_tried_again_holds_no_slot() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.pod("a")
        world.cluster.pod("b")
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=30), subresource="binding", name="a")
        first = pool.submit(Bind("default", "a", U, "n1"))
        second = pool.submit(Bind("default", "b", U, "n1"))
        await pause(1.0)
        assert second.done()
        assert not first.done()
        await pause(30.0)
        assert first.done()


async def test_the_newest_patch_of_an_object_is_the_one_that_leaves() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        pool.submit(Delete(r.PODS, "default", "x", U))
        done = [pool.submit(patch("a", message)) for message in ("one", "two", "three")]
        await pause()
        world.cluster.faults.released.set()
        results = [outcome.result for outcome in await asyncio.gather(*done)]
        assert results == [Result.SUPERSEDED, Result.SUPERSEDED, Result.DONE]
        pod = world.cluster.get(r.PODS, "a")
        assert pod is not None
        assert pod["status"]["message"] == "three"


async def test_patches_of_different_parts_of_an_object_all_leave() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        pool.submit(Delete(r.PODS, "default", "x", U))
        conditions = [{"type": kind, "status": "False", "reason": "R"} for kind in ("One", "Two", "One")]
        done = [
            pool.submit(Patch(r.PODS, "default", "a", "", {"status": {"conditions": [one]}}, part=one["type"]))
            for one in conditions
        ]
        done.append(pool.submit(patch("a", "m")))
        await pause()
        world.cluster.faults.released.set()
        results = [outcome.result for outcome in await asyncio.gather(*done)]
        assert results == [Result.SUPERSEDED, Result.DONE, Result.DONE, Result.DONE]
        pod = world.cluster.get(r.PODS, "a")
        assert pod is not None
        assert sorted(one["type"] for one in pod["status"]["conditions"]) == ["One", "Two"]
        assert pod["status"]["message"] == "m"


async def test_patches_of_an_object_leave_one_after_the_other() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pool = world.pool()
        world.cluster.faults.add(Fault("hang_after"), method="PATCH")
        first = pool.submit(patch("a", "one"))
        await pause()
        second, third = pool.submit(patch("a", "two")), pool.submit(patch("a", "three"))
        await pause(5.0)
        assert len(world.requests("PATCH")) == 1
        world.cluster.faults.released.set()
        results = [outcome.result for outcome in await asyncio.gather(first, second, third)]
        assert results == [Result.SUPERSEDED, Result.SUPERSEDED, Result.DONE]
        pod = world.cluster.get(r.PODS, "a")
        assert pod is not None
        assert pod["status"]["message"] == "three"


async def test_a_newer_patch_takes_the_place_of_one_that_waits_to_be_tried_again() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pool = world.pool()
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=5), method="PATCH")
        first = pool.submit(patch("a", "one"))
        await pause(1.0)
        second = pool.submit(patch("a", "two"))
        assert (await first).result is Result.SUPERSEDED
        assert len(world.requests("PATCH")) == 1
        assert (await second).result is Result.DONE
        assert asyncio.get_running_loop().time() > 5.0


async def test_the_oldest_events_are_dropped_and_counted() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(in_flight_max=1, events_max=3))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        pool.submit(Delete(r.PODS, "default", "x", U))
        done = [pool.submit(event(f"e{i}")) for i in range(5)]
        await pause()
        assert [one.done() for one in done] == [True, True, False, False, False]
        assert world.metrics.events_dropped == 2
        assert world.metrics.writes["event", "dropped"] == 2


async def test_a_full_pool_drops_events_for_other_writes_and_then_takes_no_more() -> None:
    async with World() as world:
        await world.cluster.stop()
        pool = world.pool(PoolSettings(in_flight_max=1, writes_max=3))
        done = [pool.submit(write) for write in (Bind("default", "x", U, "n"), event("e"), event("f"))]
        done += [pool.submit(Bind("default", f"p{i}", U, "n")) for i in range(4)]
        assert pool.waiting == 3
        assert [one.done() and one.result().result for one in done] == [
            False,
            Result.DROPPED,
            Result.DROPPED,
            False,
            False,
            False,
            Result.DROPPED,
        ]
        assert world.metrics.events_dropped == 2


async def test_nothing_leaves_while_the_gate_is_closed_but_leases() -> None:
    async with World() as world:
        world.cluster.pod("a")
        is_open = True
        pool = world.pool(may_write=lambda: 10.0 if is_open else 0.0)
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=3), subresource="binding")
        done = pool.submit(Bind("default", "a", U, "n1"))
        await pause(1.0)
        is_open = False  # between two tries
        assert (await done).result is Result.NOT_LEADER
        writes = [
            Bind("default", "a", U, "n1"),
            Delete(r.PODS, "default", "a", U),
            Create(r.PODS, "default", "c", b"{}"),
            patch("a", "m"),
            event("e"),
        ]
        before = len(world.cluster.server.requests)
        results = {(await pool.submit(write)).result for write in writes}
        assert results == {Result.NOT_LEADER}
        assert len(world.cluster.server.requests) == before
        assert world.cluster.server.performed == []


class _SlowConnector(UnixConnector):
    """Takes 5 s to connect."""

    async def dial(self, *arguments: Any) -> None:
        await asyncio.sleep(5.0)
        await super().dial(*arguments)


async def test_a_gate_that_closes_while_a_connection_is_made_stops_the_write() -> None:
    async with World() as world:
        world.cluster.pod("a")
        transport = world.new_transport(lambda: _SlowConnector(world.cluster.path))
        closes_at_s = asyncio.get_running_loop().time() + 2.0
        loop = asyncio.get_running_loop()
        # As a process that was stopped: the deadline of the request was set long before.
        answers = itertools.chain([20.0], itertools.repeat(None))

        def may_write() -> float:
            given = next(answers)
            return given if given is not None else max(0.0, closes_at_s - loop.time())

        pool = world.pool(transport=transport, may_write=may_write)
        done = pool.submit(Delete(r.PODS, "default", "a", U))
        assert (await done).result is Result.NOT_LEADER
        assert world.cluster.server.performed == []
        await transport.close()


async def test_a_request_is_given_up_before_the_gate_closes() -> None:
    async with World() as world:
        world.cluster.pod("a")
        world.cluster.faults.add(Fault("hang"), subresource="binding")
        loop = asyncio.get_running_loop()
        pool = world.pool(may_write=lambda: 3.0 - loop.time())
        outcome = await pool.submit(Bind("default", "a", U, "n1"))
        assert 3.0 <= loop.time() < 3.5
        assert outcome.result in (Result.NOT_LEADER, Result.GONE)


async def test_a_lost_connection_is_not_replaced_behind_the_back_of_the_gate() -> None:
    async with World() as world:
        pod = world.cluster.pod("a")
        happened = world.cluster.faults.happened
        pool = world.pool(may_write=lambda: 0.0 if happened else 10.0)
        await pool.submit(Delete(r.PODS, "default", "none", U))
        world.cluster.faults.add(Fault("cut"), method="DELETE")
        outcome = await pool.submit(Delete(r.PODS, "default", "a", pod["metadata"]["uid"]))
        assert outcome.result is Result.NOT_LEADER
        assert len(world.requests("DELETE", "/pods/a")) == 1
        assert world.cluster.server.performed == []


async def test_a_pool_that_is_closed_says_what_is_certain() -> None:
    async with World() as world:
        world.cluster.pod("a")
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang_after"), subresource="binding")
        flying = pool.submit(Bind("default", "a", U, "n1"))
        await pause()
        waiting = pool.submit(Bind("default", "b", U, "n1"))
        await pool.close()
        assert (await flying).result is Result.UNKNOWN
        assert (await waiting).result is Result.CLOSED
        assert (await pool.submit(Bind("default", "c", U, "n1"))).result is Result.CLOSED


async def test_a_pool_can_be_drained() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(rate_per_s=10.0, burst=1))
        done = [pool.submit(Delete(r.PODS, "default", f"p{i}", U)) for i in range(5)]
        await pool.close(drain_s=5.0)
        assert {one.result().result for one in done} == {Result.GONE}


async def test_the_wait_of_each_write_is_measured() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(rate_per_s=1.0, burst=1))
        await asyncio.gather(*(pool.submit(Delete(r.PODS, "default", f"p{i}", U)) for i in range(3)))
        histogram = world.metrics.write_wait_seconds["delete"]
        assert histogram.observations == 3
        assert histogram.total == pytest.approx(3.0, abs=0.01)
        assert world.metrics.queued(Urgency.DELETE.name) == 0


async def test_a_patch_that_is_withdrawn_does_not_leave_and_is_not_tried_again() -> None:
    async with World() as world:
        pool = world.pool(PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        pool.submit(Delete(r.PODS, "default", "first", U))
        await pause()
        waits = pool.submit(patch("p", "m"))
        assert pool.withdraw(patch("p", "").key) is None
        assert (await waits).result is Result.SUPERSEDED
        assert pool.withdraw(patch("p", "").key) is None, "nothing is there"
        world.cluster.faults.released.set()
        await pause()
        world.cluster.faults.add(Fault("refuse", code=429, retry_after_s=1), method="PATCH", times=10)
        flies = pool.submit(patch("p", "m"))
        under_way = pool.withdraw(patch("p", "").key)
        assert under_way is flies
        assert (await flies).result is Result.SUPERSEDED
        delayed = pool.submit(patch("q", "m"))
        await asyncio.sleep(0.5)
        assert pool.withdraw(patch("q", "").key) is None, "it waits to be tried again"
        assert (await delayed).result is Result.SUPERSEDED
        await asyncio.sleep(60)
        assert [path for method, path in world.cluster.server.requests if method == "PATCH"] == [
            "/api/v1/namespaces/default/pods/p/status",
            "/api/v1/namespaces/default/pods/q/status",
        ]
        assert pool.waiting == 0


class Broken(Delete):
    """A write with a bug."""

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        raise ZeroDivisionError("a bug")


class Log(logging.Handler):
    """A context: what is logged of bugs."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[logging.LogRecord] = []

    def __enter__(self) -> Log:
        logging.getLogger(pool.__name__).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(pool.__name__).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "a bug of schedulerd" in record.getMessage():
            self.bugs.append(record)


async def test_a_bug_in_a_write_is_logged_and_counted_and_the_write_given_up() -> None:
    with Log() as log:
        await fails(log)


async def fails(log: Log) -> None:
    async with World() as world:
        writes = world.pool()
        broken = [writes.submit(Broken(r.PODS, "default", name, U)) for name in "ab"]
        world.cluster.pod("c")
        whole = writes.submit(Delete(r.PODS, "default", "c", world.cluster.get(r.PODS, "c")["metadata"]["uid"]))  # type: ignore[index]
        assert (await whole).result is Result.DONE
        outcomes = await asyncio.gather(*broken)
        assert {one.result for one in outcomes} == {Result.UNKNOWN}, "nobody knows what it has done"
        assert outcomes[0].message == "ZeroDivisionError: a bug"
        assert world.metrics.write_bugs == {"delete": 2 * BUGS_MAX}
        assert world.metrics.in_flight() == 0
        (line,) = log.bugs
        assert line.exc_info is not None, "with its traceback, and not once for each try"
        assert line.levelname == "ERROR"
        await asyncio.sleep(TRACEBACK_EVERY_S)
        await writes.submit(Broken(r.PODS, "default", "d", U))
        assert len(log.bugs) == 2
