"""The tag that says when an ask was made first: read, converted to the scheduler's time, or refused (SEMANTICS I27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd.core.language.ask_tags import ASKED_AT_TAG
from schedulerd.core.language.commands import NewApplication, NewAsk, UpdateAllocations, UpdateApplications
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant
from schedulerd.wire.ask_ages import AHEAD_MAX_NS, CLOCK_SET_NS, EARLIEST_NS, AskAges
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.decode_2021 import UpdateDecoder
from tests.instants import at
from tests.loops import each_row

Decode: TypeAlias = Callable[[dict[str, str]], NewAsk | NewApplication]

NOW = at(50 * SECOND_NS)


def decoded_2023(tags: dict[str, str]) -> NewAsk:
    request = si_pb2.AllocationRequest(asks=[si_pb2.AllocationAsk(allocationKey="a", tags=tags)])
    (command,) = RequestDecoder(lambda: NOW).allocations(request)
    return command.asks[0]


def decoded_2021(tags: dict[str, str]) -> NewAsk:
    request = si_2021_pb2.UpdateRequest(asks=[si_2021_pb2.AllocationAsk(allocationKey="a", tags=tags)])
    ages = AskAges(lambda: NOW)
    (command,) = UpdateDecoder(RequestDecoder().shared, {}, "Hard", ages).commands(request)
    assert isinstance(command, UpdateAllocations)
    return command.asks[0]


def application_2023(tags: dict[str, str]) -> NewApplication:
    request = si_pb2.ApplicationRequest(new=[si_pb2.AddApplicationRequest(applicationID="a", tags=tags)])
    (command,) = RequestDecoder(lambda: NOW).applications(request)
    return command.new[0]


def application_2021(tags: dict[str, str]) -> NewApplication:
    request = si_2021_pb2.UpdateRequest(
        newApplications=[si_2021_pb2.AddApplicationRequest(applicationID="a", tags=tags)]
    )
    (command, *_) = UpdateDecoder(RequestDecoder().shared, {}, "Hard", AskAges(lambda: NOW)).commands(request)
    assert isinstance(command, UpdateApplications)
    return command.new[0]


DECODERS = [decoded_2023, decoded_2021, application_2023, application_2021]


@pytest.mark.parametrize("decode", DECODERS)
def test_an_ask_without_the_tag_says_no_time(decode: Decode) -> None:
    ask = decode({"color": "red"})
    assert (ask.asked_at_ns, ask.unreadable) == (None, "")


@each_row("decode", DECODERS)
@each_row("seconds_ago", [0, 1, 50, 1_000_000])
def test_wall_time_is_converted_to_that_of_the_steps(decode: Decode, seconds_ago: int) -> None:
    ago_ns = seconds_ago * SECOND_NS
    ask = decode({ASKED_AT_TAG: str(NOW.wall_ns - ago_ns)})
    assert (ask.asked_at_ns, ask.unreadable) == (NOW.monotonic_ns - ago_ns, "")
    assert ask.tags == {ASKED_AT_TAG: str(NOW.wall_ns - ago_ns)}, "it comes back with the allocation"


@each_row("decode", DECODERS)
@each_row(
    "value",
    [
        "",
        "yesterday",
        "-1",
        f"+{NOW.wall_ns}",
        f"{NOW.wall_ns}.0",
        "2026-11-23T16:00:00Z",
        str(NOW.wall_ns + AHEAD_MAX_NS + 1),
        str(NOW.wall_ns // SECOND_NS),
        str(EARLIEST_NS - 1),
        "9" * 10_000,
        "\N{FULLWIDTH DIGIT ONE}" * 19,
    ],
)
def test_what_cannot_be_read_or_is_to_come_is_told(decode: Decode, value: str) -> None:
    ask = decode({ASKED_AT_TAG: value})
    assert ask.asked_at_ns is None
    assert ask.unreadable.startswith(f"tags[{ASKED_AT_TAG}] is '{value[:80]}'")
    assert ask.unreadable.endswith(f"a whole number from {EARLIEST_NS} to now, which is {NOW.wall_ns}")


@each_row("decode", DECODERS)
@each_row("ahead_ns", [1, CLOCK_SET_NS, AHEAD_MAX_NS])
def test_a_clock_that_is_a_little_ahead_says_now(decode: Decode, ahead_ns: int) -> None:
    ask = decode({ASKED_AT_TAG: str(NOW.wall_ns + ahead_ns)})
    assert (ask.asked_at_ns, ask.unreadable) == (NOW.monotonic_ns, "")


def test_two_asks_of_one_time_stay_so_while_the_clocks_drift() -> None:
    now = NOW
    ages = AskAges(lambda: now)
    tags = {ASKED_AT_TAG: str(NOW.wall_ns - SECOND_NS)}
    first = ages.asked_at(tags)
    now = Instant(NOW.monotonic_ns + SECOND_NS, NOW.wall_ns + SECOND_NS + CLOCK_SET_NS - 1)
    assert ages.asked_at(tags) == first


@pytest.mark.parametrize("set_ns", [CLOCK_SET_NS, -CLOCK_SET_NS, 3600 * SECOND_NS])
def test_when_the_wall_clock_is_set_the_age_is_that_of_the_new_time(set_ns: int) -> None:
    now = NOW
    ages = AskAges(lambda: now)
    ages.asked_at({ASKED_AT_TAG: str(NOW.wall_ns)})
    now = Instant(NOW.monotonic_ns, NOW.wall_ns + set_ns)
    asked = ages.asked_at({ASKED_AT_TAG: str(now.wall_ns - 5)})
    assert asked.monotonic_ns == now.monotonic_ns - 5
