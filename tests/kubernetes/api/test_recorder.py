"""Events: what people read in `kubectl describe`."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.api import PoolSettings, Recorder, Result
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.writes import Delete, Reference
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault

POD = Reference("Pod", "a", "uid-a", "default")


def events(world: World, namespace: str = "default") -> list[dict[str, Any]]:
    kind = world.cluster.kind(r.EVENTS)
    return [thing for (where, _), thing in world.cluster.store.of(kind).items() if where == namespace]


def recorder(world: World, settings: PoolSettings | None = None) -> tuple[Recorder, list[int]]:
    now_ns = [1_800_000_000 * 10**9]
    return Recorder(world.pool(settings), "schedulerd", "schedulerd-0", lambda: now_ns[0]), now_ns


async def test_an_event_names_object_reason_and_time() -> None:
    async with World() as world:
        record, _ = recorder(world)
        outcome = await record.record(POD, "Scheduled", "Binding", "assigned to n1")
        assert outcome.result is Result.DONE
        (event,) = events(world)
        assert event["regarding"] == {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": "a",
            "namespace": "default",
            "uid": "uid-a",
        } or event["regarding"] == {"kind": "Pod", "name": "a", "namespace": "default", "uid": "uid-a"}
        assert (event["type"], event["reason"], event["note"]) == ("Normal", "Scheduled", "assigned to n1")
        assert event["eventTime"] == "2027-01-15T08:00:00.000000Z"
        assert event["metadata"]["name"].startswith("a.")
        assert "series" not in event


async def test_the_same_again_is_a_series() -> None:
    async with World() as world:
        record, now_ns = recorder(world)
        for _ in range(3):
            await record.record(POD, "FailedScheduling", "Scheduling", "no room", is_warning=True)
            now_ns[0] += 1_000_000_000
        (event,) = events(world)
        assert event["series"] == {"count": 3, "lastObservedTime": "2027-01-15T08:00:02.000000Z"}
        await record.record(POD, "FailedScheduling", "Scheduling", "another text", is_warning=True)
        assert len(events(world)) == 2


async def test_repetitions_that_wait_are_one_write() -> None:
    async with World() as world:
        record, _ = recorder(world, PoolSettings(in_flight_max=1))
        world.cluster.faults.add(Fault("hang"), method="DELETE")
        record._pool.submit(Delete(r.PODS, "default", "x", "u"))
        done = [record.record(POD, "R", "A", "n") for _ in range(10)]
        world.cluster.faults.released.set()
        results = [(await one).result for one in done]
        assert results == [Result.SUPERSEDED] * 9 + [Result.DONE]
        (event,) = events(world)
        assert event["series"]["count"] == 10


async def test_an_event_that_the_server_has_forgotten_is_made_again() -> None:
    async with World() as world:
        record, _ = recorder(world)
        await record.record(POD, "R", "A", "n")
        (event,) = events(world)
        world.cluster.delete(r.EVENTS, event["metadata"]["name"])
        assert (await record.record(POD, "R", "A", "n")).result is Result.DONE
        (event,) = events(world)
        assert event["series"]["count"] == 2


async def test_after_an_hour_an_event_is_a_new_one() -> None:
    async with World() as world:
        record, now_ns = recorder(world)
        await record.record(POD, "R", "A", "n")
        now_ns[0] += 3_601 * 10**9
        await record.record(POD, "R", "A", "n")
        assert ["series" in event for event in events(world)] == [False, False]


async def test_an_event_without_an_answer_is_sent_again_and_is_one() -> None:
    async with World() as world:
        record, _ = recorder(world)
        world.cluster.faults.add(Fault("lose"), method="POST")
        assert (await record.record(POD, "R", "A", "n")).result is Result.DONE
        assert len(events(world)) == 1


async def test_an_event_is_given_up_after_its_tries() -> None:
    async with World() as world:
        record, _ = recorder(world)
        world.cluster.faults.add(Fault("cut"), method="POST", times=1000)
        outcome = await record.record(POD, "R", "A", "n")
        assert outcome.result is Result.UNKNOWN
        assert len(world.requests("POST")) == 12


async def test_events_of_one_moment_have_names_of_their_own() -> None:
    async with World() as world:
        record, _ = recorder(world)
        for i in range(3):
            record.record(POD, f"R{i}", "A", "n")
        await pause(1.0)
        assert len(events(world)) == 3


async def test_a_note_is_cut_between_characters_and_a_name_to_its_length() -> None:
    async with World() as world:
        record, _ = recorder(world)
        long = Reference("Pod", "n" * 253, "u", "default")
        assert (await record.record(long, "R", "A", "ä" * 2000)).result is Result.DONE
        (event,) = events(world)
        assert len(event["note"].encode()) <= 1024
        assert event["note"].endswith("ä...")
        assert len(event["metadata"]["name"]) <= 253


async def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    async with World() as world:
        record, _ = recorder(world)
        assert (await record.record(Reference("Node", "n1", "n1"), "R", "A", "n")).result is Result.DONE
        (event,) = events(world)
        assert event["regarding"]["namespace"] == "default"


async def test_no_namespace_no_event() -> None:
    async with World() as world:
        record, _ = recorder(world)
        outcome = await record.record(Reference("Pod", "a", "u", "nowhere"), "R", "A", "n")
        assert outcome.result is Result.GONE


async def test_a_series_is_kept_for_so_many() -> None:
    async with World() as world:
        record, _ = recorder(world)
        await world.cluster.stop()
        for i in range(8_200):
            record.record(POD, "R", "A", str(i))
        assert len(record._series) == 8_192
        assert world.metrics.events_dropped > 3_000
