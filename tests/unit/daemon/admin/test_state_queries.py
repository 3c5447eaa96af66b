"""Queries of the state take a small share of the loop's time, come in order, and their text is written in
slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from itertools import pairwise
from typing import Any

import pytest

from schedulerd.core.views.values import LimitView
from schedulerd.daemon.admin import state_queries
from schedulerd.daemon.admin.debug_state import StateParameters, as_json
from schedulerd.daemon.admin.state_queries import LATE_SECONDS, LOOP_SHARE_MAX, QUERIES_MAX, StateQueries
from schedulerd.daemon.runtime.json_stream import JsonWriter
from schedulerd.daemon.runtime.shares import CLIENTS_MIN, NoneLeft
from schedulerd.daemon.runtime.slices import GAP_SECONDS, SLICE_SECONDS
from tests.unit import virtual_loop

LOOK_SECONDS = 0.01
PAUSE = LOOK_SECONDS / LOOP_SHARE_MAX
"""From the beginning of such a look to when the next may begin."""


@pytest.fixture(autouse=True)
def each_item_is_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_queries, "STATE_JSON", JsonWriter(as_json, ", ", ": ", chars=0))


class World:
    """Queries that hold the loop for as long as a test says, by a clock that goes on while they do."""

    def __init__(self) -> None:
        self.look_seconds = LOOK_SECONDS
        self.state: object = {}
        self.begun: list[tuple[str, float]] = []
        """The `rm` that each look was for, and when it was taken."""
        self._held_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self.looks = StateQueries(self._look_at, clock=self.now)

    def now(self) -> float:
        return self._loop.time() + self._held_seconds

    def hold(self, seconds: float) -> None:
        """The loop, by somebody who does not wait."""
        self._held_seconds += seconds

    def _look_at(self, query: StateParameters) -> object:
        self.begun.append((query.rm, self.now()))
        self.hold(self.look_seconds)
        return self.state

    async def take(self, rm: str = "") -> str:
        return await self.looks.take(StateParameters(rm=rm))

    def ask(self, rm: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.take(rm))


def play(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(World())

    virtual_loop.run(run())


@pytest.mark.parametrize("seconds", [0.0005, 0.01, 0.3])
def test_looks_have_so_much_of_the_time_and_no_more(seconds: float) -> None:
    async def story(world: World) -> None:
        world.look_seconds = seconds
        for _ in range(5):
            await world.take()
        times = [at for _, at in world.begun]
        assert times[0] == 0
        assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([seconds / LOOP_SHARE_MAX] * 4)

    play(story)


def test_after_a_pause_a_look_is_taken_at_once() -> None:
    async def story(world: World) -> None:
        await world.take()
        await asyncio.sleep(PAUSE)
        before = world.now()
        await world.take()
        assert world.begun[1] == ("", before)

    play(story)


def test_they_are_taken_one_after_the_other_in_the_order_in_which_they_were_asked_for() -> None:
    async def story(world: World) -> None:
        asked = [world.ask(rm) for rm in "dacb"]
        await asyncio.gather(*asked)
        assert [rm for rm, _ in world.begun] == list("dacb")
        assert [at for _, at in world.begun] == pytest.approx([0, PAUSE, 2 * PAUSE, 3 * PAUSE])

    play(story)


def test_so_many_may_be_asked_for_at_a_time() -> None:
    async def story(world: World) -> None:
        asked = [world.ask(str(number)) for number in range(QUERIES_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(NoneLeft, match=f"^{QUERIES_MAX} state queries are open already, by all clients$"):
            await world.take()
        await asked[0]
        asked.append(world.ask("next"))
        await asyncio.gather(*asked)
        assert [rm for rm, _ in world.begun] == [*map(str, range(QUERIES_MAX)), "next"]

    play(story)


def test_one_client_cannot_have_all_of_them() -> None:
    async def story(world: World) -> None:
        share = -(-QUERIES_MAX // CLIENTS_MIN)
        asked = [asyncio.create_task(world.looks.take(StateParameters(), "greedy")) for _ in range(share)]
        await asyncio.sleep(0)
        with pytest.raises(NoneLeft, match=f"^{share} state queries are open by this client already"):
            await world.looks.take(StateParameters(), "greedy")
        await asyncio.gather(*asked, world.looks.take(StateParameters(), "another"))

    play(story)


def test_a_client_that_gives_up_waiting_costs_nothing() -> None:
    async def story(world: World) -> None:
        asked = [world.ask(str(number)) for number in range(QUERIES_MAX)]
        await asked[0]
        for one in asked[1:-1]:
            one.cancel()
        await asyncio.gather(asked[-1], *(world.ask("") for _ in range(QUERIES_MAX - 1)))
        assert [rm for rm, _ in world.begun] == ["0", str(QUERIES_MAX - 1), *[""] * (QUERIES_MAX - 1)]
        assert world.begun[1][1] == pytest.approx(PAUSE)

    play(story)


class Things(list[LimitView]):
    """A hundred of them, each of which takes some time to write."""

    def __init__(self, world: World, seconds_each: float) -> None:
        super().__init__(LimitView((f"user-{number}",), (), {"memory": number}, 0) for number in range(100))
        self._world, self._seconds_each = world, seconds_each

    def __iter__(self) -> Iterator[LimitView]:
        for one in super().__iter__():
            self._world.hold(self._seconds_each)
            yield one


def test_the_text_is_written_in_slices_with_gaps_for_others() -> None:
    async def story(world: World) -> None:
        world.look_seconds = 0.0
        world.state = Things(world, SLICE_SECONDS / 4)
        assert await world.take() == as_json(world.state)
        assert asyncio.get_running_loop().time() == pytest.approx(100 / 4 * GAP_SECONDS)

    play(story)


def test_writing_counts_and_the_gaps_do_not() -> None:
    async def story(world: World) -> None:
        world.state = Things(world, SLICE_SECONDS)
        await world.take()
        await world.take()
        assert world.begun[1][1] == pytest.approx((world.look_seconds + 100 * SLICE_SECONDS) / LOOP_SHARE_MAX)

    play(story)


def test_a_short_text_is_written_in_one_go() -> None:
    async def story(world: World) -> None:
        world.look_seconds = 0.0
        world.state = Things(world, SLICE_SECONDS / 101)
        await world.take()
        assert asyncio.get_running_loop().time() == 0

    play(story)


def test_a_client_that_leaves_while_its_text_is_written_leaves_the_turn_to_others() -> None:
    async def story(world: World) -> None:
        world.state = Things(world, SLICE_SECONDS)
        first, second = world.ask("first"), world.ask("second")
        await asyncio.sleep(GAP_SECONDS * 9.5)
        first.cancel()
        await second
        held = world.look_seconds + 10 * SLICE_SECONDS
        assert [rm for rm, _ in world.begun] == ["first", "second"]
        assert world.begun[1][1] == pytest.approx(held / LOOP_SHARE_MAX, rel=0.05)

    play(story)


def test_a_look_that_fails_fails_alone() -> None:
    async def story(world: World) -> None:
        world.state = object()
        with pytest.raises(TypeError, match="object cannot be shown as JSON"):
            await world.take()
        world.state = {"all": "well"}
        assert await world.take() == '{"all": "well"}'
        assert [at for _, at in world.begun] == pytest.approx([0, PAUSE])

    play(story)


def test_work_in_slices_is_charged_by_the_processor_and_not_by_what_other_processes_take() -> None:
    async def story(world: World) -> None:
        worked_seconds = 0.0
        looks = StateQueries(lambda _query: None, clock=world.now, processor=lambda: worked_seconds)

        def work() -> Generator[None, None, None]:
            nonlocal worked_seconds
            for _ in range(10):
                worked_seconds += SLICE_SECONDS
                world.hold(20 * SLICE_SECONDS)  # most of which somebody else had the processor
                yield

        began = world.now()
        await looks.finish(work())
        held, charged = 10 * 20 * SLICE_SECONDS, 10 * SLICE_SECONDS / LOOP_SHARE_MAX
        assert charged - LATE_SECONDS <= world.now() - began <= held + charged

    play(story)


def test_slices_that_begin_late_are_made_up_for() -> None:
    """Each time the loop comes to a slice 50 ms late: the share is that of all the time all the same."""

    async def story(world: World) -> None:
        looks = StateQueries(lambda _query: None, clock=world.now, processor=lambda: worked_seconds)
        worked_seconds, slices = 0.0, 200

        def work() -> Generator[None, None, None]:
            nonlocal worked_seconds
            for number in range(slices):
                worked_seconds += SLICE_SECONDS
                world.hold(0.05 if number % 4 == 0 else SLICE_SECONDS)
                yield

        began = world.now()
        await looks.finish(work())
        assert world.now() - began == pytest.approx(slices * SLICE_SECONDS / LOOP_SHARE_MAX, rel=0.05)

    play(story)
