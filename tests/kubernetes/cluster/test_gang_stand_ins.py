"""An ask that no node can take stands in for a placeholder that is to be asked for again, so that its gang is not taken
for complete meanwhile."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import (
    made,
    member,
    placeholders,
    reserving,
    started,
    the_placeholder,
    with_one_bound,
)
from tests.kubernetes.cluster.play import of


def test_an_evicted_placeholder_is_made_again_and_an_ask_stands_in_for_it() -> None:
    play, pods = with_one_bound()
    key = pods[0].metadata.uid
    effects = play.gone(placed(pods[0], "n"))
    standing, released, withdrawn = effects
    assert isinstance(standing, e.Ask)
    assert standing.is_placeholder
    assert isinstance(released, e.ReleaseAllocation)
    assert withdrawn == e.ReleaseAsk(app("a"), key)
    (created,) = of(play.wait(1), e.CreatePod)
    assert created.name == pods[0].metadata.name
    asked, ended = play.put(made(created, "new"))
    assert isinstance(asked, e.Ask)
    assert ended == e.ReleaseAsk(app("a"), standing.key)


def test_an_ask_stands_in_for_a_placeholder_whose_ask_was_rejected() -> None:
    play, pods = reserving()
    key = pods[0].metadata.uid
    (standing,) = play.tell(v.AskRejected(app("a"), key, "no"))
    assert isinstance(standing, e.Ask)
    assert (standing.task_group, standing.is_placeholder) == ("g", True)
    assert play.tell(v.AskRejected(app("a"), standing.key, "no")) == []
    again, ended = play.wait(1)
    assert isinstance(again, e.Ask)
    assert again.key == key
    assert ended == e.ReleaseAsk(app("a"), standing.key)
    play.tell(v.AskRejected(app("a"), key, "no"))
    effects = play.gone(member("w0"), member("w1"))
    assert e.ReleaseAsk(app("a"), standing.key) in effects, "it goes with the gang"


def test_a_placeholder_that_cannot_be_bound_does_not_make_its_gang_complete() -> None:
    play, pods = reserving()
    key = pods[0].metadata.uid
    play.allocate(key, "n")
    standing, released, asked, ended = play.tell(v.BindEnded(key, "n", v.BindResult.FAILED, "no"))
    assert isinstance(standing, e.Ask)
    assert standing.is_placeholder
    assert standing.key != key
    assert isinstance(released, e.ReleaseAllocation)
    assert isinstance(asked, e.Ask)
    assert asked.key == key
    assert ended == e.ReleaseAsk(app("a"), standing.key)


def test_nothing_stands_in_for_a_placeholder_whose_earlier_ask_was_allocated() -> None:
    play = started()
    play.put(*placeholders(play))
    key = next(iter(play.cluster.model.placeholders[app("a")]))
    standing = the_placeholder(play.tell(v.AskRejected(app("a"), key, "the one that was sent again")))
    assert e.ReleaseAsk(app("a"), standing.key) in play.allocate(key, "n")


def test_a_placeholder_that_is_bound_where_the_daemon_has_no_node_is_made_again() -> None:
    play = started()
    play.accepts_nodes = False
    play.put(node("n2"))
    play.tell(v.NodeRejected("n2", "no"))
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    play.allocate(key, "n")
    effects = play.put(placed(pods[0], "n2"))
    standing = the_placeholder(effects)
    assert e.ReleaseAsk(app("a"), standing.key) not in effects, (
        "the gang lacks a placeholder until another one is asked for"
    )
    assert of(effects, e.DeletePod) == [e.DeletePod(e.PodName("ns", pods[0].metadata.name, key))]
    play.gone(placed(pods[0], "n2"))
    (created,) = of(play.wait(1), e.CreatePod)
    asked, ended = play.put(made(created, "new"))
    assert isinstance(asked, e.Ask)
    assert ended == e.ReleaseAsk(app("a"), standing.key)


def test_a_placeholder_that_is_gone_when_it_is_bound_is_made_again_at_once() -> None:
    """The watch has not told it yet, and the daemon would take the gang for complete without it."""
    play, pods = reserving()
    key = pods[0].metadata.uid
    play.allocate(key, "n")
    standing, released, deleted = play.tell(v.BindEnded(key, "n", v.BindResult.GONE, "not found"))
    assert isinstance(standing, e.Ask)
    assert isinstance(released, e.ReleaseAllocation)
    assert isinstance(deleted, e.DeletePod), "a pod of another API server, or one that is there after all"
    assert e.ReleaseAsk(app("a"), standing.key) not in play.gone(pods[0])
    (created,) = of(play.wait(1), e.CreatePod)
    asked, ended = play.put(made(created, "new"))
    assert isinstance(asked, e.Ask)
    assert ended == e.ReleaseAsk(app("a"), standing.key)
