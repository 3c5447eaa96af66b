"""State dump and metrics for autoscalers as the Admin methods answer them; over the wire see `tests/contract`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.commands import RegisterResourceManager
from schedulerd.daemon.admin import state_queries, state_service
from schedulerd.daemon.admin.admin_service import AdminService
from schedulerd.daemon.admin.debug_state import StateParameters, debug_state
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.state_service import ANSWER_BYTES_MAX, DUMPS_BYTES_MAX, STATE_BYTES_MAX, StateService
from schedulerd.daemon.files.queue_files import QueueFiles
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.wire.callback import NoStateDump
from tests.unit.core.builders import RM, Conversation, a_conversation, a_node, a_partition_spec, an_app, an_ask
from tests.unit.daemon.admin.test_admin_service import CONTEXT, Aborted
from tests.unit.daemon.recording import NoStopwatch, load_here


class World:
    """The service over a scheduler with two resource managers, whose own dumps are what a test says."""

    def __init__(self) -> None:
        self.talk = a_conversation(a_node("n1", {"memory": 5}))
        self.talk.asks(an_ask("k", 10, count=3))
        self.talk.schedule()
        self.other = Conversation(self.talk.scheduler, "another")
        self.other.register()
        self.dumps: dict[str, str] = {}
        self.asked: list[tuple[str, float]] = []
        scheduler = self.talk.scheduler
        owner = Owner(scheduler, [], NoStopwatch(), inbox_max=10, placements_max=1)
        managers = scheduler.cluster.resource_managers
        admin = AdminService(owner, QueueFiles(_no_file, load_here), managers, lambda *_: None, load_here)
        self.looks = StateQueries(debug_state(scheduler, recount_items_max=1_000))
        self.service = StateService(managers, admin.check_registered, self.looks, self._dump_of)

    async def _dump_of(self, rm_id: str, timeout_seconds: float) -> str:
        self.asked.append((rm_id, timeout_seconds))
        if rm_id not in self.dumps:
            raise NoStateDump("for the sake of a test")
        return self.dumps[rm_id]

    async def dump(self, rm_id: str = "") -> admin_pb2.GetStateDumpResponse:
        return await self.service.state_dump(admin_pb2.GetStateDumpRequest(rmID=rm_id), CONTEXT)

    async def metrics(self, rm_id: str = RM, partition: str = "") -> si_pb2.AutoScalingMetrics:
        request = admin_pb2.GetAutoScalingMetricsRequest(rmID=rm_id, partition=partition)
        return await self.service.auto_scaling_metrics(request, CONTEXT)


def _no_file(_group: str) -> Any:
    raise AssertionError("no file is read here")


def play(world: World, story: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await story(world)

    asyncio.run(bounded())


def test_the_dump_is_what_the_debug_endpoint_shows_and_what_rms_say() -> None:
    async def story(world: World) -> None:
        world.dumps[RM] = '{"pods": 3}'
        answer = await world.dump()
        shown = json.loads(answer.state)
        assert [one["rm_id"] for one in shown["resource_managers"]] == ["another", RM]
        (partition,) = shown["resource_managers"][1]["partitions"]
        assert partition["outstanding"][0]["count"] == 3
        assert (shown["violations"], shown["left_out"]) == ([], {})
        assert [(one.rmID, one.state, one.problem) for one in answer.resourceManagers] == [
            ("another", "", "for the sake of a test"),
            (RM, '{"pods": 3}', ""),
        ]
        assert {seconds for _, seconds in world.asked} == {state_service.DUMP_TIMEOUT_SECONDS}

    play(World(), story)


def test_a_dump_of_one_rm_has_nothing_of_others() -> None:
    async def story(world: World) -> None:
        world.dumps = {RM: "{}", "another": "{}"}
        answer = await world.dump("another")
        assert [one["rm_id"] for one in json.loads(answer.state)["resource_managers"]] == ["another"]
        assert [one.rmID for one in answer.resourceManagers] == ["another"]
        assert [rm_id for rm_id, _ in world.asked] == ["another"]

    play(World(), story)


def test_more_dumps_than_may_be_asked_for_are_refused_and_no_rm_hears_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_queries, "QUERIES_MAX", 0)

    async def story(world: World) -> None:
        with pytest.raises(Aborted) as aborted:
            await world.dump()
        assert aborted.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert aborted.value.details == (
            "0 state queries are open already, by all clients; try again when they are taken"
        )
        assert world.asked == []

    play(World(), story)


def test_a_dump_that_finds_as_many_waiting_as_may_is_answered_with_this_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_service, "DUMPS_WAITING_MAX", 1)
    go_on = threading.Event()

    def held_up(_dump: str) -> str:
        assert go_on.wait(20)
        return ""

    monkeypatch.setattr(state_service, "_problem", held_up)

    async def story(world: World) -> None:
        world.dumps[RM] = "{}"
        asked = [asyncio.create_task(world.dump(RM)) for _ in range(3)]
        try:
            (refused,), others = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        finally:
            go_on.set()
        (one,) = refused.result().resourceManagers
        busy = "2 dumps of resource managers are under way or waiting already; try again later"
        assert (one.state, one.problem) == ("", busy)
        for answer in await asyncio.gather(*others):
            assert [(one.state, one.problem) for one in answer.resourceManagers] == [("{}", "")]

    play(World(), story)


def test_dumps_that_do_not_fit_into_a_message_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_service, "DUMPS_BYTES_MAX", 50)

    async def story(world: World) -> None:
        long = f'"{"x" * 28}"'
        world.dumps = {"another": long, RM: long}
        first, second = (await world.dump()).resourceManagers
        assert (first.state, second.state) == (long, "")
        assert second.problem == "its dump has 30 bytes, and there was room for 20; name its rmID to see it alone"
        (alone,) = (await world.dump(RM)).resourceManagers
        assert (alone.state, alone.problem) == (long, "")

    play(World(), story)


def test_our_own_dump_is_taken_again_with_less_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        nodes = [a_node(f"n{number}", {"memory": 1}) for number in range(80)]
        world.talk.nodes(*nodes)
        whole = (await world.dump(RM)).state
        monkeypatch.setattr(state_service, "STATE_BYTES_MAX", len(whole) - 1)
        cut = json.loads((await world.dump(RM)).state)
        (partition,) = cut["resource_managers"][0]["partitions"]
        assert (len(partition["nodes"]), cut["left_out"]["nodes"]) == (50, 30)
        for rm_id, advice in (("", "name an rmID"), (RM, "look at parts of it at /debug/state")):
            monkeypatch.setattr(state_service, "STATE_BYTES_MAX", 200)
            problem = json.loads((await world.dump(rm_id)).state)["problem"]
            assert problem.startswith("even 5 of each kind of thing have ")
            assert problem.endswith(f" bytes; at most 200 are sent: {advice}")

    play(World(), story)


@pytest.mark.parametrize("letter", ["x", "é"])
def test_an_answer_is_never_more_than_a_client_takes_whatever_rms_say(letter: str) -> None:
    """A client takes 4 MiB by default: our dump is at its bound here, and so are those of RMs with long names."""
    answer_bytes_max = 4 * 1024 * 1024

    async def story(world: World) -> None:
        names = [f"{number:0256}" for number in range(50)]
        for name in names:
            world.talk.scheduler.step(1, RegisterResourceManager(name, (a_partition_spec(),)))

        async def filled(_query: StateParameters, _client: str | None = None) -> str:
            return json.dumps("x" * (STATE_BYTES_MAX - 2))

        world.looks.take = filled  # type: ignore[method-assign, assignment]
        size = len(letter.encode())
        world.dumps = {name: json.dumps(letter * 100_000, ensure_ascii=False) for name in names[::2]}
        world.dumps[names[0]] = json.dumps(letter * (DUMPS_BYTES_MAX // 2 // size), ensure_ascii=False)
        answer = await world.dump()
        assert len(answer.state) == STATE_BYTES_MAX
        assert answer.resourceManagers[0].state == world.dumps[names[0]]
        assert any("there was room for" in one.problem for one in answer.resourceManagers)
        assert ANSWER_BYTES_MAX - 300_000 < answer.ByteSize() < answer_bytes_max

    play(World(), story)


def test_of_all_dumps_so_much_is_held_and_let_go_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, over = "[" + "1" * 98 + "]", "[" + "1" * 99 + "]"
    monkeypatch.setattr(state_service, "DUMPS_HELD_MAX", 200)

    async def story(world: World) -> None:
        world.dumps = {RM: fits, "another": fits}
        for _ in range(3):
            assert [one.problem for one in (await world.dump()).resourceManagers] == ["", ""]
        world.dumps = {RM: over, "another": fits}
        problems = [one.problem for one in (await world.dump()).resourceManagers]
        assert sorted(problems) == [
            "",
            "too many dumps wait already; name its rmID to see it alone, or try again later",
        ]

    play(World(), story)


def test_a_dump_that_no_answer_takes_is_said_to_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_service, "DUMPS_BYTES_MAX", 50)

    async def story(world: World) -> None:
        for dump, problem in (
            (f'"{"é" * 24}"', ""),
            (f'"{"é" * 24}x"', "its dump is longer than 50 bytes, which are the most that an answer takes"),
        ):
            world.dumps = {RM: dump}
            for asked_for in ("", RM):
                of_rm = (await world.dump(asked_for)).resourceManagers[-1]
                assert (of_rm.state, of_rm.problem) == ("" if problem else dump, problem)

    play(World(), story)


@pytest.mark.parametrize(
    ("dump", "problem"),
    [
        ("", "its dump is empty"),
        (" \n", "its dump is empty"),
        ("pods: 3", "its dump is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"pods": 3', "its dump is not JSON: Expecting ',' delimiter: line 1 column 11 (char 10)"),
        ('{"load": NaN}', "its dump is not JSON: NaN is not a value"),
        ("[" * 100_000, "its dump is not JSON: maximum recursion depth exceeded"),
    ],
)
def test_a_dump_that_is_no_json_is_a_problem(dump: str, problem: str) -> None:
    async def story(world: World) -> None:
        world.dumps = {RM: dump}
        (of_rm,) = (await world.dump(RM)).resourceManagers
        assert of_rm.state == ""
        assert of_rm.problem.startswith(problem)

    play(World(), story)


@pytest.mark.parametrize("dump", ["null", "[]", '{"a": {"b": [1, 2.5, {}]}, "a": 1}', "9" * 5_000])
def test_any_json_is_passed_on_as_it_is(dump: str) -> None:
    async def story(world: World) -> None:
        world.dumps = {RM: dump}
        (of_rm,) = (await world.dump(RM)).resourceManagers
        assert (of_rm.state, of_rm.problem) == (dump, "")

    play(World(), story)


def test_outstanding_requests_of_all_partitions_or_of_one() -> None:
    async def story(world: World) -> None:
        (found,) = (await world.metrics()).outstandingRequests
        assert found.tags["schedulerd.io/count"] == "3"
        assert (await world.metrics(partition="default")) == (await world.metrics())
        assert (await world.metrics("another")).outstandingRequests == []
        two = Conversation(world.talk.scheduler, "two")
        two.step(RegisterResourceManager("two", (a_partition_spec(), a_partition_spec(name="gpu"))))
        two.connect()
        for partition, memory in (("", 10), ("gpu", 20)):
            two.apps(an_app("app", partition=partition))
            two.asks(an_ask("k", memory, partition=partition))
        two.schedule()
        both = (await world.metrics("two")).outstandingRequests
        assert [one.tags["schedulerd.io/partition"] for one in both] == ["default", "gpu"]
        (one,) = (await world.metrics("two", "gpu")).outstandingRequests
        assert one == both[1]

    play(World(), story)


@pytest.mark.parametrize(
    ("rm_id", "partition", "code", "words"),
    [
        ("", "", grpc.StatusCode.INVALID_ARGUMENT, "rmID: is empty"),
        ("nobody", "", grpc.StatusCode.NOT_FOUND, "rmID: 'nobody' is not registered"),
        (RM, "moon", grpc.StatusCode.NOT_FOUND, f"partition: 'moon' is not a partition of '{RM}'; known are 'default'"),
    ],
)
def test_metrics_of_what_is_not_there(rm_id: str, partition: str, code: grpc.StatusCode, words: str) -> None:
    async def story(world: World) -> None:
        with pytest.raises(Aborted) as aborted:
            await world.metrics(rm_id, partition)
        assert aborted.value.code is code
        assert words in aborted.value.details

    play(World(), story)


def test_a_dump_of_an_rm_that_is_not_there() -> None:
    async def story(world: World) -> None:
        with pytest.raises(Aborted) as aborted:
            await world.dump("nobody")
        assert aborted.value.code is grpc.StatusCode.NOT_FOUND

    play(World(), story)
