"""Going on where an earlier stream broke off: what the headers say, and what each side skips."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from schedulerd.core.language.commands import Command, DisconnectResourceManager
from schedulerd.daemon.sessions import sent_messages
from schedulerd.daemon.sessions.outbox import Outbox
from schedulerd.daemon.sessions.resumption import RECEIVED_HEADER, RESUMES, SENT_HEADER, Position, Taken, position
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.stream_world import World, run


def test_the_headers_say_how_far_a_client_has_come() -> None:
    assert position((("user-agent", "x"), (RECEIVED_HEADER, "3"), (SENT_HEADER, "7"))) == Position(3, 7)
    assert position((("user-agent", "x"), ("some-bin", b"\xff"))) is None


@pytest.mark.parametrize(
    "headers", [((RECEIVED_HEADER, "3"),), ((RECEIVED_HEADER, "-1"), (SENT_HEADER, "0")), ((SENT_HEADER, "many"),)]
)
def test_headers_that_make_no_sense_are_said(headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ValueError, match=r"header schedulerd-.* must be a whole number"):
        position(headers)


def commands(*names: str) -> list[Command]:
    return [DisconnectResourceManager(name) for name in names]


def test_requests_that_were_taken_are_skipped_to_the_command() -> None:
    taken = Taken()
    assert taken.resume(0)
    for _ in range(2):
        assert list(taken.new(commands("a", "b"))) == commands("a", "b")
        taken.command_taken()
        taken.command_taken()
        taken.request_taken()
    taken.command_taken()  # of a third one, whose stream then broke
    assert taken.resume(1)
    assert list(taken.new(commands("a", "b"))) == []
    taken.request_taken()
    assert list(taken.new(commands("c", "d"))) == commands("d")
    taken.command_taken()
    taken.request_taken()
    assert list(taken.new(commands("e"))) == commands("e")


def test_a_gap_before_the_next_request_is_noticed() -> None:
    assert not Taken().resume(1)


def say(outbox: Outbox, *payloads: bytes) -> None:
    for payload in payloads:
        outbox.put(payload)
        assert outbox.head() == payload
        outbox.sent()


def heard(outbox: Outbox) -> list[bytes]:
    found = []
    while (message := outbox.head()) is not None:
        found.append(message)
        outbox.sent()
    return found


def test_what_was_sent_and_did_not_come_is_sent_again_before_the_rest() -> None:
    outbox = Outbox()
    outbox.resume(0)
    say(outbox, b"one", b"two", b"three")
    outbox.put(b"four")
    outbox.resume(1)
    assert outbox.size_bytes == len(b"twothreefour")
    assert b"".join(heard(outbox)) == b"twothreefour"


def test_what_came_although_its_writer_did_not_hear_of_it_is_not_sent_again() -> None:
    outbox = Outbox()
    outbox.resume(0)
    outbox.put(b"one")
    assert outbox.head() == b"one"
    outbox.put(b"two")
    outbox.resume(1)
    assert heard(outbox) == [b"two"]


def test_for_a_client_that_takes_no_part_nothing_is_kept() -> None:
    outbox = Outbox()
    say(outbox, b"one", b"two")
    with pytest.raises(IndexError):
        outbox.resume(1)
    outbox.resume(2)
    say(outbox, b"three")
    outbox.keep_nothing()
    with pytest.raises(IndexError):
        outbox.resume(2)


def test_more_than_is_kept_cannot_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_messages, "KEPT_BYTES_MAX", 6)
    outbox = Outbox()
    outbox.resume(0)
    say(outbox, b"one", b"two", b"tri")
    with pytest.raises(IndexError):
        outbox.resume(0)
    outbox.resume(1)
    assert heard(outbox) == [b"twotri"]


def test_more_than_was_ever_sent_is_noticed() -> None:
    outbox = Outbox()
    outbox.resume(0)
    say(outbox, b"one")
    with pytest.raises(ValueError, match="2"):
        outbox.resume(2)


def headers(received: int, sent: int) -> tuple[tuple[str, str], ...]:
    return ((RECEIVED_HEADER, str(received)), (SENT_HEADER, str(sent)))


def test_a_stream_goes_on_where_the_one_before_it_broke_off() -> None:
    async def play(world: World) -> None:
        broken, first = world.open(headers(0, 0))
        broken.hello()
        broken.send("node-0")
        await turns()
        broken.send("node-1")
        await turns()
        first.cancel()
        await asyncio.wait({first})
        back, second = world.open(headers(1, 1))
        back.hello()
        back.send("node-1")
        back.send("node-2")
        await turns()
        assert world.nodes == ["node-0", "node-1", "node-2"]
        assert back.answered == ["node-1", "node-2"]
        second.cancel()

    run(play)


def test_a_client_that_has_finished_gets_its_answers_and_then_the_end() -> None:
    async def play(world: World) -> None:
        context, served = world.open(headers(0, 0))
        context.hello()
        context.send("node-0", "node-1")
        context.half_close()
        await served
        assert context.answered == ["node-0", "node-1"]
        assert context.status[0] is grpc.StatusCode.OK

    run(play)


def test_headers_tell_a_client_that_it_may_go_on_and_come_no_sooner() -> None:
    async def play(world: World) -> None:
        context, served = world.open(headers(0, 0))
        await turns()
        assert context.headers != RESUMES
        context.hello()
        await turns()
        assert context.headers == RESUMES
        served.cancel()
        of_other_clients, serving = world.open()
        await turns()
        assert of_other_clients.headers == RESUMES
        serving.cancel()

    run(play)


@pytest.mark.parametrize("position", [headers(0, 5), headers(3, 0), ((SENT_HEADER, "-1"),)])
def test_an_rm_that_cannot_go_on_is_not_told_that_it_may(position: tuple[tuple[str, str], ...]) -> None:
    async def play(world: World) -> None:
        context, served = world.open(position)
        context.hello()
        await served
        assert context.headers == ()

    run(play)


@pytest.mark.parametrize(
    ("position", "details"),
    [(headers(0, 5), "RESYNC: more was lost"), (headers(3, 0), "another client has registered it")],
)
def test_a_client_that_is_somewhere_else_is_told(position: tuple[tuple[str, str], ...], details: str) -> None:
    async def play(world: World) -> None:
        context, served = world.open(position)
        context.hello()
        await served
        assert context.status[0] is grpc.StatusCode.ABORTED
        assert details in context.status[1]

    run(play)


def test_headers_without_sense_are_refused() -> None:
    async def play(world: World) -> None:
        context, served = world.open(((SENT_HEADER, "-1"),))
        context.hello()
        await served
        assert context.status[0] is grpc.StatusCode.INVALID_ARGUMENT

    run(play)
