"""Pods that are resized in place: what the daemon counts follows what they request."""

from __future__ import annotations

import msgspec
import pytest

from schedulerd.kubernetes.cluster.effects import Ask, ReleaseAllocation, ReleaseAsk, UpdateNode
from schedulerd.kubernetes.cluster.events import BindEnded, BindResult
from schedulerd.kubernetes.objects.pod import Pod, PodStatus
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.play import Play, of, own, the_ask


@pytest.fixture
def play() -> Play:
    play = Play()
    play.start(node("n", cpu="4"), node("m", cpu="4"))
    return play


def amounts(milli: int) -> dict[str, int]:
    return {"vcore": milli, "pods": 1}


def granted(cpu: str, wanted: str) -> Pod:
    """A pod on its node that wants other amounts than the kubelet has set up."""
    container = {"name": "c0", "resources": {"requests": {"cpu": cpu}}}
    status = msgspec.convert({"containerStatuses": [container]}, PodStatus)
    return msgspec.structs.replace(placed(own("p", cpu=wanted), "n"), status=status)


def test_a_bound_pod_that_is_resized_is_asked_for_once_more(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    assert play.put(placed(own("p"), "n")) == []
    ask = the_ask(play.put(placed(own("p", cpu="2"), "n")))
    assert (ask.key, ask.resources) == ("p", amounts(2000))
    assert play.put(placed(own("p", cpu="2"), "n")) == []
    assert the_ask(play.put(placed(own("p", cpu="500m"), "n"))).resources == amounts(500)


def test_a_pod_that_is_resized_while_it_is_bound(play: Play) -> None:
    play.put(own("p"))
    play.allocate("p", "n")
    assert play.put(own("p", cpu="2")) == []
    assert the_ask(play.tell(BindEnded("p", "n", BindResult.DONE))).resources == amounts(2000)


def test_a_pod_that_is_resized_while_it_waits_is_asked_for_anew(play: Play) -> None:
    play.put(own("p"))
    (ask,) = play.put(own("p", cpu="2"))
    assert isinstance(ask, Ask)
    assert ask.resources == amounts(2000)
    play.bind("p", "n")


def test_a_request_that_cannot_be_read_leaves_the_allocation_as_it_is(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    assert play.put(placed(own("p", cpu="much"), "n")) == []
    assert play.put(placed(own("p"), "n")) == []


def test_a_pod_that_was_reported_is_resized_with_its_node(play: Play) -> None:
    play.put(placed(own("p"), "n"))
    (update,) = play.put(placed(own("p", cpu="2"), "n"))
    assert isinstance(update, UpdateNode)
    assert [(one.uuid, one.resources) for one in update.existing] == [("p", amounts(2000))]
    assert play.gone(placed(own("p", cpu="2"), "n"))[0] == ReleaseAllocation(app("yunikorn-ns-autogen"), "p", "p")


def test_a_pod_counts_with_what_it_has_until_it_has_given_it_back(play: Play) -> None:
    play.put(own("p", cpu="2"))
    play.bind("p", "n")
    assert of(play.put(granted("2", wanted="1")), Ask) == []
    assert the_ask(play.put(granted("1", wanted="1"))).resources == amounts(1000)


def test_a_resize_that_may_come_after_the_end_of_the_allocation_is_withdrawn(play: Play) -> None:
    play.put(own("p"))
    play.bind("p", "n")
    play.put(placed(own("p", cpu="2"), "n"))
    effects = play.gone(node("n", cpu="4"))
    assert of(effects, ReleaseAsk) == [ReleaseAsk(app("yunikorn-ns-autogen"), "p")]


def test_an_ask_that_is_under_way_is_not_the_last_word_about_a_pod_that_is_found_larger(play: Play) -> None:
    play.put(own("p"))
    effects = play.put(placed(own("p", cpu="2"), "n"))
    (update,) = of(effects, UpdateNode)
    assert [one.resources for one in update.existing] == [amounts(2000)]
    assert the_ask(effects).resources == amounts(2000)
