"""Which streams may open, where responses go, and what the scheduler hears of it."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from schedulerd.core.language.commands import AbsenceCause, DisconnectResourceManager, StopCause, StopResourceManager
from schedulerd.core.language.facts.fact import Fact, NodeAccepted, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.daemon.access.rm_ids import RM_ID_LENGTH_MAX, rm_id_problem
from schedulerd.daemon.sessions import outbox
from schedulerd.daemon.sessions import rm_sessions as module
from schedulerd.daemon.sessions.open_calls import CloseReason, Refused
from schedulerd.daemon.sessions.rm_session import RmSession
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.daemon.recording import FakeStream, named

INIT = ResourceManagerChanged("rm", ResourceManagerState.INIT, "registered")
BOUND = 1000


def stopped(cause: StopCause, rm_id: str = "rm") -> ResourceManagerChanged:
    return ResourceManagerChanged(rm_id, ResourceManagerState.STOPPED, cause.value)


def accepted(node_id: str = "node-1") -> NodeAccepted:
    return NodeAccepted("rm", "default", node_id)


class World:
    """RM sessions whose commands to the scheduler are kept in `posted`."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.sessions = RmSessions(ResponseEncoder(), self.posted.append, outbox_bytes_max=BOUND)

    def say(self, *facts: Fact) -> None:
        self.sessions.deliver(facts, at(0))

    def attach(self, kind: Stream = Stream.ALLOCATION, rm_id: str = "rm") -> tuple[FakeStream, RmSession]:
        stream = FakeStream()
        self.sessions.open(stream)
        session = self.sessions.attach(rm_id, kind, stream)
        return stream, session

    def refusal(self, rm_id: str = "rm", kind: Stream = Stream.NODE) -> CloseReason:
        with pytest.raises(Refused) as refused:
            self.sessions.attach(rm_id, kind, FakeStream())
        return refused.value.ending


@pytest.fixture
def world() -> World:
    world = World()
    world.say(INIT)
    return world


def test_before_registration_a_stream_is_refused() -> None:
    assert World().refusal().code is grpc.StatusCode.FAILED_PRECONDITION


def test_only_the_stream_of_allocations_makes_an_rm_present(world: World) -> None:
    world.attach(Stream.NODE)
    world.attach(Stream.APPLICATION)
    assert world.posted == []
    stream, session = world.attach()
    assert named(world.posted) == ["ConnectResourceManager"]
    world.sessions.detach(session, Stream.ALLOCATION, stream)
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager"]


def test_one_stream_of_2021_is_all_it_takes_to_be_present(world: World) -> None:
    stream, session = world.attach(Stream.UPDATE)
    assert named(world.posted) == ["ConnectResourceManager"]
    world.say(accepted())
    assert b"node-1" in (session.outboxes[Stream.UPDATE].head() or b"")
    world.sessions.detach(session, Stream.UPDATE, stream)
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager"]
    world.attach(Stream.UPDATE)
    assert len(world.posted) == 3


@pytest.mark.parametrize("first", Stream)
def test_the_first_stream_decides_which_dialect_an_rm_speaks(world: World, first: Stream) -> None:
    stream, session = world.attach(first)
    world.sessions.detach(session, first, stream)
    for kind in Stream:
        if kind.dialect is first.dialect:
            world.attach(kind)
            continue
        ending = world.refusal(kind=kind)
        assert ending.code is grpc.StatusCode.FAILED_PRECONDITION
        for name in (kind.value, first.value, first.dialect.value, "register again"):
            assert name in ending.details
    assert session.dialect is first.dialect


def test_an_rm_that_registers_again_may_choose_anew(world: World) -> None:
    world.attach(Stream.UPDATE)
    world.say(INIT)
    _, session = world.attach(Stream.NODE)
    world.say(accepted())
    assert session.outboxes[Stream.NODE].head() is not None
    assert world.refusal(kind=Stream.UPDATE).code is grpc.StatusCode.FAILED_PRECONDITION


def test_each_rm_has_a_dialect_of_its_own(world: World) -> None:
    world.say(ResourceManagerChanged("other", ResourceManagerState.INIT, "registered"))
    _, mine = world.attach(Stream.UPDATE)
    _, others = world.attach(Stream.NODE, "other")
    world.say(accepted("mine"), NodeAccepted("other", "default", "theirs"))
    assert b"mine" in (mine.outboxes[Stream.UPDATE].head() or b"")
    assert b"theirs" in (others.outboxes[Stream.NODE].head() or b"")
    assert len(mine.outboxes[Stream.NODE]) == len(others.outboxes[Stream.UPDATE]) == 0


