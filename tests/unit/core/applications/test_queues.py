"""Queues that come and go by themselves, and reloads: all of a queue file, or nothing."""

from __future__ import annotations

import gc
import json
from dataclasses import replace

from schedulerd.core.language.commands import CleanQueues, UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import ApplicationRejected, Fact, Released
from schedulerd.core.language.facts.queues import QueueChanged
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    ApplicationOrder,
    PartitionSpec,
    QueueProperties,
    QueueSpec,
    RuleKind,
    RuleSpec,
    TemplateSpec,
    Timeouts,
)
from schedulerd.core.state.model.queue import Queue
from tests.unit.core.builders import (
    EVERYBODY,
    RM,
    Conversation,
    a_node,
    a_scheduler,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)

CREATES = (RuleSpec(RuleKind.PROVIDED, create=True),)
BIG = {"memory": 1000}
STATE_AWARE = QueueProperties(application_order=ApplicationOrder.STATE_AWARE)


def a_partition(*children: QueueSpec, rules: tuple[RuleSpec, ...] = CREATES) -> PartitionSpec:
    return PartitionSpec("default", QueueSpec("root", parent=True, submit_acl=EVERYBODY, children=children), rules)


def talk_to(*partitions: PartitionSpec) -> Conversation:
    talk = Conversation(a_scheduler(Timeouts(completing_ns=SECOND_NS, cleanup_ns=10 * SECOND_NS)))
    talk.register(*partitions)
    talk.connect()
    talk.nodes(a_node("n1", BIG))
    return talk


def paths(talk: Conversation) -> list[str]:
    return [queue.path for queue in talk.view().queues]


def test_a_created_queue_goes_some_time_after_its_last_application() -> None:
    talk = talk_to(a_partition(QueueSpec("a")))
    talk.apps(an_app(queue="root.p.q"))
    talk.remove("app")
    talk.sleep(9 * SECOND_NS)
    assert paths(talk) == ["root", "root.a", "root.p", "root.p.q"]
    talk.sleep(2 * SECOND_NS)
    assert paths(talk) == ["root", "root.a"]


def test_a_created_queue_that_is_in_use_stays() -> None:
    talk = talk_to(a_partition())
    talk.apps(an_app(queue="root.new"))
    talk.step(CleanQueues(RM))
    assert paths(talk) == ["root", "root.new"]


def test_a_gang_that_is_refused_leaves_no_queue_behind() -> None:
    talk = talk_to(a_partition(QueueSpec("p", parent=True, max=Limits(memory=5))))
    facts = talk.apps(an_app("gang", "root.p.x.y", placeholder_ask=Resources(memory=10)))
    assert only(ApplicationRejected, facts).application_id == "gang"
    assert paths(talk) == ["root", "root.p"]
    talk.apps(an_app("gang", "root.p.x.y", placeholder_ask=Resources(memory=5)))
    assert paths(talk) == ["root", "root.p", "root.p.x", "root.p.x.y"]


def test_a_created_leaf_starts_with_the_template_and_what_is_handed_down() -> None:
    template = TemplateSpec(max_applications=1, max=Limits(memory=20))
    fair = QueueProperties(application_order=ApplicationOrder.FAIR, priority_offset=5)
    talk = talk_to(a_partition(QueueSpec("p", parent=True, template=template, properties=fair)))
    talk.apps(an_app(queue="root.p.x.y"))
    leaf = talk.queue("root.p.x.y")
    assert (leaf.max, leaf.application_order, leaf.managed) == ({"memory": 20}, ApplicationOrder.FAIR, False)
    assert talk.queue("root.p.x").max == {}


def quota(**amounts: int) -> str:
    return json.dumps({"resources": {name: {"value": amount} for name, amount in amounts.items()}})


def test_a_namespace_sets_the_quota_of_its_created_queue_only() -> None:
    talk = talk_to(a_partition(QueueSpec("a")))
    talk.apps(an_app("one", "root.ns", tags={"namespace.resourcequota": quota(memory=10)}))
    talk.asks(an_ask("k1", app="one"), an_ask("k2", app="one"))
    assert placed(talk.schedule()) == [("one", "k1", "n1")]
    for at, text in enumerate(("", "{}", quota())):
        talk.apps(an_app(f"other-{at}", "root.ns", tags={"namespace.resourcequota": text}))
        assert talk.queue("root.ns").max == {"memory": 10}
    talk.apps(an_app("raise", "root.ns", tags={"Namespace.ResourceQuota": quota(memory=20)}))
    assert placed(talk.schedule()) == [("one", "k2", "n1")]
    talk.apps(an_app("managed", "root.a", tags={"namespace.resourcequota": quota(memory=1)}))
    assert talk.queue("root.a").max == {}


