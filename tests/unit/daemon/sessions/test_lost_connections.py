"""Who has to resync because a connection was lost with responses on their way, where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest

from schedulerd.core.language.commands import StopCause, StopResourceManager
from schedulerd.core.language.facts.fact import NodeAccepted, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.daemon.sessions.resumption import RECEIVED_HEADER, SENT_HEADER
from schedulerd.daemon.sessions.rm_session import RmSession
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import FakeStream, named
from tests.unit.daemon.stream_world import NodeCall, World, run

IN_DOUBT_SECONDS = 10.0
SAME, OTHER, THIRD = "ipv4:10.0.0.1:1000", "ipv4:10.0.0.1:2000", "ipv4:10.0.0.1:3000"
STOP = StopResourceManager("rm", StopCause.CONNECTION_LOST)
KINDS = pytest.mark.parametrize("kind", Stream)


class Line:
    """RM sessions with the one of a registered RM, and what was posted for the scheduler."""

    def __init__(self, in_doubt_seconds: float | None = IN_DOUBT_SECONDS) -> None:
        self.posted: list[Any] = []
        self.sessions = RmSessions(
            ResponseEncoder(), self.posted.append, outbox_bytes_max=1_000, in_doubt_seconds=in_doubt_seconds
        )
        self.say(ResourceManagerState.INIT, "registered")

    def say(self, state: ResourceManagerState, cause: str) -> None:
        self.sessions.deliver([ResourceManagerChanged("rm", state, cause)], at(0))

    def attach(self, kind: Stream, peer: str = SAME) -> tuple[FakeStream, RmSession]:
        stream = FakeStream(peer)
        self.sessions.open(stream)
        return stream, self.sessions.attach("rm", kind, stream)

    def lose(self, kind: Stream, peer: str = SAME, written_seconds_ago: float = 0.0) -> None:
        """A stream is opened, and lost again."""
        stream, session = self.attach(kind, peer)
        stream.is_lost, stream.written_seconds_ago = True, written_seconds_ago
        self.sessions.detach(session, kind, stream)


@pytest.fixture
def line() -> Line:
    return Line()


@KINDS
def test_an_rm_that_comes_over_another_connection_is_stopped_once_and_told_why(line: Line, kind: Stream) -> None:
    line.lose(kind)
    assert STOP not in line.posted, "it may have cancelled its call"
    stream, _ = line.attach(kind, OTHER)
    line.lose(kind, THIRD)
    assert line.posted.count(STOP) == 1
    assert line.posted[-1] == STOP, "and nothing is placed for it any more"
    line.sessions.deliver([NodeAccepted("rm", "default", "node-1")], at(0))
    assert line.sessions.depth == 0
    line.say(ResourceManagerState.STOPPED, STOP.cause.value)
    assert stream.ending is not None
    assert (stream.ending.code, stream.ending.resync) == (grpc.StatusCode.ABORTED, True)
    for words in ("RESYNC: ", "lost", "--resync-after-lost-connection", "register again and report everything"):
        assert words in stream.ending.details


def test_the_next_stream_of_any_kind_shows_it(line: Line) -> None:
    line.lose(Stream.ALLOCATION)
    line.attach(Stream.NODE, OTHER)
    assert line.posted[-1] == STOP


@KINDS
def test_an_rm_that_goes_on_over_the_same_connection_has_cancelled_its_call(line: Line, kind: Stream) -> None:
    line.lose(kind)
    line.lose(kind, written_seconds_ago=IN_DOUBT_SECONDS)
    line.attach(kind, OTHER)
    assert STOP not in line.posted


@KINDS
def test_nothing_in_doubt_is_nothing_lost(line: Line, kind: Stream) -> None:
    line.lose(kind, written_seconds_ago=IN_DOUBT_SECONDS)
    line.attach(kind, OTHER)
    assert STOP not in line.posted


@KINDS
def test_a_stream_that_we_ended_is_not_lost(line: Line, kind: Stream) -> None:
    stream, session = line.attach(kind)
    stream.written_seconds_ago = 0.0
    line.sessions.detach(session, kind, stream)
    line.attach(kind, OTHER)
    assert STOP not in line.posted


@KINDS
def test_unless_it_is_wanted_no_rm_is_stopped(kind: Stream) -> None:
    line = Line(in_doubt_seconds=None)
    line.lose(kind)
    line.attach(kind, OTHER)
    assert STOP not in line.posted


@KINDS
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost then", "given up by us"])
def test_whose_loss_is_noticed_after_another_connection_has_taken_over_is_stopped(
    line: Line, kind: Stream, is_lost: bool
) -> None:
    older, session = line.attach(kind)
    newer, _ = line.attach(kind, OTHER)
    assert older.was_superseded
    older.is_lost, older.written_seconds_ago = is_lost, 0.0
    line.sessions.detach(session, kind, older)
    line.sessions.detach(session, kind, newer)
    assert line.posted[-1] == STOP
    assert line.posted.count(STOP) == 1


@KINDS
def test_an_rm_that_takes_over_from_itself_over_the_same_connection_is_not_stopped(line: Line, kind: Stream) -> None:
    older, session = line.attach(kind)
    newer, _ = line.attach(kind)
    older.written_seconds_ago = 0.0
    line.sessions.detach(session, kind, older)
    newer.is_lost = True
    line.sessions.detach(session, kind, newer)
    line.attach(kind, OTHER)
    assert STOP not in line.posted


def test_the_older_stream_may_be_the_one_that_is_lost(line: Line) -> None:
    older, session = line.attach(Stream.UPDATE)
    newer, _ = line.attach(Stream.UPDATE)
    older.is_lost = newer.is_lost = True
    older.written_seconds_ago = 0.0
    line.sessions.detach(session, Stream.UPDATE, older)
    line.sessions.detach(session, Stream.UPDATE, newer)
    line.attach(Stream.UPDATE, OTHER)
    assert line.posted[-1] == STOP


def test_an_rm_that_registers_again_has_left_all_doubt_behind(line: Line) -> None:
    line.lose(Stream.UPDATE)
    line.say(ResourceManagerState.INIT, "registered again")
    line.attach(Stream.UPDATE, OTHER)
    assert named(line.posted) == ["ConnectResourceManager", "DisconnectResourceManager", "ConnectResourceManager"]


# The streams themselves


def played(play: Callable[[World], Coroutine[None, None, None]]) -> None:
    run(play, World(in_doubt_seconds=IN_DOUBT_SECONDS))


async def answered(world: World, headers: tuple[tuple[str, str], ...] = ()) -> tuple[NodeCall, asyncio.Task[None]]:
    """A call with an answer that was written just now."""
    context, served = world.open(headers, client=SAME)
    context.hello()
    context.send("node-0")
    await turns()
    assert context.answered == ["node-0"]
    return context, served


async def lose(served: asyncio.Task[None]) -> None:
    """The client is gone, as gRPC tells it."""
    served.cancel()
    await asyncio.wait({served})


def stops(world: World) -> int:
    return sum(command == STOP for _, command in world.scheduler.stepped)


def test_a_stream_over_another_connection_is_told_to_resync_and_nothing_that_it_brought_is_taken() -> None:
    async def play(world: World) -> None:
        await lose((await answered(world))[1])
        back, served = world.open(client=OTHER)
        back.send("node-1", "node-2")
        await served
        assert back.status[0] is grpc.StatusCode.ABORTED
        assert back.status[1].startswith("RESYNC: a connection was lost")
        assert (back.answered, stops(world)) == ([], 1)
        assert "rm" not in world.scheduler.cluster.resource_managers

    played(play)


def test_a_response_that_is_being_written_is_in_doubt() -> None:
    async def play(world: World) -> None:
        context, served = world.open(client=SAME)
        context.reading.clear()
        context.send("node-0")
        await turns()
        await lose(served)
        back, served = world.open(client=OTHER)
        back.hello()
        await served
        assert stops(world) == 1

    played(play)


@pytest.mark.parametrize(
    ("client", "seconds_before"), [(SAME, 0.0), (OTHER, 2 * IN_DOUBT_SECONDS)], ids=["same connection", "long ago"]
)
def test_a_stream_that_has_lost_nothing_goes_on(
    monkeypatch: pytest.MonkeyPatch, client: str, seconds_before: float
) -> None:
    async def play(world: World) -> None:
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as then:
            now = loop.time()
            then.setattr(loop, "time", lambda: now - seconds_before)
            _, served = await answered(world)
        await lose(served)
        back, served = world.open(client=client)
        back.send("node-1")
        await turns()
        assert (back.answered, stops(world)) == (["node-1"], 0)
        served.cancel()

    played(play)


def test_a_stream_from_elsewhere_before_the_loss_is_noticed_is_told_to_resync() -> None:
    async def play(world: World) -> None:
        older, first = await answered(world)
        newer, second = world.open(client=OTHER)
        newer.send("node-1")
        await asyncio.wait({first, second})
        assert older.status[0] is grpc.StatusCode.OK, "it gave way"
        assert newer.status[0] is grpc.StatusCode.ABORTED
        assert newer.status[1].startswith("RESYNC")
        assert (newer.answered, stops(world)) == ([], 1)

    played(play)


def test_a_client_that_says_how_far_it_has_come_goes_on_where_it_was() -> None:
    async def play(world: World) -> None:
        _, served = await answered(world, ((RECEIVED_HEADER, "0"), (SENT_HEADER, "0")))
        await lose(served)
        back, served = world.open(((RECEIVED_HEADER, "0"), (SENT_HEADER, "1")), client=OTHER)
        back.hello()
        back.send("node-1")
        await turns()
        assert (back.answered, stops(world)) == (["node-0", "node-1"], 0)
        served.cancel()

    played(play)


def test_a_client_that_was_refused_was_told_so_and_lost_nothing() -> None:
    async def play(world: World) -> None:
        context, served = await answered(world)
        context.send("node-1", rm_id="another")
        await served
        assert context.status[0] is grpc.StatusCode.INVALID_ARGUMENT
        back, served = world.open(client=OTHER)
        back.send("node-2")
        await turns()
        assert (back.answered, stops(world)) == (["node-2"], 0)
        served.cancel()

    played(play)
