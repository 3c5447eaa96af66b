"""How long a client waits, for what, and what it does then: to the very moment, on a clock of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from schedulerd.client import Client, SchedulerUnreachable
from schedulerd.client import client as client_module
from schedulerd.client.connection import (
    BACKOFF_FIRST_S,
    BACKOFF_MOST_S,
    CLOSE_TIMEOUT_S,
    REGISTER_TIMEOUT_S,
    STABLE_AFTER_S,
    UNREGISTER_TIMEOUT_S,
)
from tests.contract.client_world import Diary
from tests.unit.client.fake_channel import FakeChannel
from tests.unit.virtual_loop import run

REGISTER = "RegisterResourceManager"
MOMENT_S = 0.001

Story = Callable[[FakeChannel, Client], Awaitable[None]]


def seconds() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[FakeChannel, float]]:
    """Plays a story of a client; gives the other side, and when the client was gone."""

    def play(story: Story, *, reconnect_timeout_s: float = math.inf, **other_side: object) -> tuple[FakeChannel, float]:
        async def main() -> tuple[FakeChannel, float]:
            channel = FakeChannel(**other_side)  # type: ignore[arg-type]
            monkeypatch.setattr(client_module, "open_channel", lambda target, credentials: channel)
            client = Client("there:1", Diary(), rm_id="rm", reconnect_timeout_s=reconnect_timeout_s)
            async with client:
                await story(channel, client)
            return channel, seconds()

        return run(main())

    return play


Play = Callable[..., tuple[FakeChannel, float]]


async def for_a_minute(channel: FakeChannel, client: Client) -> None:
    await asyncio.sleep(60)


async def served_until_it_fails(channel: FakeChannel, client: Client) -> None:
    await client.serve_forever()


def gaps(times_s: list[float]) -> list[float]:
    return [round(later - earlier, 6) for earlier, later in pairwise(times_s)]


def test_after_a_loss_it_waits_twice_as_long_each_time_up_to_a_bound(play: Play) -> None:
    channel, _ = play(for_a_minute, streams_last_s=0.0)
    waited = gaps(channel.times_of(REGISTER))
    doubled = [BACKOFF_FIRST_S * 2**attempt for attempt in range(5)]
    assert doubled[-1] < BACKOFF_MOST_S < 2 * doubled[-1]
    assert waited[:5] == doubled
    assert len(waited) > 50
    assert set(waited[5:]) == {BACKOFF_MOST_S}


def test_after_a_long_connection_the_next_wait_is_the_shortest_again(play: Play) -> None:
    too_short, long_enough = STABLE_AFTER_S - MOMENT_S, STABLE_AFTER_S + MOMENT_S
    channel, _ = play(for_a_minute, streams_last_s=too_short)
    assert gaps(channel.times_of(REGISTER))[:3] == [too_short + BACKOFF_FIRST_S * 2**attempt for attempt in range(3)]
    channel, _ = play(for_a_minute, streams_last_s=long_enough)
    assert set(gaps(channel.times_of(REGISTER))) == {long_enough + BACKOFF_FIRST_S}


@pytest.mark.parametrize("early_s", [MOMENT_S, -MOMENT_S])
def test_a_scheduler_that_is_back_in_time_is_served_again_and_a_later_one_is_not(play: Play, early_s: float) -> None:
    lost_s, timeout_s = 5.0, 10.0
    ended: list[float] = []

    async def story(channel: FakeChannel, client: Client) -> None:
        channel.is_there.clear()
        await asyncio.sleep(lost_s + timeout_s - early_s)
        channel.streams_last_s = math.inf
        channel.is_there.set()
        await asyncio.sleep(1)
        assert client.times_resynced == 1

    async def timed(channel: FakeChannel, client: Client) -> None:
        try:
            await story(channel, client)
        finally:
            ended.append(seconds())

    if early_s > 0:
        play(timed, streams_last_s=lost_s, reconnect_timeout_s=timeout_s)
    else:
        with pytest.raises(SchedulerUnreachable, match="lost the scheduler at there:1"):
            play(timed, streams_last_s=lost_s, reconnect_timeout_s=timeout_s)
        assert ended == [pytest.approx(lost_s + timeout_s)]


def test_without_time_to_come_back_a_loss_is_the_end(play: Play) -> None:
    with pytest.raises(SchedulerUnreachable, match="going away"):
        play(served_until_it_fails, streams_last_s=5.0, reconnect_timeout_s=0.0)


def test_a_registration_after_a_loss_that_is_not_answered_in_time_is_tried_again(play: Play) -> None:
    async def story(channel: FakeChannel, client: Client) -> None:
        channel.answers = False
        await asyncio.sleep(5 + 2.5 * REGISTER_TIMEOUT_S)

    channel, _ = play(story, streams_last_s=5.0)
    assert channel.timeouts_of(REGISTER)[1:] == [REGISTER_TIMEOUT_S] * 3
    first, second, third = channel.times_of(REGISTER)[1:]
    assert first == 5 + BACKOFF_FIRST_S
    assert gaps([first, second, third]) == [REGISTER_TIMEOUT_S + BACKOFF_FIRST_S * 2**each for each in (1, 2)]


def test_a_registration_is_not_waited_for_beyond_the_time_to_come_back(play: Play) -> None:
    ended: list[float] = []

    async def story(channel: FakeChannel, client: Client) -> None:
        channel.answers = False
        try:
            await client.serve_forever()
        finally:
            ended.append(seconds())

    with pytest.raises(SchedulerUnreachable, match="going away"):
        play(story, streams_last_s=5.0, reconnect_timeout_s=10.0)
    assert ended == [pytest.approx(15.0)]


def test_no_scheduler_is_waited_for_longer_than_the_time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(*, is_there: bool) -> tuple[str, float]:
        channel = FakeChannel(answers=False)
        if not is_there:
            channel.is_there.clear()
        monkeypatch.setattr(client_module, "open_channel", lambda target, credentials: channel)
        with pytest.raises(SchedulerUnreachable) as unreachable:
            await Client("there:1", Diary(), rm_id="rm", connect_timeout_s=7.0).__aenter__()
        return str(unreachable.value), seconds()

    assert run(main(is_there=False)) == ("no scheduler answers at there:1 (waited 7 s)", 7.0)
    reason, waited_s = run(main(is_there=True))
    assert (reason[:26], waited_s) == ("no answer from there:1: DE", 7.0)


def test_a_scheduler_that_does_not_end_its_streams_is_not_waited_for_for_ever(play: Play) -> None:
    async def story(channel: FakeChannel, client: Client) -> None:
        await asyncio.sleep(3)

    _, gone_s = play(story)
    assert gone_s == 3 + CLOSE_TIMEOUT_S


def test_a_goodbye_that_is_not_answered_is_an_error_in_time(play: Play) -> None:
    async def story(channel: FakeChannel, client: Client) -> None:
        channel.answers = False
        with pytest.raises(SchedulerUnreachable, match="cannot unregister 'rm': DEADLINE_EXCEEDED"):
            await client.unregister()
        assert seconds() == UNREGISTER_TIMEOUT_S

    channel, _ = play(story)
    assert channel.timeouts_of("UnregisterResourceManager") == [UNREGISTER_TIMEOUT_S]