def test_a_namespace_sets_the_guarantee_of_its_created_queue_only() -> None:
    talk = talk_to(a_partition(QueueSpec("a")))
    talk.apps(an_app("one", "root.ns", tags={"namespace.resourceguaranteed": quota(memory=10)}))
    assert (talk.queue("root.ns").guaranteed, talk.queue("root.ns").max) == ({"memory": 10}, {})
    for at, text in enumerate(("", "{}", quota())):
        talk.apps(an_app(f"other-{at}", "root.ns", tags={"namespace.resourceguaranteed": text}))
        assert talk.queue("root.ns").guaranteed == {"memory": 10}
    talk.apps(an_app("managed", "root.a", tags={"namespace.resourceguaranteed": quota(memory=1)}))
    assert talk.queue("root.a").guaranteed == {}


def test_one_application_starts_at_a_time_where_the_leaf_is_state_aware() -> None:
    talk = talk_to(a_partition(QueueSpec("a", properties=STATE_AWARE)))
    talk.apps(an_app("late", asked_at_ns=0), an_app("first"))
    talk.apps(an_app("disabled", tags={"application.stateaware.disable": "true"}))
    talk.asks(*(an_ask(f"{app}-{at}", app=app) for app in ("first", "late", "disabled") for at in range(2)))
    assert [app for app, _, _ in placed(talk.cycle(1))] == ["late"]
    assert "first" not in [app for app, _, _ in placed(talk.cycle(0))]
    assert {app for app, _, _ in placed(talk.schedule())} == {"late", "first", "disabled"}


def test_a_removed_queue_takes_nothing_new_finishes_what_it_has_and_goes() -> None:
    talk = talk_to(a_partition(QueueSpec("a"), QueueSpec("b"), rules=()))
    talk.apps(an_app(queue="root.b"))
    talk.asks(an_ask("k1"), an_ask("k2"))
    without_b = a_partition(QueueSpec("a"), rules=())
    assert of(ConfigurationUpdated, talk.step(UpdateConfiguration(RM, (without_b,))))
    assert len(placed(talk.schedule())) == 2
    talk.apps(an_app("new", "root.b"))
    assert [one.application_id for one in talk.view().applications] == ["app"]
    talk.release(allocation_key="")
    talk.sleep(20 * SECOND_NS)
    assert paths(talk) == ["root", "root.a"]


def test_a_leaf_in_use_cannot_become_a_parent_and_then_nothing_changes() -> None:
    talk = talk_to(a_partition(QueueSpec("a", max=Limits(memory=10)), rules=()))
    talk.apps(an_app())
    parent = a_partition(QueueSpec("a", children=(QueueSpec("x"),)), QueueSpec("c"), rules=())
    [reason] = only(ConfigurationRejected, talk.step(UpdateConfiguration(RM, (parent,)))).reasons
    assert "root.a has 1 application and cannot become a parent" in reason
    assert paths(talk) == ["root", "root.a"]
    assert talk.queue("root.a").max == {"memory": 10}


def test_the_same_file_again_changes_nothing() -> None:
    spec = a_partition(QueueSpec("a", max=Limits(memory=20)), rules=())
    talk = talk_to(spec)
    talk.apps(an_app())
    talk.asks(an_ask("k", count=5))
    talk.schedule()
    before = talk.view()
    talk.step(UpdateConfiguration(RM, (spec,)))
    assert talk.schedule() == [] or placed(talk.schedule()) == []
    assert replace(talk.view(), applications=[]) == replace(before, applications=[])


