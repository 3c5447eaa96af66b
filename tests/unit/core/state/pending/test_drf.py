"""Dominant resource fairness as an order of applications and queues (SEMANTICS I24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import (
    Command,
    NodeAction,
    RingAlarms,
    RunCycle,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import ApplicationOrder, QueueOrder, QueueProperties, QueueSpec
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending import capacity_renewal
from schedulerd.core.state.pending.capacity_renewal import RENEWED_MAX
from schedulerd.core.state.pending.sort_keys import dominant_share
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    placed,
)

DRF = ApplicationOrder.DRF
LEAF = a_root(a_queue_spec("a", order=DRF))
NONE = Resources()
CLUSTER = {"memory": 1_000, "vcore": 100, "gpu": 4}
HUGE = 2**63 - 1
amounts = st.dictionaries(st.sampled_from(["memory", "vcore", "gpu"]), st.integers(0, HUGE)).map(Resources)


def ordered(talk: Conversation) -> list[str]:
    """The applications of root.a by their places in line."""
    [leaf] = [one for one in talk.model().root.subtree() if one.path == "root.a"]
    return [one.application_id for _, one in sorted(leaf.pending_index, key=lambda one: one[0])]  # type: ignore[attr-defined]


def holding(talk: Conversation, **held: dict[str, int]) -> None:
    """Applications that have so much each, in this order, and ask for more than any node has."""
    for name, has in held.items():
        talk.apps(an_app(name))
        if has:
            talk.asks(an_ask("has", app=name, resources=Resources(has)))
            assert len(placed(talk.schedule())) == 1
    for name in held:
        talk.asks(an_ask("wants", app=name, resources=Resources(memory=10**9)))


def drf_talk(root: QueueSpec = LEAF, **held: dict[str, int]) -> Conversation:
    talk = a_conversation(a_node("n1", CLUSTER), root=root)
    holding(talk, **held)
    return talk


# Shares


def share_of(used: Resources, guaranteed: Resources, capacity: Resources) -> int:
    return dominant_share(used, guaranteed, Limits(memory=1), capacity)


def test_the_largest_share_counts_and_no_other() -> None:
    capacity = Resources(CLUSTER)
    assert share_of(Resources(memory=500, gpu=1), NONE, capacity) == 2**255
    assert share_of(Resources(memory=500), NONE, capacity) == 2**255
    assert share_of(NONE, NONE, capacity) == 0


def test_a_type_that_no_schedulable_node_offers_is_ignored() -> None:
    assert share_of(Resources(memory=1, fpga=10**9), NONE, Resources(memory=2)) == 2**255
    assert share_of(Resources(fpga=10**9), NONE, Resources(memory=2)) == 0


def test_a_guarantee_and_a_max_do_not_count() -> None:
    assert share_of(Resources(memory=1), Resources(memory=100), Resources(memory=2)) == 2**255


def exact(used: Resources, offered: Resources) -> Fraction:
    return max((Fraction(used[name], amount) for name, amount in offered.items() if amount), default=Fraction(0))


@given(amounts, amounts, amounts, st.integers(1, 2**64))
def test_shares_are_compared_exactly(one: Resources, other: Resources, offered: Resources, nodes: int) -> None:
    offered = offered.times(nodes)
    shares = share_of(one, NONE, offered), share_of(other, NONE, offered)
    assert (shares[0] < shares[1], shares[0] == shares[1]) == (
        exact(one, offered) < exact(other, offered),
        exact(one, offered) == exact(other, offered),
    )


def test_shares_that_differ_by_the_least_possible_differ() -> None:
    large = 2**127 - 1
    assert share_of(Resources(memory=large - 2, vcore=0), NONE, Resources(memory=large - 1)) < share_of(
        Resources(memory=large - 1), NONE, Resources(memory=large)
    )


# Leaves


def test_the_application_with_the_smallest_largest_share_is_next() -> None:
    talk = drf_talk(much={"memory": 500}, gpus={"gpu": 1}, cores={"vcore": 30})
    assert ordered(talk) == ["gpus", "cores", "much"]  # 1/4, 3/10, 1/2


def test_equal_shares_go_by_age() -> None:
    talk = drf_talk(a={"gpu": 1}, b={"vcore": 25}, c={"memory": 250, "vcore": 10}, d={}, e={})
    assert ordered(talk) == ["d", "e", "a", "b", "c"]


@pytest.mark.parametrize(("first", "order"), [(True, ["urgent", "more", "less"]), (False, ["urgent", "less", "more"])])
def test_priority_comes_first_or_decides_between_equals(first: bool, order: list[str]) -> None:
    talk = a_conversation(a_node("n1", CLUSTER), root=a_root(a_queue_spec("a", order=DRF, priority_sort=first)))
    talk.apps(an_app("more"), an_app("less"), an_app("urgent"))
    talk.asks(an_ask("has", app="more"))
    talk.schedule()
    talk.asks(an_ask("wants", 10**9, app="more", priority=5), an_ask("wants", 10**9, app="less"))
    talk.asks(an_ask("wants", 10**9, app="urgent", priority=5))
    assert ordered(talk) == order


def test_an_allocation_and_a_release_change_the_place() -> None:
    talk = a_conversation(a_node("n1", CLUSTER), root=LEAF)
    talk.apps(an_app("one"), an_app("two"))
    talk.asks(*(an_ask("k", 100, count=5, app=name) for name in ("one", "two")))
    assert [app for app, _, _ in placed(talk.cycle(4))] == ["one", "two", "one", "two"]
    talk.release(application_id="two")
    assert [app for app, _, _ in placed(talk.cycle(3))] == ["two", "two", "one"]


# What the capacity is


def test_a_node_that_drains_is_not_ready_or_is_gone_does_not_count() -> None:
    talk = drf_talk(cores={"vcore": 30}, much={"memory": 500})
    talk.nodes(a_node("n2", {"memory": 9_000}))
    before = {"memory": 10_000, "vcore": 100, "gpu": 4}
    without = {"memory": 1_000, "vcore": 100, "gpu": 4}

    def seen() -> tuple[dict[str, int], list[str]]:
        return talk.model().capacity.amounts.nonzero(), ordered(talk)

    assert seen() == (dict(sorted(before.items())), ["much", "cores"])
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    assert seen() == (dict(sorted(without.items())), ["cores", "much"])
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_TO_SCHEDULABLE))
    assert seen() == (dict(sorted(before.items())), ["much", "cores"])
    talk.nodes(a_node("n2", action=NodeAction.UPDATE, attributes={"ready": "false"}))
    assert seen() == (dict(sorted(without.items())), ["cores", "much"])
    talk.nodes(a_node("n2", action=NodeAction.UPDATE, attributes={"ready": "true"}))
    assert seen() == (dict(sorted(before.items())), ["much", "cores"])
    talk.nodes(a_node("n2", {"memory": 100}, action=NodeAction.UPDATE))
    assert seen() == ({"gpu": 4, "memory": 1_100, "vcore": 100}, ["cores", "much"])
    talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
    assert seen() == (dict(sorted(without.items())), ["cores", "much"])


def test_what_others_occupy_is_capacity_all_the_same() -> None:
    talk = a_conversation(a_node("n1", CLUSTER, occupied={"memory": 900}), root=LEAF)
    assert talk.model().capacity.amounts["memory"] == 1_000


def test_a_type_that_loses_its_last_node_is_ignored_from_then_on() -> None:
    talk = a_conversation(a_node("n1", {"memory": 1_000}), a_node("n2", {"memory": 1, "gpu": 4}), root=LEAF)
    holding(talk, gpus={"gpu": 4}, much={"memory": 10})
    assert ordered(talk) == ["much", "gpus"]
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    assert ordered(talk) == ["gpus", "much"]


# Parents


def rivals(queue_order: QueueOrder) -> Conversation:
    """`a` uses all of its guarantee, which is little of the cluster; `b` a part of its own, which is much of it."""
    root = a_root(
        a_queue_spec("a", guaranteed={"memory": 10}),
        a_queue_spec("b", guaranteed={"memory": 900}),
    )
    spec = replace(root, properties=QueueProperties(queue_order=queue_order))
    talk = a_conversation(a_node("n1", CLUSTER), root=spec)
    talk.apps(an_app("in-b", "root.b"))
    talk.asks(an_ask("has", 10), an_ask("has", 500, app="in-b"))
    assert len(placed(talk.schedule())) == 2
    talk.asks(an_ask("wants"), an_ask("wants", app="in-b"))
    return talk


@pytest.mark.parametrize(("order", "first"), [(QueueOrder.FAIR, "in-b"), (QueueOrder.DRF, "app")])
def test_a_parent_orders_its_queues_by_guarantee_or_by_share_of_the_cluster(order: QueueOrder, first: str) -> None:
    talk = rivals(order)
    assert talk.queue("root").queue_order == order
    assert placed(talk.cycle(1))[0][0] == first


def test_queues_of_equal_share_go_by_pending_then_by_name() -> None:
    children = [a_queue_spec(name) for name in ("a", "b", "c")]
    talk = a_conversation(
        a_node("n1", CLUSTER),
        root=a_queue_spec("root", *children, queue_order=QueueOrder.DRF, submit_acl=LEAF.submit_acl),
    )
    talk.apps(an_app("in-b", "root.b"), an_app("in-c", "root.c"))
    talk.asks(an_ask("k", 10), an_ask("k", 10, app="in-b"), an_ask("k", 20, app="in-c"))
    assert [app for app, _, _ in placed(talk.cycle(3))] == ["in-c", "app", "in-b"]


def test_a_reload_changes_the_order_and_back() -> None:
    talk = rivals(QueueOrder.FAIR)
    asked = talk.model().root
    drf = a_queue_spec("root", *[a_queue_spec(name) for name in ("a", "b")], queue_order=QueueOrder.DRF)
    assert placed(talk.cycle(1))[0][0] == "in-b"
    talk.step(UpdateConfiguration(RM, (a_partition_spec(drf),)))
    assert talk.model().root is asked
    talk.nodes(a_node("n2", {"memory": 10}))
    assert placed(talk.cycle(1))[0][0] == "app"


# Renewal in slices


MANY = 2 * RENEWED_MAX + RENEWED_MAX // 2
GROW = UpdateNodes(RM, [a_node("n2", {"memory": 1_000_000, "vcore": 1_000_000})])


def crowd(order: ApplicationOrder = DRF, **measures: Any) -> Conversation:
    """Applications that have memory or cores in turn, and all wait for more than there is."""
    talk = a_conversation(
        a_node("n1", {"memory": 10_000, "vcore": 100_000}), root=a_root(a_queue_spec("a", order=order, **measures))
    )
    step = talk.scheduler.step
    apps = [f"a{number:04}" for number in range(MANY)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("tests.unit.core.builders.violations", lambda _: [])
        talk.apps(*map(an_app, apps))
        talk.asks(
            *(
                an_ask("has", app=app, resources=Resources({("memory", "vcore")[number % 2]: 1 + number % 40}))
                for number, app in enumerate(apps)
            )
        )
        while talk.scheduler.wants_cycle():
            step(talk.now_ns, RunCycle(1_000))
        talk.asks(*(an_ask("wants", 10**9, app=app) for app in apps))
        talk.schedule()
    return talk


def renewed_in(talk: Conversation, command: Command) -> int:
    """How many keys a step works out."""
    calls = 0

    def counted(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def key(entity: Any) -> Any:
            nonlocal calls
            calls += 1
            return original(entity)

        return key

    with pytest.MonkeyPatch.context() as monkeypatch:
        for kind in (Application, Queue):
            monkeypatch.setattr(kind, "key", counted(kind.key))
        talk.scheduler.step(talk.now_ns, command)
    return calls


def stale(partition: Partition) -> int:
    return sum(key != entity.key() for queue in partition.root.subtree() for key, entity in queue.pending_index)  # type: ignore[attr-defined]


@pytest.mark.interpreted
def test_a_step_renews_no_more_keys_than_the_bound_however_many_wait() -> None:
    talk = crowd()
    partition = talk.model()
    assert not partition.capacity.is_due
    assert stale(partition) == 0
    found = [renewed_in(talk, GROW)]
    left = [stale(partition)]
    while talk.scheduler.wants_cycle():
        found.append(renewed_in(talk, RunCycle(100)))
        left.append(stale(partition))
        assert violations(talk.scheduler) == []
    assert len(found) == 3
    assert max(found) <= RENEWED_MAX
    assert left == sorted(left, reverse=True)
    assert left[0] > left[1] > left[-1] == 0


@pytest.mark.interpreted
def test_every_key_is_renewed_though_the_capacity_changes_all_the_time() -> None:
    talk = crowd()
    partition, changes = talk.model(), 0
    versions: dict[int, int] = {}

    def noted(application: Application) -> None:
        versions[application.serial] = changes

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Application, "rekey", noted)
        for changes in range(1, 40):
            node = a_node("n2", {"memory": 1 + changes}, action=NodeAction.UPDATE if changes > 1 else NodeAction.CREATE)
            talk.scheduler.step(talk.now_ns, UpdateNodes(RM, [node]))
    assert partition.capacity.is_due
    passes = MANY // RENEWED_MAX + 2
    assert len(versions) == MANY + 1  # with the application of the conversation
    assert min(versions.values()) >= changes - passes


def test_what_goes_while_keys_are_due_is_no_matter() -> None:
    talk = crowd()
    talk.scheduler.step(talk.now_ns, GROW)
    assert talk.model().capacity.is_due
    talk.scheduler.step(talk.now_ns, UpdateConfiguration(RM, (a_partition_spec(a_root(a_queue_spec("b"))),)))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("tests.unit.core.builders.violations", lambda _: [])
        talk.remove(*(f"a{number:04}" for number in range(0, MANY, 3)))
    talk.schedule()
    assert violations(talk.scheduler) == []
    assert stale(talk.model()) == 0


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("order", "measures", "renewed"),
    [
        (ApplicationOrder.FIFO, {}, 1),
        (ApplicationOrder.FIFO, {"max": {"memory": 10**12}}, 1),
        (ApplicationOrder.FIFO, {"guaranteed": {"memory": 1}, "max": {"vcore": 10**12}}, 0),
        (ApplicationOrder.STATE_AWARE, {}, 1),
    ],
)
def test_only_a_share_that_is_measured_against_the_capacity_is_renewed(
    order: ApplicationOrder, measures: dict[str, Any], renewed: int
) -> None:
    """Of the queue, as it uses memory and cores; keys of its applications do not depend on what they use."""
    talk = crowd(order, **measures)
    assert renewed_in(talk, GROW) == renewed
    assert not talk.model().capacity.is_due


@pytest.mark.interpreted
def test_nothing_is_renewed_where_nothing_waits() -> None:
    talk = a_conversation(a_node("n1", CLUSTER), root=LEAF)
    talk.asks(an_ask("k"))
    talk.schedule()
    assert renewed_in(talk, GROW) == 0
    assert not talk.model().capacity.is_due


def test_a_node_that_changes_nothing_renews_nothing() -> None:
    talk = drf_talk(one={"memory": 1})
    talk.scheduler.step(talk.now_ns, UpdateNodes(RM, [a_node("n1", CLUSTER, action=NodeAction.UPDATE)]))
    assert not talk.model().capacity.is_due


def test_the_same_commands_renew_the_same_keys() -> None:
    def facts() -> list[Any]:
        talk = crowd()
        found = talk.scheduler.step(talk.now_ns, GROW)
        talk.scheduler.step(talk.now_ns, UpdateNodes(RM, [a_node("n3", {"memory": 10**9})]))
        for _ in range(20):
            found += talk.scheduler.step(talk.now_ns, RunCycle(20))
        return found

    assert facts() == facts()


@pytest.mark.interpreted
def test_a_walk_in_slices_of_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity_renewal, "RENEWED_MAX", 1)
    talk = drf_talk(cores={"vcore": 30}, much={"memory": 500})
    talk.nodes(a_node("n2", {"memory": 9_000}))
    steps = 0
    while talk.model().capacity.is_due:
        talk.step(RingAlarms())
        steps += 1
    assert ordered(talk) == ["much", "cores"]
    assert steps < 20
