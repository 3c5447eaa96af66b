"""What a reload of the queue file changes for asks that wait for preemption."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, PartitionSpec, PreemptionPolicy, QueueProperties, QueueSpec
from tests.unit.core.builders import RM, Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask, of

DELAY_NS = 5 * SECOND_NS


def leaf(name: str, guaranteed: int = 0, policy: PreemptionPolicy = PreemptionPolicy.DEFAULT) -> QueueSpec:
    properties = QueueProperties(preemption_delay_ns=DELAY_NS, preemption_policy=policy)
    return replace(
        a_queue_spec(name),
        guaranteed=Resources(memory=guaranteed) if guaranteed else Resources(),
        properties=properties,
    )


def a_talk() -> Conversation:
    talk = a_conversation(a_node("n1", {"memory": 20}), root=a_root(leaf("a"), leaf("b")))
    talk.apps(an_app("rich", "root.a"), an_app("poor", "root.b"))
    talk.asks(*(an_ask(f"k{at}", 10, 1, "rich") for at in range(2)))
    talk.schedule()
    talk.asks(an_ask("c", 10, 1, "poor", allow_preempt_other=True))
    talk.schedule()
    return talk


def reload(talk: Conversation, *leaves: QueueSpec, enabled: bool = True) -> None:
    talk.step(UpdateConfiguration(RM, (PartitionSpec("default", a_root(*leaves), preemption_enabled=enabled),)))


def preempted_keys(facts: list[Fact]) -> list[str]:
    return [one.allocation_key for one in of(ReleaseRequested, facts)]


def test_a_guarantee_that_comes_later_counts_at_once_for_an_ask_that_is_due() -> None:
    talk = a_talk()
    assert preempted_keys([*talk.sleep(DELAY_NS), *talk.schedule()]) == []
    reload(talk, leaf("a"), leaf("b", 10))
    assert preempted_keys(talk.schedule()) == ["k1"]


def test_nothing_is_preempted_once_it_is_switched_off_and_again_when_it_is_switched_on() -> None:
    talk = a_talk()
    reload(talk, leaf("a"), leaf("b", 10), enabled=False)
    assert preempted_keys([*talk.sleep(10 * DELAY_NS), *talk.schedule()]) == []
    reload(talk, leaf("a"), leaf("b", 10))
    assert preempted_keys(talk.schedule()) == ["k1"]


def test_a_fence_or_a_protection_that_comes_later_holds() -> None:
    for protected in (
        (leaf("a", policy=PreemptionPolicy.DISABLED), leaf("b", 10)),
        (leaf("a"), leaf("b", 10, PreemptionPolicy.FENCE)),
    ):
        talk = a_talk()
        reload(talk, *protected)
        assert preempted_keys([*talk.sleep(DELAY_NS), *talk.schedule()]) == []


def test_nothing_is_preempted_for_a_daemon_that_a_lowered_max_does_not_let_in() -> None:
    talk = a_talk()
    reload(talk, leaf("a"), leaf("b"), enabled=False)
    talk.asks(an_ask("daemon", 10, 1, "poor", tags={"yunikorn.apache.org/requiredNode": "n1"}))
    talk.schedule()
    reload(talk, leaf("a"), replace(leaf("b"), max=Limits(memory=5)))
    assert preempted_keys(talk.schedule()) == []
    reload(talk, leaf("a"), leaf("b"))
    assert preempted_keys(talk.schedule()) == ["k1"]