def test_what_is_told_of_applications_is_told_in_its_order(world: World) -> None:
    """Other responses are joined, and then their lists have no order among each other."""
    _, session = world.attach(Stream.APPLICATION)
    for stream, head in ((Stream.APPLICATION, b"a"), (Stream.ALLOCATION, b"ab")):
        session.put([(stream, b"a"), (stream, b"b")])
        assert session.outboxes[stream].head() == head


def test_an_rm_that_has_to_resync_gets_nothing_that_was_kept(world: World) -> None:
    _, session = world.attach(Stream.UPDATE)
    world.say(accepted())
    world.say(stopped(StopCause.RECONNECT_TIMEOUT))
    assert session.outboxes[Stream.UPDATE].head() is None


def test_a_newer_stream_takes_over_without_the_rm_being_away(world: World) -> None:
    older, session = world.attach()
    newer, _ = world.attach()
    assert (older.was_superseded, newer.was_superseded) == (True, False)
    world.sessions.detach(session, Stream.ALLOCATION, older)
    assert named(world.posted) == ["ConnectResourceManager"]


def test_responses_wait_for_a_stream_and_one_too_many_stops_the_rm(world: World) -> None:
    stream, session = world.attach()
    while not any(name == "StopResourceManager" for name in named(world.posted)):
        world.say(accepted("n" * 90))
        assert world.sessions.depth <= BOUND // 90
    world.say(accepted(), accepted("n" * 2000))
    assert world.sessions.depth == 0, "with a gap the rest would mislead"
    world.sessions.detach(session, Stream.ALLOCATION, stream)
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager", "StopResourceManager"]
    assert session.outboxes[Stream.NODE].head() is None


