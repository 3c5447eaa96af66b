"""Cyclic garbage: old objects are walked when no client waits, and the garbage is found then."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon.runtime import collector as collector_module
from schedulerd.daemon.runtime.collector import (
    BUSY_GROWTH,
    BUSY_SECONDS_MIN,
    GROWN_BLOCKS_MIN,
    IDLE_GROWTH,
    IDLE_SECONDS_MIN,
    LOOK_SECONDS,
    YOUNG_MAX,
    Collector,
    spare_the_old,
)
from tests.unit import virtual_loop


@pytest.fixture
def spared() -> Iterator[None]:
    """The settings are the process's; they are put back."""
    before = gc.get_threshold()
    spare_the_old()
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(collector_module._after_collection)


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("spared")
def test_what_outlives_a_collection_is_not_walked_again() -> None:
    ring = Ring()
    gone = weakref.ref(ring)
    gc.collect(0)
    assert not any(one is ring for one in gc.get_objects()), "it is out of sight"
    del ring
    gc.collect()
    assert gone() is not None


@pytest.mark.usefixtures("spared")
def test_garbage_among_what_is_new_is_found_as_ever() -> None:
    gone = weakref.ref(Ring())
    kept = [[] for _ in range(YOUNG_MAX + 1)]  # type: ignore[var-annotated]
    assert gone() is None
    assert kept


@pytest.mark.usefixtures("spared")
def test_telling_twice_is_telling_once() -> None:
    spare_the_old()
    assert gc.callbacks.count(collector_module._after_collection) == 1


@pytest.mark.parametrize(
    ("is_idle", "seconds", "is_due"),
    [
        (True, IDLE_SECONDS_MIN - 1, False),
        (True, IDLE_SECONDS_MIN, True),
        (False, BUSY_SECONDS_MIN - 1, False),
        (False, BUSY_SECONDS_MIN, True),
    ],
)
def test_everything_is_walked_when_nothing_waits_and_once_an_hour_at_the_latest(
    is_idle: bool, seconds: float, is_due: bool
) -> None:
    assert Collector(lambda: is_idle, lambda: 1_000).is_due(seconds) is is_due


@pytest.mark.parametrize("before", [100_000, 40_000_000])
@pytest.mark.parametrize(("is_idle", "factor"), [(True, IDLE_GROWTH), (False, BUSY_GROWTH)])
def test_everything_is_walked_as_soon_as_memory_has_grown_by_much(
    monkeypatch: pytest.MonkeyPatch, before: int, is_idle: bool, factor: float
) -> None:
    """By a part of what there was, and by so much at least; sooner if nobody waits."""
    monkeypatch.setattr(collector_module, "_walk", lambda: 0)
    blocks = before
    collector = Collector(lambda: is_idle, lambda: blocks)
    enough = before + max(GROWN_BLOCKS_MIN, int(before * factor))
    blocks = enough - 1
    assert not collector.is_due(0.0)
    blocks = enough
    assert collector.is_due(0.0)
    collector.walk()
    assert not collector.is_due(0.0), "what was there after the walk is what it grows from"


@pytest.mark.usefixtures("spared")
@pytest.mark.parametrize(
    ("idle_from_seconds", "walks_at"),
    [(0.0, IDLE_SECONDS_MIN), (1000.5, 1000.5 - 1000.5 % LOOK_SECONDS + LOOK_SECONDS)],
)
def test_a_walk_finds_old_garbage_and_says_how_long_it_took(idle_from_seconds: float, walks_at: float) -> None:
    async def until_gone() -> None:
        loop = asyncio.get_running_loop()
        ring, freed = Ring(), asyncio.Event()
        gone = weakref.ref(ring, lambda _: freed.set())
        gc.collect(0)
        del ring
        walking = asyncio.create_task(Collector(lambda: loop.time() >= idle_from_seconds).run())
        await freed.wait()
        assert gone() is None
        assert loop.time() == walks_at
        walking.cancel()

    with capture_logs() as lines:
        virtual_loop.run(until_gone())
    assert lines[0]["event"] == "cyclic garbage"
    assert lines[0]["objects"] >= 1
