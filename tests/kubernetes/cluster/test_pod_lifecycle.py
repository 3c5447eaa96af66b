"""The table of a pod's states, and that the check of each state finds a pod that is wrong."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.model import OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import IMPLIES, POD, IllegalMove, PodState, PodTrigger
from tests.kubernetes.builders import node
from tests.kubernetes.cluster.invariants import problems_of
from tests.kubernetes.cluster.play import Play, own


def test_every_state_has_a_row_and_can_be_reached_from_new() -> None:
    assert set(POD) == set(IMPLIES) == set(PodState)
    reached = {PodState.NEW}
    while more := {to for state in reached for to in POD[state].values()} - reached:
        reached |= more
    assert reached == set(PodState)


def test_every_trigger_moves_some_pod() -> None:
    assert {trigger for row in POD.values() for trigger in row} == set(PodTrigger)


def test_a_move_that_is_not_in_the_table_raises() -> None:
    pod = _asked()[1]
    for trigger in set(PodTrigger) - set(POD[PodState.ASKED]):
        with pytest.raises(IllegalMove, match="a pod that is asked"):
            pod.enter(trigger)
    assert pod.state is PodState.ASKED


@pytest.mark.parametrize("state", PodState)
def test_a_pod_in_a_wrong_state_is_found(state: PodState) -> None:
    play, pod = _asked()
    if state in (PodState.ASKED, PodState.LEAVING):
        play.bind("p", "n")
    assert list(problems_of(play.cluster.model, pod)) == []
    pod.state = state
    assert list(problems_of(play.cluster.model, pod)) != []


def test_a_pod_on_another_node_than_it_says_is_found() -> None:
    play, pod = _asked()
    play.bind("p", "n")
    play.put(node("m"))
    assert list(problems_of(play.cluster.model, pod)) == []
    pod.node = "m"
    assert list(problems_of(play.cluster.model, pod)) == ["pod p is bound, which does not hold"]


def _asked() -> tuple[Play, OwnPod]:
    play = Play()
    play.start(node("n"), own("p"))
    pod = play.cluster.model.pods["p"]
    assert pod.state is PodState.ASKED
    return play, pod
