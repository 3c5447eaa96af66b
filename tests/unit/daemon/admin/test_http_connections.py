"""How long a connection of the HTTP port may keep the daemon waiting, and which one makes room for another."""

from __future__ import annotations

import asyncio

import pytest

from schedulerd.daemon.admin import http_connections
from schedulerd.daemon.admin.http_connections import HEAD_BYTES_MAX, IDLE_SECONDS_MAX
from schedulerd.http_connections import EXCHANGE_SECONDS_MAX, HEAD_SECONDS_MAX
from tests.loops import each_row
from tests.unit.daemon.admin.http_world import LATE_SECONDS, World, run

GET = b"GET /small HTTP/1.1\r\nHost: daemon\r\n\r\n"
GET_LATE = b"GET /late HTTP/1.1\r\nHost: daemon\r\n\r\n"
PUT = b"PUT /body HTTP/1.1\r\nHost: daemon\r\nContent-Length: 10\r\n\r\n"
IDLE_S, HEAD_S = float(IDLE_SECONDS_MAX), HEAD_SECONDS_MAX


@each_row(
    ("said", "seconds"),
    [
        (b"", HEAD_SECONDS_MAX),
        (GET[:5], HEAD_SECONDS_MAX),
        (GET[:-2], HEAD_SECONDS_MAX),
        (PUT, EXCHANGE_SECONDS_MAX),
        (PUT + b"half", EXCHANGE_SECONDS_MAX),
    ],
)
@each_row("by_byte", [False, True])
def test_a_client_has_so_long_to_send_its_request(said: bytes, seconds: float, by_byte: bool) -> None:
    """A request that trickles in byte by byte gains no time."""

    async def story(world: World) -> None:
        client = world.connect()
        if by_byte:
            for byte in said:
                client.say(bytes([byte]))
                await asyncio.sleep(0.9 * HEAD_SECONDS_MAX / len(said))
            await asyncio.sleep(EXCHANGE_SECONDS_MAX)
            assert client.closed_at_s is not None
            assert seconds <= client.closed_at_s < seconds + HEAD_SECONDS_MAX
        else:
            client.say(said)
            await asyncio.sleep(seconds)
            assert client.closed_at_s == seconds
        assert client.received == b""

    run(story)


def test_of_a_connection_that_is_closed_before_its_client_is_done_the_operator_hears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(http_connections, "READERS_MAX", 1)
    peer = "10.0.0.1:4711"

    async def story(world: World) -> None:
        answered = world.connect()
        answered.say(GET)
        await asyncio.sleep(IDLE_S)
        assert not answered.is_open
        assert world.told == []  # it had its answer, and nobody waited
        world.connect()
        await asyncio.sleep(HEAD_S)
        world.connect().say(GET_LATE[:-2])
        for client in (world.connect(), world.connect()):
            client.reads = False
            client.say(GET)
        await asyncio.sleep(0.1)
        world.connect()
        world.connect()
        assert world.told == [
            (peer, "no request came within 10 s"),
            (peer, "1 other clients do not read their answers either"),
            (peer, "3 connections are open, and another one needs the place"),
        ]
        await asyncio.sleep(EXCHANGE_SECONDS_MAX)
        assert world.told[-1] == (peer, "an exchange was not over within 60 s")

    run(story)


def test_a_stream_has_no_time_limit_and_the_next_request_has_one() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.say(b"GET /endless HTTP/1.1\r\nHost: daemon\r\n\r\n")
        await asyncio.sleep(3 * EXCHANGE_SECONDS_MAX)
        await asyncio.sleep(0.1)
        assert client.answers == 1
        client.say(PUT)
        await asyncio.sleep(EXCHANGE_SECONDS_MAX)
        assert not client.is_open

    run(story)


def test_a_body_that_trickles_in_gains_no_time() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.say(PUT)
        for _ in range(9):
            await asyncio.sleep(EXCHANGE_SECONDS_MAX / 9)
            client.say(b"x")
        assert client.closed_at_s == pytest.approx(EXCHANGE_SECONDS_MAX)

    run(story)