def test_one_large_answer_does_not_stop_an_rm_that_has_read_until_then(world: World) -> None:
    _, session = world.attach()
    world.say(*(accepted(f"{at}" + "n" * 90) for at in range(BOUND // 10)))
    assert session.outboxes[Stream.NODE].size_bytes > 5 * BOUND
    assert world.posted[-1] == DisconnectResourceManager("rm", AbsenceCause.READS_SLOWLY)
    world.say(accepted())
    assert world.posted[-1] == StopResourceManager("rm", StopCause.OUTBOX_OVERFLOW)


def test_what_is_placed_before_the_scheduler_hears_of_it_does_not_stop_an_rm_that_falls_behind(world: World) -> None:
    _, session = world.attach()
    world.say(ResourceManagerChanged("rm", ResourceManagerState.RUNNING, "its allocation stream is open"))
    for _ in range(3):
        world.say(accepted("n" * 2 * BOUND))
    assert world.posted[-1] == DisconnectResourceManager("rm", AbsenceCause.READS_SLOWLY)
    assert session.outboxes[Stream.NODE].size_bytes > 6 * BOUND
    world.say(ResourceManagerChanged("rm", ResourceManagerState.PAUSED, AbsenceCause.READS_SLOWLY.value))
    world.say(accepted())
    assert world.posted[-1] == StopResourceManager("rm", StopCause.OUTBOX_OVERFLOW)


def test_an_rm_that_does_not_read_counts_as_away_until_it_has_read(world: World) -> None:
    stream, session = world.attach()
    others, _ = world.attach(Stream.NODE)
    while stream.may_read:
        world.say(accepted("n" * 90))
    assert world.posted[-1] == DisconnectResourceManager("rm", AbsenceCause.READS_SLOWLY)
    assert BOUND // 2 < session.outboxes[Stream.NODE].size_bytes <= BOUND // 2 + 100
    assert others.may_read is False
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager"]

    session.outboxes[Stream.NODE].head()
    session.outboxes[Stream.NODE].sent()
    session.regulate()
    assert (stream.may_read, others.may_read) == (True, True)
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager", "ConnectResourceManager"]


def test_an_rm_that_reads_slowly_is_away_until_little_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MESSAGE_BYTES_MAX", 1)
    stream, session = world.attach()
    waiting = session.outboxes[Stream.NODE]

    def may_go_on_after_one_more() -> bool | None:
        waiting.head()
        waiting.sent()
        session.regulate()
        return stream.may_read

    for _ in range(10):
        while stream.may_read:
            world.say(accepted("n" * 90))
        for _ in range(2):
            assert not may_go_on_after_one_more()
            world.say(accepted("n" * 90))
        while not may_go_on_after_one_more():
            assert waiting.size_bytes > BOUND // 4
        assert BOUND // 4 - 100 < waiting.size_bytes <= BOUND // 4
    assert named(world.posted) == [
        "ConnectResourceManager",
        *["DisconnectResourceManager", "ConnectResourceManager"] * 10,
    ]


@pytest.mark.parametrize("kind", [Stream.ALLOCATION, Stream.UPDATE])
def test_the_scheduler_hears_why_an_rm_is_away(world: World, kind: Stream) -> None:
    stream, session = world.attach(kind)
    world.sessions.detach(session, kind, stream)
    assert world.posted[-1] == DisconnectResourceManager("rm", AbsenceCause.GONE)
    world.attach(kind)
    world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining"))
    assert world.posted[-1] == DisconnectResourceManager("rm", AbsenceCause.SHUTDOWN)


def test_nothing_of_an_earlier_registration_reaches_a_later_one(world: World) -> None:
    stream, old = world.attach()
    world.say(accepted("before"))
    world.say(accepted("in the same turn"), INIT, accepted("after"))
    assert stream.ending is not None
    assert stream.ending.code is grpc.StatusCode.ABORTED
    assert not stream.ending.details.startswith("RESYNC"), "who registers again knows, and reports anyway"
    assert not stream.ending.resync
    _, new = world.attach()
    assert new is not old
    assert b"after" in (new.outboxes[Stream.NODE].head() or b"")
    assert b"before" not in (new.outboxes[Stream.NODE].head() or b"")
    assert b"same turn" not in (new.outboxes[Stream.NODE].head() or b"")


def test_between_drop_and_registration_nothing_may_open_or_is_kept(world: World) -> None:
    stream, _ = world.attach()
    world.sessions.drop("rm", module.REGISTERED_AGAIN)
    assert stream.ending is module.REGISTERED_AGAIN
    assert world.refusal().code is grpc.StatusCode.FAILED_PRECONDITION
    world.say(accepted())
    assert world.sessions.depth == 0


def test_a_connect_that_was_queued_behind_a_newer_registration_is_taken_back(world: World) -> None:
    stream, old = world.attach()  # its Connect is in the inbox, and so is another registration in front of it
    world.say(INIT)
    world.sessions.detach(old, Stream.ALLOCATION, stream)
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager"]


def test_the_end_of_an_old_stream_does_not_make_the_new_one_away(world: World) -> None:
    stream, old = world.attach()
    world.say(INIT)
    world.attach()
    world.sessions.detach(old, Stream.ALLOCATION, stream)
    assert named(world.posted) == ["ConnectResourceManager", "ConnectResourceManager"]


@pytest.mark.parametrize("cause", [cause for cause in StopCause if cause is not StopCause.UNREGISTERED])
def test_a_stopped_rm_is_told_to_resync_until_it_registers(world: World, cause: StopCause) -> None:
    stream, _ = world.attach(Stream.NODE)
    world.say(stopped(cause))
    for ending in (stream.ending, world.refusal(), world.refusal()):
        assert ending is not None
        assert ending.code is grpc.StatusCode.ABORTED
        assert ending.details.startswith("RESYNC")
        assert "register again" in ending.details
        assert ending.resync
    world.say(INIT)
    world.attach(Stream.NODE)


def test_an_rm_that_unregistered_is_simply_unknown(world: World) -> None:
    stream, _ = world.attach()
    world.say(stopped(StopCause.UNREGISTERED))
    assert stream.ending is not None
    assert stream.ending.code is grpc.StatusCode.OK
    assert world.refusal().code is grpc.StatusCode.FAILED_PRECONDITION


def test_the_memory_of_stopped_rms_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOPPED_MAX", 3)
    world = World()
    for number in range(5):
        world.say(stopped(StopCause.RECONNECT_TIMEOUT, f"rm-{number}"))
    codes = [world.refusal(f"rm-{number}").code for number in range(5)]
    assert codes == [grpc.StatusCode.FAILED_PRECONDITION] * 2 + [grpc.StatusCode.ABORTED] * 3


def test_an_rm_id_has_so_many_characters_at_most() -> None:
    assert rm_id_problem("x" * RM_ID_LENGTH_MAX) is None
    assert rm_id_problem("x" * (RM_ID_LENGTH_MAX + 1)) == (
        f"rmID: has {RM_ID_LENGTH_MAX + 1} characters; it must be printable and have at most {RM_ID_LENGTH_MAX}"
    )


def test_closing_ends_every_stream_and_every_later_one(world: World) -> None:
    bound, _ = world.attach()
    unbound = FakeStream()
    world.sessions.open(unbound)
    ending = CloseReason(grpc.StatusCode.UNAVAILABLE, "draining")
    world.sessions.close(ending)
    late = FakeStream()
    world.sessions.open(late)
    assert [bound.ending, unbound.ending, late.ending] == [ending] * 3
    assert named(world.posted) == ["ConnectResourceManager", "DisconnectResourceManager"], "nothing is placed any more"
