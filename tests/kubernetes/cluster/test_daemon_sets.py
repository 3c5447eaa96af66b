"""Which pods are for one node, and preempt others there: those of DaemonSets that exist, and no others that say so."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import Ask, Effect, RecordEvent
from schedulerd.kubernetes.cluster.events import DaemonSetsListed, Put, Tick
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from tests.kubernetes.builders import daemon_set, for_node, node, owned_by_daemon_set
from tests.kubernetes.cluster.play import Play, of, own, the_ask

NODE = "yunikorn.apache.org/requiredNode"
VICTIMS = "schedulerd.io/victims"


@pytest.fixture
def play() -> Play:
    play = Play()
    play.start(node("n"), own("first"))
    return play


def claimant(name: str = "p", uid: str = "d", **meta: object) -> object:
    return own(name, meta={**owned_by_daemon_set(uid), **meta}, affinity=for_node("n"))


def warnings(effects: list[Effect]) -> list[RecordEvent]:
    return [one for one in of(effects, RecordEvent) if one.reason == "DaemonSetUnknown"]


def test_a_pod_of_a_daemon_set_that_is_there_names_its_node(play: Play) -> None:
    assert the_ask(play.put(daemon_set(), claimant())).tags[NODE] == "n"


def test_a_forged_reference_makes_an_ordinary_pod_and_a_warning(play: Play) -> None:
    assert play.put(claimant(uid="invented")) == []
    assert play.wait(4.9) == []
    play.now_ns += SECOND_NS
    effects = play.all(Tick())
    tags = the_ask(of(effects, Ask)).tags
    assert NODE not in tags
    assert VICTIMS not in tags
    (warning,) = warnings(effects)
    assert "'invented'" in warning.note
    assert warnings(play.all_put(claimant(uid="invented", annotations={"a": "b"}))) == []


@pytest.mark.parametrize("other", [daemon_set("other"), daemon_set("d", "elsewhere")])
def test_a_daemon_set_of_another_uid_or_namespace_proves_nothing(play: Play, other: object) -> None:
    play.put(other, claimant())
    assert NODE not in the_ask(play.wait(5)).tags


def test_a_pod_that_is_seen_before_its_daemon_set_waits_for_it(play: Play) -> None:
    assert play.put(claimant()) == []
    assert the_ask(play.put(daemon_set())).tags[NODE] == "n"
    assert play.wait(60) == []


def test_a_daemon_set_that_is_seen_late_gives_its_pod_the_node_after_all(play: Play) -> None:
    play.put(claimant())
    assert NODE not in the_ask(play.wait(5)).tags
    assert the_ask(play.put(daemon_set())).tags[NODE] == "n"


def test_pods_of_daemon_sets_preempt_only_lower_priorities_outside_of_trusted_namespaces() -> None:
    play = Play(daemon_set_namespaces=frozenset({"ns"}))
    play.start(node("n"))
    assert VICTIMS not in the_ask(play.put(daemon_set(), claimant())).tags
    play = Play()
    play.start(node("n"))
    assert the_ask(play.put(daemon_set(), claimant())).tags[VICTIMS] == "lower-priority"


def test_without_the_right_to_watch_only_trusted_namespaces_are_believed() -> None:
    play = Play(daemon_set_namespaces=frozenset({"ns"}))
    play.tell(DaemonSetsListed(is_allowed=False))
    play.start(node("n"))
    assert the_ask(play.put(claimant())).tags[NODE] == "n"
    play = Play()
    play.tell(DaemonSetsListed(is_allowed=False))
    play.start(node("n"))
    effects = play.all_put(claimant())
    assert NODE not in the_ask(of(effects, Ask)).tags
    assert len(warnings(effects)) == 1
    assert the_ask(play.tell(Put(daemon_set()), DaemonSetsListed(is_allowed=True))).tags[NODE] == "n"


def test_a_daemon_set_that_is_gone_proves_nothing_any_longer(play: Play) -> None:
    play.put(daemon_set())
    play.gone(daemon_set())
    play.put(claimant())
    assert NODE not in the_ask(play.wait(5)).tags


def test_nothing_is_kept_of_pods_that_are_gone(play: Play) -> None:
    pods = [claimant(f"p{number}", f"d{number % 2}") for number in range(4)]
    play.put(*pods)
    play.gone(*pods)
    play.put(daemon_set("d0"))
    assert play.cluster.model.waiting_for_daemon_sets == {}