def test_a_removed_partition_releases_everything_and_its_applications_fail() -> None:
    other = replace(a_partition(QueueSpec("a"), rules=()), name="other")
    talk = talk_to(a_partition(QueueSpec("a"), rules=()), other)
    talk.nodes(a_node("n2", BIG, partition="other"))
    talk.apps(an_app(partition="other"))
    talk.asks(an_ask("k", partition="other"), an_ask("large", 5000, partition="other"))
    talk.schedule()
    facts = talk.step(UpdateConfiguration(RM, (a_partition(QueueSpec("a"), rules=()),)))
    assert states(facts) == [ApplicationState.FAILING, ApplicationState.FAILED]
    assert [(one.allocation_key, one.confirm) for one in of(Released, facts)] == [("k", True)]
    assert list(talk.scheduler.cluster.resource_managers[RM].partitions) == ["default"]


def test_a_file_without_partitions_is_no_reload() -> None:
    talk = talk_to(a_partition(QueueSpec("a"), rules=()))
    [reason] = only(ConfigurationRejected, talk.step(UpdateConfiguration(RM, ()))).reasons
    assert "no partitions" in reason
    assert paths(talk) == ["root", "root.a"]


# What a dynamic queue inherits


def follows(before: QueueSpec, after: QueueSpec, queue: str) -> tuple[Conversation, list[Fact]]:
    """A queue that an application created, before and after a reload."""
    talk = talk_to(a_partition(before))
    talk.apps(an_app("app", queue))
    return talk, talk.step(UpdateConfiguration(RM, (a_partition(after),)))


def test_a_dynamic_queue_follows_properties_that_change_above_it() -> None:
    before = QueueSpec("p", parent=True)
    talk, facts = follows(before, replace(before, properties=STATE_AWARE), "root.p.q.leaf")
    assert {queue: talk.queue(queue).application_order for queue in ("root.p.q", "root.p.q.leaf")} == dict.fromkeys(
        ("root.p.q", "root.p.q.leaf"), ApplicationOrder.STATE_AWARE
    )
    told = [one.queue for one in of(QueueChanged, facts) if one.message == "changed: properties"]
    assert told == ["root.p", "root.p.q", "root.p.q.leaf"]
    _, facts = follows(before, replace(before, properties=QueueProperties(priority_offset=5)), "root.p.q.leaf")
    assert [one.queue for one in of(QueueChanged, facts)] == ["root.p"]  # an offset is not inherited


def test_a_dynamic_leaf_follows_the_properties_of_the_template_and_keeps_its_quotas() -> None:
    template = TemplateSpec(max=Limits(memory=20), properties=STATE_AWARE)
    before = QueueSpec("p", parent=True, template=template)
    fair = QueueProperties(application_order=ApplicationOrder.FAIR)
    after = replace(before, template=TemplateSpec(max=Limits(memory=30), properties=fair))
    talk, _ = follows(before, after, "root.p.leaf")
    leaf = talk.queue("root.p.leaf")
    assert (leaf.application_order, leaf.max) == (ApplicationOrder.FAIR, {"memory": 20})


def test_a_dynamic_queue_is_measured_against_a_max_that_changes_above_it() -> None:
    before = QueueSpec("p", parent=True, max=Limits(memory=100))
    talk, _ = follows(before, replace(before, max=Limits(memory=50, gpu=1)), "root.p.q.leaf")
    found = {queue.path: queue.nearest_max for queue in talk.model().root.subtree()}
    assert found["root.p.q.leaf"] == found["root.p.q"] == {"memory": 50, "gpu": 1}
    assert found["root"] == {}


def test_removed_queues_leave_no_cyclic_garbage() -> None:
    """The daemon searches all objects for cycles once an hour; by then, users with queues of their own come and go."""
    talk = talk_to(a_partition(QueueSpec("users", parent=True, max=Limits(memory=1000))))

    def come_and_go(number: int) -> None:
        talk.apps(an_app(f"app-{number}", f"root.users.user_{number}.leaf"))
        talk.asks(an_ask("a", app=f"app-{number}"))
        talk.apps(an_app(f"gang-{number}", f"root.users.no_{number}.leaf", placeholder_ask=Resources(memory=2000)))
        talk.sleep(SECOND_NS)
        talk.remove(f"app-{number}")
        talk.sleep(20 * SECOND_NS)

    come_and_go(0)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(one, Queue) for one in gc.get_objects())
        for number in range(1, 6):
            come_and_go(number)
        assert "root.users" in paths(talk)
        assert not [path for path in paths(talk) if path.startswith("root.users.")]
        assert sum(isinstance(one, Queue) for one in gc.get_objects()) == before
    finally:
        gc.enable()
