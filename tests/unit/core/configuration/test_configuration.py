"""A new queue file for a running scheduler: what is said, what is left alone, and what comes back."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.commands import RegisterResourceManager, UpdateConfiguration
from schedulerd.core.language.facts.configuration import (
    ConfigurationAccepted,
    ConfigurationRejected,
    ConfigurationUpdated,
    ImpactKind,
)
from schedulerd.core.language.facts.fact import (
    ApplicationAccepted,
    ApplicationChanged,
    NodeChanged,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.facts.queues import QueueChanged
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import SECOND_NS, ConfigurationText, PartitionSpec, QueueSpec, RuleKind, RuleSpec
from schedulerd.core.views.view import resource_managers
from tests.unit.core.builders import EVERYBODY, RM, Conversation, a_node, a_scheduler, an_app, an_ask, of, only, placed

CREATES = (RuleSpec(RuleKind.PROVIDED, create=True),)
FIRST = ConfigurationText("first", "queues.yaml", "1", policy_group="queues")
SECOND = ConfigurationText("second", "queues.yaml", "2", policy_group="queues")
THIRD = ConfigurationText("third", "sent", "3")
A = QueueSpec("a")


def a_file(*children: QueueSpec, name: str = "default") -> PartitionSpec:
    return PartitionSpec(name, QueueSpec("root", parent=True, submit_acl=EVERYBODY, children=children), CREATES)


def a_talk(*specs: PartitionSpec) -> Conversation:
    talk = Conversation(a_scheduler())
    talk.step(RegisterResourceManager(RM, specs, configuration=FIRST))
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 100}))
    return talk


def test_the_facts_have_both_texts_and_the_impact_of_the_moment_before() -> None:
    talk = a_talk(a_file(A))
    talk.apps(an_app())
    talk.asks(an_ask("k", count=3))
    talk.schedule()
    talk.now_ns += SECOND_NS
    facts = talk.step(UpdateConfiguration(RM, (a_file(replace(A, max=Limits(memory=20))),), SECOND))
    told = only(ConfigurationUpdated, facts)
    assert (told.changed, told.configuration, told.replaced) == (True, SECOND, FIRST)
    assert [one.kind for one in only(ConfigurationAccepted, facts).impact] == [ImpactKind.OVER_MAX]
    [rm] = resource_managers(talk.scheduler.cluster)
    assert (rm.configuration_source, rm.configuration_checksum, rm.configured_at_ns) == (
        "queues.yaml",
        "2",
        talk.now_ns,
    )


def test_impact_is_said_before_what_comes_of_it() -> None:
    talk = a_talk(a_file(A), a_file(A, name="gpu"))
    talk.nodes(a_node("g1", {"memory": 20}, partition="gpu"))
    talk.apps(an_app(partition="gpu"))
    talk.asks(an_ask("k", partition="gpu"))
    talk.schedule()
    facts = talk.step(UpdateConfiguration(RM, (a_file(A),)))
    assert isinstance(facts[0], ConfigurationAccepted)
    assert isinstance(facts[-1], ConfigurationUpdated)
    assert [one.kind for one in facts[0].impact] == [ImpactKind.PARTITION_REMOVED]
    assert of(ApplicationChanged, facts)
    assert of(Released, facts)
    assert of(NodeChanged, facts)


def test_what_was_asked_to_go_is_not_told_again_when_its_partition_goes() -> None:
    talk = a_talk(a_file(A), a_file(A, name="gpu"))
    talk.nodes(a_node("g1", {"memory": 100}, partition="gpu"))
    talk.apps(an_app(partition="gpu"))
    talk.asks(an_ask("stays", partition="gpu"), an_ask("goes", partition="gpu", execution_timeout_ms=1))
    talk.schedule()
    assert only(ReleaseRequested, talk.sleep(1_000_000)).allocation_key == "goes"
    facts = talk.step(UpdateConfiguration(RM, (a_file(A),)))
    assert {one.allocation_key: one.confirm for one in of(Released, facts)} == {"stays": True, "goes": False}


def test_other_settings_come_with_a_text_or_stay() -> None:
    talk = a_talk(a_file(A))
    talk.step(UpdateConfiguration(RM, (a_file(A),), SECOND, extra_config={"a": "b"}))
    talk.step(UpdateConfiguration(RM, (a_file(A),), THIRD))
    assert talk.scheduler.cluster.resource_managers[RM].extra_config == {"a": "b"}


def test_an_application_that_ends_as_its_partition_goes_is_gone_with_it() -> None:
    talk = a_talk(a_file(A), a_file(A, name="gpu"))
    talk.nodes(a_node("g1", {"memory": 100}, partition="gpu"))
    talk.apps(an_app(partition="gpu"))
    talk.asks(an_ask("goes", partition="gpu", execution_timeout_ms=1))
    talk.schedule()
    talk.remove("app", partition="gpu")
    talk.step(UpdateConfiguration(RM, (a_file(A),)))
    talk.step(UpdateConfiguration(RM, (a_file(A), a_file(A, name="gpu"))))
    assert [one.application_id for one in of(ApplicationAccepted, talk.apps(an_app(partition="gpu")))] == ["app"]


def test_another_text_that_says_the_same_replaces_the_text_alone() -> None:
    talk = a_talk(a_file(A))
    talk.apps(an_app())
    talk.asks(an_ask("k", memory=200))
    talk.schedule()
    lines = talk.model().root.pending_index
    facts = talk.step(UpdateConfiguration(RM, (a_file(A),), THIRD))
    assert facts == [ConfigurationUpdated(RM, changed=False, configuration=THIRD, replaced=FIRST)]
    assert talk.model().root.pending_index is lines, "nobody was lined up anew"
    assert not talk.scheduler.wants_cycle()


def test_a_partition_that_did_not_change_is_not_positioned_anew() -> None:
    talk = a_talk(a_file(A), a_file(A, name="gpu"))
    default, gpu = talk.model().root.pending_index, talk.model("gpu").root.pending_index
    talk.step(UpdateConfiguration(RM, (a_file(A), a_file(A, QueueSpec("b"), name="gpu"))))
    assert talk.model().root.pending_index is default
    assert talk.model("gpu").root.pending_index is not gpu


def test_what_was_read_for_a_text_that_is_replaced_by_now_is_void() -> None:
    talk = a_talk(a_file(A))
    talk.step(UpdateConfiguration(RM, (a_file(A, QueueSpec("sent")),), THIRD))
    assert talk.step(UpdateConfiguration(RM, (a_file(A),), SECOND, instead_of=FIRST)) == []
    assert talk.queue("root.sent").leaf
    assert only(ConfigurationUpdated, talk.step(UpdateConfiguration(RM, (a_file(A),), SECOND, instead_of=THIRD)))


def test_what_is_refused_leaves_the_old_text() -> None:
    talk = a_talk(a_file(A))
    assert only(ConfigurationRejected, talk.step(UpdateConfiguration(RM, (), SECOND))).reasons
    [rm] = resource_managers(talk.scheduler.cluster)
    assert rm.configuration_checksum == "1"


def test_a_queue_that_comes_back_is_active_with_what_was_created_below_it() -> None:
    parent = QueueSpec("p", parent=True)
    talk = a_talk(a_file(A, parent))
    talk.apps(an_app("inside", "root.p.x"))
    talk.step(UpdateConfiguration(RM, (a_file(A),)))
    talk.apps(an_app("refused", "root.p.x"))
    talk.step(UpdateConfiguration(RM, (a_file(A, parent),)))
    talk.apps(an_app("again", "root.p.x"))
    talk.asks(an_ask("k", app="again"))
    assert [one.application_id for one in talk.view().applications] == ["again", "inside"]
    assert placed(talk.schedule()) == [("again", "k", "n1")]


def test_a_queue_that_an_application_made_says_that_the_file_names_it_now() -> None:
    talk = a_talk(a_file(replace(A, parent=True, submit_acl=EVERYBODY)))
    talk.apps(an_app("app", "root.a.made"))
    named = replace(A, parent=True, submit_acl=EVERYBODY, children=(QueueSpec("made"),))
    told = of(QueueChanged, talk.step(UpdateConfiguration(RM, (a_file(named),))))
    assert [(one.queue, one.message) for one in told] == [("root.a.made", "the queue file names it now")]


def test_what_was_created_below_a_queue_that_becomes_a_leaf_drains() -> None:
    talk = a_talk(a_file(A, QueueSpec("p", parent=True)))
    talk.apps(an_app("inside", "root.p.x"))
    talk.step(UpdateConfiguration(RM, (a_file(A, QueueSpec("p")),)))
    talk.apps(an_app("refused", "root.p.x"), an_app("leaf", "root.p"))
    talk.asks(an_ask("k", app="inside"), an_ask("l", app="leaf"))
    assert [one.application_id for one in talk.view().applications] == ["inside", "leaf"]
    assert {app for app, _, _ in placed(talk.schedule())} == {"inside", "leaf"}
