"""What is left to read of an owner that an error has ended, or of a check that has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from schedulerd.core.language.commands import (
    Command,
)
from schedulerd.core.language.facts.fact import Allocated, CheckFailed, Fact
from schedulerd.core.language.specs import SECOND_NS, ConfigurationText
from schedulerd.daemon.runtime import owner as module
from schedulerd.daemon.runtime.owner import (
    TRACEBACKS_PER_SECOND_MAX,
    StepFailed,
)
from schedulerd.instant import Instant
from tests.unit.daemon.recording import registration
from tests.unit.daemon.runtime.owner_world import SETUP, World, asks, run


def test_an_error_of_the_scheduler_ends_the_owner_with_the_last_commands_in_the_log() -> None:
    world = World()

    def broken_step(now_ns: int, command: Command) -> list[Fact]:
        raise KeyError("no such thing")

    async def play(world: World) -> None:
        await world.take(*SETUP)
        world.scheduler.step = broken_step  # type: ignore[method-assign]
        await world.take(asks(0, 1))

    with capture_logs() as lines, pytest.raises(StepFailed, match="no such thing"):
        run(world, play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    assert line["log_level"] == "critical"
    assert [("NewApplication" in text, "pod-0" in text) for text in line["last_commands"][2:]] == [
        (True, False),
        (False, False),
        (False, True),
    ]


def test_an_error_of_a_sink_is_no_less_serious() -> None:
    def broken_sink(facts: Sequence[Fact], now: Instant) -> None:
        raise ValueError("cannot count")

    async def play(world: World) -> None:
        await world.take(registration())

    with capture_logs(), pytest.raises(StepFailed, match="cannot count"):
        run(World(sinks=[broken_sink]), play)


def test_the_last_commands_are_bounded_in_number_and_each_is_short() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        for number in range(module.LAST_COMMANDS_MAX):
            await world.take(asks(1000 * number, 100))
        world.owner.post(None)  # type: ignore[arg-type]  # what no caller does: the scheduler raises
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    assert len(line["last_commands"]) == module.LAST_COMMANDS_MAX
    assert max(len(text) for text in line["last_commands"]) < 500


def test_the_last_commands_keep_no_more_than_so_much_of_large_requests() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        for number in range(10):
            await (await world.owner.submit(asks(number, 1), size_bytes=module.LAST_COMMANDS_BYTES_MAX // 3))
        await (await world.owner.submit(asks(10, 1), size_bytes=10 * module.LAST_COMMANDS_BYTES_MAX))
        for number in range(11, 13):
            await (await world.owner.submit(asks(number, 1), size_bytes=module.LAST_COMMANDS_BYTES_MAX // 2))
        world.owner.post(None)  # type: ignore[arg-type]  # as above
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    told = [text for text in line["last_commands"] if "UpdateAllocations" in text]
    assert [f"pod-{number}" in text for number, text in zip((11, 12), told, strict=True)] == [True, True]


def test_a_queue_file_is_not_among_the_last_commands() -> None:
    async def play(world: World) -> None:
        secret = ConfigurationText("hunter2 " * 10, "queues.yaml", "ABC")
        await world.take(replace(registration(), configuration=secret))
        world.owner.post(None)  # type: ignore[arg-type]  # as above
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    assert "RegisterResourceManager" in repr(lines)
    assert "hunter2" not in repr(lines)


def test_the_tracebacks_of_failed_checks_are_logged_a_few_in_a_second_and_life_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(*_: object) -> None:
        raise LookupError("a bug")

    async def play(world: World) -> None:
        await world.take(*SETUP)
        with monkeypatch.context() as patch, capture_logs() as lines:
            patch.setattr("schedulerd.core.language.checks.identifier", raises)
            await world.take(asks(0, 2), asks(2, TRACEBACKS_PER_SECOND_MAX))
            world.times = lambda: 2 * SECOND_NS
            await world.take(asks(9, 1))
        assert [str(line["exc_info"]) for line in lines] == ["a bug"] * (TRACEBACKS_PER_SECOND_MAX + 1)
        assert {line["log_level"] for line in lines} == {"error"}
        said = [fact for turn in world.turns for fact in turn]
        assert len([fact for fact in said if isinstance(fact, CheckFailed)]) == TRACEBACKS_PER_SECOND_MAX + 3
        await world.take(asks(20, 1))
        assert any(isinstance(fact, Allocated) for turn in world.turns for fact in turn)

    run(World(), play)
