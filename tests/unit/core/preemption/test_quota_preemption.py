"""A queue above a lowered max ends what is too much of it, after its time, if it may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.language.commands import TerminationType, UpdateConfiguration
from schedulerd.core.language.facts.fact import Fact, ReleaseCause, ReleaseRequested
from schedulerd.core.language.facts.preemption import QuotaPreempted
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    OptOut,
    PartitionSpec,
    PreemptionPolicy,
    QueueProperties,
    QueueSpec,
)
from schedulerd.core.preemption.handlers import quota_preemption
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
)

DELAY_NS = 60 * SECOND_NS
TIMED = QueueProperties(quota_preemption_delay_ns=DELAY_NS)


def a_talk(*queues: QueueSpec, **nodes: int) -> Conversation:
    return a_conversation(*(a_node(name, {"memory": room}) for name, room in nodes.items()), root=a_root(*queues))


def reload(talk: Conversation, *queues: QueueSpec, enabled: bool = True, optout: OptOut = OptOut.NEVER) -> list[Fact]:
    root = a_root(*queues)
    spec = PartitionSpec("default", root, quota_preemption_enabled=enabled, preemption_optout=optout)
    return talk.step(UpdateConfiguration(RM, (spec,)))


def fill(talk: Conversation, app: str, queue: str, *keys: str, **fields: Any) -> None:
    talk.apps(an_app(app, queue))
    for key in keys:
        talk.asks(an_ask(key, 10, 1, app, **fields))
        talk.schedule()


def preempted_keys(facts: list[Fact]) -> list[str]:
    requests = of(ReleaseRequested, facts)
    assert all(one.cause is ReleaseCause.PREEMPTED for one in requests)
    assert all(one.termination is TerminationType.PREEMPTED_BY_SCHEDULER for one in requests)
    return [one.allocation_key for one in requests]


def leaf(name: str = "a", most: int | None = None, guaranteed: int = 0, **properties: Any) -> QueueSpec:
    return replace(
        a_queue_spec(name),
        max=Limits() if most is None else Limits(memory=most),
        guaranteed=Resources(memory=guaranteed) if guaranteed else Resources(),
        properties=replace(TIMED, **properties),
    )


def test_the_youngest_of_the_excess_are_preempted_when_the_time_is_over() -> None:
    talk = a_talk(leaf(), n1=50)
    fill(talk, "app", "root.a", "k1", "k2", "k3", "k4")
    assert preempted_keys(reload(talk, leaf(most=25))) == []
    assert preempted_keys(talk.sleep(DELAY_NS - 1)) == []
    facts = talk.sleep(1)
    assert preempted_keys(facts) == ["k3", "k4"]
    said = only(QuotaPreempted, facts)
    assert (said.queue, said.victims, said.why) == (
        "root.a",
        2,
        "queue root.a is above its quota: 40 of 25 memory used",
    )
    assert preempted_keys(talk.sleep(10 * DELAY_NS)) == []
    talk.release(application_id="app", termination=TerminationType.PREEMPTED_BY_SCHEDULER, allocation_key="k3")
    talk.release(application_id="app", termination=TerminationType.PREEMPTED_BY_SCHEDULER, allocation_key="k4")
    assert talk.queue("root.a").allocated == {"memory": 20}
    assert talk.scheduler.next_deadline_ns() is None


def test_lowering_it_further_does_not_start_the_time_anew_and_another_delay_changes_it() -> None:
    talk = a_talk(leaf(), n1=50)
    fill(talk, "app", "root.a", "k1", "k2", "k3", "k4")
    reload(talk, leaf(most=30))
    talk.sleep(DELAY_NS // 2)
    reload(talk, leaf(most=20))
    talk.sleep(DELAY_NS // 4)
    reload(talk, leaf(most=20, quota_preemption_delay_ns=2 * DELAY_NS))
    assert preempted_keys(talk.sleep(DELAY_NS)) == []
    assert preempted_keys(talk.sleep(DELAY_NS // 4)) == ["k3", "k4"]


@pytest.mark.parametrize("why", ["partition", "delay", "raised", "came back"])
def test_nothing_is_preempted_where_it_is_not_wanted(why: str) -> None:
    talk = a_talk(leaf(), n1=50)
    fill(talk, "app", "root.a", "k1", "k2", "k3")
    reload(talk, leaf(most=20))
    if why == "partition":
        reload(talk, leaf(most=20), enabled=False)
    elif why == "delay":
        reload(talk, leaf(most=20, quota_preemption_delay_ns=0))
    elif why == "raised":
        reload(talk, leaf(most=30))
    else:
        talk.release(application_id="app", allocation_key="k1")
    assert of(QuotaPreempted, talk.sleep(10 * DELAY_NS)) == []


def test_each_branch_gives_by_what_it_uses_above_its_guarantee() -> None:
    def a_tree(most: int | None) -> QueueSpec:
        parent = leaf("p", most)
        return replace(parent, parent=True, children=(leaf("x", guaranteed=10), leaf("y"), leaf("z", guaranteed=40)))

    talk = a_talk(a_tree(None), n1=200)
    fill(talk, "x", "root.p.x", *(f"x{at}" for at in range(5)))
    fill(talk, "y", "root.p.y", *(f"y{at}" for at in range(8)))
    fill(talk, "z", "root.p.z", *(f"z{at}" for at in range(4)))
    reload(talk, a_tree(110))
    assert sorted(preempted_keys(talk.sleep(DELAY_NS))) == ["x3", "x4", "y4", "y5", "y6", "y7"]


def test_what_one_branch_may_not_give_the_others_give() -> None:
    def a_tree(most: int | None) -> QueueSpec:
        children = (leaf("x", preemption_policy=PreemptionPolicy.DISABLED), leaf("y"))
        return replace(leaf("p", most), parent=True, children=children)

    talk = a_talk(a_tree(None), n1=200)
    fill(talk, "x", "root.p.x", "x0", "x1", "x2", "x3")
    fill(talk, "y", "root.p.y", "y0", "y1", "y2", "y3")
    reload(talk, a_tree(50))
    assert sorted(preempted_keys(talk.sleep(DELAY_NS))) == ["y1", "y2", "y3"]


def test_what_may_not_be_preempted_stays_and_that_is_said_once() -> None:
    talk = a_talk(leaf(preemption_policy=PreemptionPolicy.DISABLED), n1=50)
    fill(talk, "app", "root.a", "k1", "k2")
    reload(talk, leaf(most=10, preemption_policy=PreemptionPolicy.DISABLED))
    facts = talk.sleep(10 * DELAY_NS)
    assert preempted_keys(facts) == []
    assert only(QuotaPreempted, facts).victims == 0
    assert talk.scheduler.next_deadline_ns() is None


def test_what_comes_back_with_a_node_may_be_too_much_as_well() -> None:
    talk = a_talk(leaf(most=20), n1=50)
    reload(talk, leaf(most=20))
    talk.apps(an_app())
    talk.nodes(a_node("n2", {"memory": 50}, *(an_existing(f"e{at}", f"k{at}") for at in range(3))))
    assert preempted_keys(talk.sleep(DELAY_NS)) == ["k2"]


def test_the_protected_are_preempted_last_and_daemons_never() -> None:
    talk = a_talk(leaf(), n1=100)
    fill(talk, "app", "root.a", "originator", originator=True)
    fill(talk, "app2", "root.a", "important", priority=5)
    fill(talk, "app3", "root.a", "daemon", tags={"yunikorn.apache.org/requiredNode": "n1"})
    fill(talk, "app4", "root.a", "spared", allow_preempt_self=False)
    reload(talk, leaf(most=30))
    assert preempted_keys(talk.sleep(DELAY_NS)) == ["important"]
    reload(talk, leaf(most=10), optout=OptOut.LAST)
    assert preempted_keys(talk.sleep(DELAY_NS)) == ["spared", "originator"]


def test_no_more_are_preempted_than_needed_however_many_branches_share_it() -> None:
    def a_tree(most: int | None) -> QueueSpec:
        return replace(leaf("p", most), parent=True, children=tuple(leaf(f"q{at}") for at in range(5)))

    talk = a_talk(a_tree(None), n1=200)
    for at in range(5):
        fill(talk, f"app{at}", f"root.p.q{at}", f"k{at}")
    reload(talk, a_tree(45))
    assert len(preempted_keys(talk.sleep(DELAY_NS))) == 1


def test_sizes_count_in_bytes_as_well() -> None:
    gib = 2**30
    talk = a_talk(leaf(), n1=4096 * gib)
    talk.apps(an_app("app", "root.a"))
    talk.asks(an_ask("large", 2000 * gib, 1, "app"), an_ask("small", 8 * gib, 1, "app"), an_ask("tiny", gib, 1, "app"))
    talk.schedule()
    reload(talk, leaf(most=2005 * gib))
    assert preempted_keys(talk.sleep(DELAY_NS)) == ["small"]


@pytest.mark.parametrize("finished", [False, True], ids=["all stay", "one finishes meanwhile"])
def test_a_long_search_runs_in_slices_and_is_judged_again(monkeypatch: pytest.MonkeyPatch, finished: bool) -> None:
    monkeypatch.setattr(quota_preemption, "VISITS_PER_SLICE", 3)

    def a_tree(most: int | None) -> QueueSpec:
        return replace(leaf("p", most), parent=True, children=(leaf("x"), leaf("y"), leaf("z")))

    talk = a_talk(a_tree(None), n1=90)
    for name in ("x", "y", "z"):
        fill(talk, name, f"root.p.{name}", *(f"{name}{at}" for at in range(3)))
    reload(talk, a_tree(60))
    slices = [talk.sleep(DELAY_NS)]
    if finished:
        talk.release(application_id="x", allocation_key="x2")
    while not of(QuotaPreempted, slices[-1]):
        slices.append(talk.sleep(quota_preemption.SLICE_EACH_NS))
    assert len(slices) > 3
    assert slices[:-1] == [[]] * (len(slices) - 1)
    assert preempted_keys(slices[-1]) == (["y2", "z2"] if finished else ["x2", "y2", "z2"])


def test_a_search_ends_when_the_queue_is_within_its_max_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_preemption, "VISITS_PER_SLICE", 1)
    talk = a_talk(leaf(), n1=90)
    fill(talk, "app", "root.a", "k0", "k1", "k2")
    reload(talk, leaf(most=20))
    assert talk.sleep(DELAY_NS) == [], "the search has begun"
    talk.release(application_id="app", allocation_key="k0")
    assert preempted_keys(talk.sleep(10 * DELAY_NS)) == []
    assert talk.queue().allocated == {"memory": 20}


def test_many_are_preempted_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_preemption, "VICTIMS_PER_SLICE", 2)
    talk = a_talk(leaf(), n1=50)
    fill(talk, "app", "root.a", "k1", "k2", "k3", "k4", "k5")
    reload(talk, leaf(most=10))
    assert preempted_keys(talk.sleep(DELAY_NS)) == ["k2", "k3"]
    assert preempted_keys(talk.sleep(quota_preemption.SLICE_EACH_NS)) == ["k4", "k5"]
    assert of(QuotaPreempted, talk.sleep(DELAY_NS)) == []
