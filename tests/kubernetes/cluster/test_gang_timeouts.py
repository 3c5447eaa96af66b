"""The time of a gang is over: what people are told of it, in the words of Kubernetes."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.reasons.waiting import Waiting
from tests.kubernetes.builders import app, node
from tests.kubernetes.cluster.gang_play import made, member
from tests.kubernetes.cluster.play import of
from tests.kubernetes.reasons.reader import FAILED, Reader

RAW = "ResourceReservationTimeout: after 100 s task group g has 1 of 2 placeholders: the next one wants vcore 1000"
TEXT = (
    "ResourceReservationTimeout: 1 of 2 placeholders were placed in 100 s; "
    "the next one, of task group 'g', asks for 1 cpu: "
)
NO_ROOM = "0/1 nodes are available: 1 node(s) had room only for other pods."


def short_gang(style: str, waiting: Waiting | None = FAILED) -> tuple[Reader, str]:
    """The first of two placeholders is placed; the key of the second, which waits for this."""
    reader = Reader()
    reader.start(node("n", cpu="8"))
    pods = [member(name, style=style) for name in ("w0", "w1")]
    effects = reader.put(*pods)
    effects += reader.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Accepted", ""))
    reader.put(*(made(one) for one in of(effects, e.CreatePod)))
    model = reader.cluster.model
    first, second = [uid for uid, own in model.pods.items() if own.is_placeholder]
    reader.tell(v.Allocated(app("a"), first, "u", "n"))
    if waiting is not None:
        reader.all(v.PendingReasonTold(app("a"), second, waiting))
    reader.pass_time(100)
    return reader, second


def failures(effects: list[e.Effect]) -> set[str]:
    return {one.message for one in of(effects, e.FailPod)}


@pytest.mark.parametrize("is_ask_first", [True, False])
def test_a_hard_gang(is_ask_first: bool) -> None:
    reader, key = short_gang("Hard")
    timed_out = v.AskTimedOut(app("a"), key)
    if is_ask_first:
        reader.all(timed_out)
    effects = reader.all(v.ApplicationUpdated(app("a"), "Failing", RAW))
    if not is_ask_first:
        reader.all(timed_out)
    effects += reader.all(v.ApplicationUpdated(app("a"), "Failed", RAW))
    assert failures(effects) == {TEXT + NO_ROOM}
    notes = {
        one.note for one in of(effects, e.RecordEvent) if one.reason in ("ApplicationFailed", "GangSchedulingFailed")
    }
    assert notes == {TEXT + NO_ROOM}


def test_a_requeued_gang() -> None:
    reader, _ = short_gang("Requeue")
    reader.all(v.ApplicationUpdated(app("a"), "Failing", RAW), v.ApplicationUpdated(app("a"), "Failed", RAW))
    reader.pass_time(5)
    assert {reader.told(name)[1] for name in ("w0", "w1")} == {TEXT + NO_ROOM}


def test_a_soft_gang() -> None:
    reader, _ = short_gang("Soft")
    reader.all(v.ApplicationUpdated(app("a"), "Resuming", RAW))
    assert reader.last_event("w0") == ("GangSchedulingFailed", TEXT + NO_ROOM)


def test_any_other_end_is_told_as_the_daemon_says_it() -> None:
    reader, _ = short_gang("Hard")
    effects = reader.all(v.ApplicationUpdated(app("a"), "Failed", "queue root.q is gone"))
    assert failures(effects) == {"queue root.q is gone"}


def test_a_gang_that_was_placed_when_its_time_ended() -> None:
    reader, key = short_gang("Hard")
    reader.all(v.Allocated(app("a"), key, "u2", "n"))
    assert failures(reader.all(v.ApplicationUpdated(app("a"), "Failed", RAW))) == {RAW}