def test_an_unwanted_body_gains_no_time_either() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.say(b"GET /small HTTP/1.1\r\nHost: daemon\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(1_000):
            await asyncio.sleep(EXCHANGE_SECONDS_MAX / 900)
            client.say(b"1\r\nx\r\n")
        assert client.answers == 1
        assert client.closed_at_s == pytest.approx(EXCHANGE_SECONDS_MAX)

    run(story)


def test_a_connection_may_be_silent_for_so_long_after_an_answer() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.say(GET)
        await asyncio.sleep(IDLE_S - 1)
        client.say(GET)
        await asyncio.sleep(IDLE_S)
        assert (client.answers, client.closed_at_s) == (2, 2 * IDLE_S - 1)

    run(story)


def test_each_answer_gives_the_time_for_another_request() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        for number in range(20):
            assert client.answers == number
            client.say(GET[:4])
            await asyncio.sleep(HEAD_S - 1)
            client.say(GET[4:])
            await asyncio.sleep(0)
            await asyncio.sleep(0.5)
        assert asyncio.get_running_loop().time() > 2 * EXCHANGE_SECONDS_MAX

    run(story)


@pytest.mark.parametrize("request_", [GET, GET + GET, GET_LATE])
def test_a_client_has_so_long_to_read_its_answer(request_: bytes) -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.reads = False
        client.say(request_)
        await asyncio.sleep(EXCHANGE_SECONDS_MAX)
        assert (client.received, client.closed_at_s) == (b"", EXCHANGE_SECONDS_MAX)

    run(story)


def test_a_client_that_has_read_has_the_time_for_another_request() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.reads = False
        client.say(GET)
        await asyncio.sleep(1)
        client.read()
        await asyncio.sleep(1)
        client.say(GET)
        await asyncio.sleep(1)
        assert client.answers == 2
        assert client.is_open

    run(story)


def test_requests_that_come_together_are_answered_in_turn_and_each_has_its_time() -> None:
    async def story(world: World) -> None:
        client = world.connect()
        client.say(GET_LATE * 3 + GET)
        await asyncio.sleep(3 * LATE_SECONDS + IDLE_S)
        assert (client.answers, client.closed_at_s) == (4, 3 * LATE_SECONDS + IDLE_S)

    run(story)


@pytest.mark.parametrize("size", [HEAD_BYTES_MAX, 200_000])
@pytest.mark.parametrize("form", ["a long line", "a long header", "many headers"])
def test_the_head_of_a_request_has_so_many_bytes_at_most(form: str, size: int) -> None:
    """Even if all of it comes at once, so that the parser never waits for the rest of it."""
    heads = {
        "a long line": b"GET /small?" + b"x" * size + b" HTTP/1.1\r\nHost: daemon\r\n\r\n",
        "a long header": GET[:-2] + b"Long: " + b"x" * size + b"\r\n\r\n",
        "many headers": GET[:-2] + b"a:\r\n" * (size // 4) + b"\r\n",
    }

    async def story(world: World) -> None:
        fits, too_long = world.connect(), world.connect()
        fits.say(GET[:-2] + b"Fits: " + b"x" * (HEAD_BYTES_MAX - len(GET) - 8) + b"\r\n\r\n")
        too_long.say(heads[form].replace(b"\r\n\r\n", b"\r\nMore: " + b"x" * 1024 + b"\r\n\r\n"))
        await asyncio.sleep(1)
        assert fits.answers == 1
        assert too_long.received.startswith(b"HTTP/1.1 400 ")
        assert too_long.closed_at_s == 0

    run(story)


def test_one_connection_too_many_replaces_the_one_that_was_idle_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 4)

    async def story(world: World) -> None:
        at_work, half_a_body, silent, answered = [world.connect() for _ in range(4)]
        at_work.say(GET_LATE)
        half_a_body.say(PUT)
        answered.say(GET)
        await asyncio.sleep(0.1)
        later = []
        for number, others in enumerate(([answered, half_a_body], [half_a_body], [])):
            later.append(world.connect())
            later[number].say(GET_LATE)
            assert [one for one in (silent, answered, half_a_body) if one.is_open] == others
            await asyncio.sleep(0.1)
        assert not world.connect().is_open  # the daemon is at work for all others
        await asyncio.sleep(LATE_SECONDS)
        assert [one.answers for one in (at_work, *later)] == [1] * 4

    run(story)


def test_a_client_that_does_not_read_makes_room_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 1)

    async def story(world: World) -> None:
        unread = world.connect()
        unread.reads = False
        unread.say(GET)
        await asyncio.sleep(1)
        probe = world.connect()
        probe.say(GET)
        await asyncio.sleep(1)
        assert (unread.is_open, probe.answers) == (False, 1)

    run(story)


def test_an_endless_stream_makes_room_for_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 2)

    async def story(world: World) -> None:
        stream, at_work = world.connect(), world.connect()
        stream.say(b"GET /endless HTTP/1.1\r\nHost: daemon\r\n\r\n")
        at_work.say(GET_LATE)
        await asyncio.sleep(0.1)
        probe = world.connect()
        probe.say(GET)
        await asyncio.sleep(LATE_SECONDS)
        assert (stream.is_open, at_work.answers, probe.answers) == (False, 1, 1)
        await asyncio.sleep(3 * EXCHANGE_SECONDS_MAX)

    run(story)


def test_so_many_clients_may_lag_behind_what_is_written_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "READERS_MAX", 2)

    async def story(world: World) -> None:
        first, *others = [world.connect() for _ in range(3)]
        for one in (first, *others):
            one.reads = False
            one.say(GET)
            await asyncio.sleep(0.1)
        assert [one.is_open for one in (first, *others)] == [False, True, True]
        for one in others:
            one.read()
            await asyncio.sleep(0.1)
            assert one.answers == 1
        last = world.connect()
        last.reads = False
        last.say(GET)
        await asyncio.sleep(0.1)
        assert all(one.is_open for one in (*others, last))

    run(story)
