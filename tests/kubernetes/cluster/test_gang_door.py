"""A pod without a gang enters no module of gangs but their door."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from schedulerd.kubernetes.cluster.events import (
    AllocationReleased,
    AskRejected,
    BindEnded,
    BindResult,
    PendingReasonTold,
)
from schedulerd.kubernetes.cluster.gangs import door
from schedulerd.kubernetes.reasons.waiting import State, Waiting
from tests.kubernetes.builders import node
from tests.kubernetes.cluster.play import Play, own

GANGS = door.__name__.rpartition(".")[0]


def test_from_its_watch_to_its_end(request: pytest.FixtureRequest) -> None:
    entered: set[str] = set()
    play = Play()
    play.start(node("n"), node("m"))

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(f"{GANGS}.") and frame.f_code.co_name != "<module>":
            entered.add(name)

    request.addfinalizer(lambda: sys.setprofile(None))
    sys.setprofile(note)
    play.put(own("p"), own("q"))
    application = play.cluster.model.pods["p"].application
    assert application is not None
    play.tell(PendingReasonTold(application.id, "p", Waiting(State.READY)))
    assert play.cluster.predicates("p", "n", allocate=True) is None
    play.tell(AskRejected(application.id, "p", "no"))
    play.wait(5)
    play.allocate("p", "n")
    play.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
    play.wait(5)
    play.allocate("p", "n", "second")
    play.tell(BindEnded("p", "n", BindResult.DONE))
    play.tell(AllocationReleased(application.id, "p", "second"))
    play.gone(own("p"), own("q"))
    sys.setprofile(None)
    assert play.cluster.model.pods == {}
    assert entered == {door.__name__}
