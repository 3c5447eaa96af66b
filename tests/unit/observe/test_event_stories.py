"""Every change type and detail of the interface happens in a story on the real scheduler, to the right object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from schedulerd.core.language.commands import CleanQueues, NodeAction, StopCause, TerminationType, UpdateConfiguration
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, PartitionSpec, QueueSpec, RuleKind, RuleSpec
from tests.instants import at
from tests.unit.core import builders
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
)
from tests.unit.core.configurations import reload
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, confirm, real
from tests.unit.core.preemption_builders import an_entitled_ask, confirm_releases, full_nodes, wait
from tests.unit.observe.event_talk import SI, Listener, Said, amounts

Story: TypeAlias = Callable[[], object]
NODE = {"memory": 100}


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """Hears everything that is said in the test."""
    listener = Listener()
    monkeypatch.setattr(builders, "Conversation", listener.overhear())
    return listener


def placed_one() -> Conversation:
    """`k` of `app` runs on n1; its UUID is uuid-1."""
    talk = a_conversation(a_node("n1", NODE))
    talk.asks(an_ask())
    talk.schedule()
    return talk


def registered() -> None:
    builders.Conversation(builders.a_scheduler()).register()


def released_by_rm() -> None:
    placed_one().release(uuid="uuid-1")


def node_removed() -> None:
    placed_one().nodes(a_node("n1", action=NodeAction.DECOMISSION))


def ask_taken_back() -> None:
    talk = a_conversation()
    talk.asks(an_ask())
    talk.release_asks(allocation_key="k")


def ask_replaced() -> None:
    talk = a_conversation()
    talk.asks(an_ask())
    talk.asks(an_ask(memory=20))


def ask_taken_over() -> None:
    """What is asked for comes with a node."""
    talk = a_conversation()
    talk.asks(an_ask())
    talk.nodes(a_node("n1", NODE, an_existing()))


def app_removed() -> None:
    """With an ask that waits."""
    talk = a_conversation()
    talk.asks(an_ask())
    talk.remove("app")


def gang_timed_out() -> None:
    talk = a_full_gang(1, memory=10, execution_timeout_ms=1_000)
    talk.asks(builders.a_placeholder("late", app="gang"))
    talk.sleep(SECOND_NS)
    confirm_all(talk)


def confirm_all(talk: Conversation) -> None:
    for allocation in list(talk.model().allocations.values()):
        if allocation.releasing is not None:
            talk.release(application_id="gang", uuid=allocation.uuid, termination=allocation.releasing)


def gang_failed() -> None:
    """With a real request that waits for the rest of the gang."""
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(a_gang(gang_style="Hard", execution_timeout_ms=1_000))
    talk.asks(builders.a_placeholder(count=2, app="gang"), real("r"))
    talk.schedule()
    talk.sleep(SECOND_NS)
    confirm_all(talk)


def swapped() -> None:
    talk = a_full_gang(1)
    confirm(talk, a_swap(talk))


def preempted() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask())
    wait(talk, MINUTE_NS)
    confirm_releases(talk, "n1_1")


def app_lived() -> None:
    """From New over Accepted, Starting, Running, Completing to Completed, and Expired."""
    talk = placed_one()
    talk.asks(an_ask("k2"))
    talk.schedule()
    talk.release(termination=TerminationType.STOPPED_BY_RM)
    talk.sleep(4 * 24 * 60 * MINUTE_NS)


def app_failed() -> None:
    talk = a_conversation(a_node("n1", NODE))
    talk.apps(an_app("job", execution_timeout_ms=1_000))
    talk.asks(an_ask(app="job"), an_ask("waits", 500, app="job"))
    talk.schedule()
    talk.sleep(SECOND_NS)
    talk.release(application_id="job", uuid="uuid-1", termination=TerminationType.TIMEOUT)


def app_rejected() -> None:
    a_conversation().apps(an_app("lost", "root.nowhere"))


def node_changed() -> None:
    talk = a_conversation(a_node("n1", NODE))
    talk.nodes(a_node("n1", {"memory": 50}, action=NodeAction.UPDATE, occupied={"memory": 5}))
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}))
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))


def queues_changed() -> None:
    """`a` gets quotas, then a limit on its applications, and is a parent in the end; `b` goes with the second file."""
    quotas: dict[str, Any] = {"max": {"memory": 9}, "guaranteed": {"memory": 4}}
    talk = a_conversation(root=a_root(a_queue_spec("a"), a_queue_spec("b")))
    reload(talk, a_root(a_queue_spec("a", **quotas), a_queue_spec("b")))
    reload(talk, a_root(a_queue_spec("a", **quotas, max_applications=3)))
    talk.remove("app")
    talk.step(CleanQueues(RM))
    reload(talk, a_root(a_queue_spec("a", a_queue_spec("c"), **quotas, max_applications=3)))


def dynamic_queue() -> None:
    rules = (RuleSpec(RuleKind.PROVIDED, create=True),)
    root = QueueSpec("root", parent=True, submit_acl=builders.EVERYBODY)
    talk = builders.Conversation(builders.a_scheduler())
    talk.register(PartitionSpec("default", root, rules))
    quota = json.dumps({"resources": {"memory": {"value": 30}}})
    tags = {"namespace.resourcequota": quota, "namespace.resourcemaxapps": "2"}
    talk.apps(an_app("app", "root.ns", tags=tags))
    talk.remove("app")
    talk.step(CleanQueues(RM))


STORIES: dict[str, list[tuple[Story, Said]]] = {
    "DETAILS_NONE": [
        (node_changed, ("NODE", "n1", "ADD", "DETAILS_NONE", "")),
        (queues_changed, ("QUEUE", "root.b", "ADD", "DETAILS_NONE", "")),
        (app_lived, ("APP", "app", "SET", "DETAILS_NONE", "")),
        (app_lived, ("APP", "app", "REMOVE", "DETAILS_NONE", "")),
        (preempted, ("REQUEST", "n1_1", "NONE", "DETAILS_NONE", "victims")),
        (registered, ("UNKNOWN_EVENTRECORD_TYPE", RM, "NONE", "DETAILS_NONE", "")),
    ],
    "REQUEST_CANCEL": [
        (ask_taken_back, ("APP", "app", "REMOVE", "REQUEST_CANCEL", "k")),
        (app_removed, ("APP", "app", "REMOVE", "REQUEST_CANCEL", "k")),
        (gang_failed, ("APP", "gang", "REMOVE", "REQUEST_CANCEL", "r")),
    ],
    "REQUEST_ALLOC": [
        (placed_one, ("APP", "app", "REMOVE", "REQUEST_ALLOC", "k")),
        (ask_taken_over, ("APP", "app", "REMOVE", "REQUEST_ALLOC", "k")),
    ],
    "REQUEST_TIMEOUT": [
        (gang_timed_out, ("APP", "gang", "REMOVE", "REQUEST_TIMEOUT", "late")),
        (app_failed, ("APP", "job", "REMOVE", "REQUEST_TIMEOUT", "waits")),
    ],
    "APP_ALLOC": [(placed_one, ("APP", "app", "ADD", "APP_ALLOC", "uuid-1"))],
    "APP_REQUEST": [
        (placed_one, ("APP", "app", "ADD", "APP_REQUEST", "k")),
        (ask_replaced, ("APP", "app", "REMOVE", "APP_REQUEST", "k")),
    ],
    "APP_REJECT": [(app_rejected, ("APP", "lost", "REMOVE", "APP_REJECT", ""))],
    "APP_NEW": [(app_lived, ("APP", "app", "ADD", "APP_NEW", ""))],
    "APP_ACCEPTED": [(app_lived, ("APP", "app", "SET", "APP_ACCEPTED", ""))],
    "APP_STARTING": [(app_lived, ("APP", "app", "SET", "APP_STARTING", ""))],
    "APP_RUNNING": [(app_lived, ("APP", "app", "SET", "APP_RUNNING", ""))],
    "APP_COMPLETING": [(app_lived, ("APP", "app", "SET", "APP_COMPLETING", ""))],
    "APP_COMPLETED": [(app_lived, ("APP", "app", "SET", "APP_COMPLETED", ""))],
    "APP_FAILING": [(app_failed, ("APP", "job", "SET", "APP_FAILING", ""))],
    "APP_FAILED": [(app_failed, ("APP", "job", "SET", "APP_FAILED", ""))],
    "NODE_DECOMISSION": [(node_removed, ("NODE", "n1", "REMOVE", "NODE_DECOMISSION", ""))],
    "NODE_READY": [(node_changed, ("NODE", "n1", "SET", "NODE_READY", ""))],
    "NODE_SCHEDULABLE": [(node_changed, ("NODE", "n1", "SET", "NODE_SCHEDULABLE", ""))],
    "NODE_ALLOC": [
        (placed_one, ("NODE", "n1", "ADD", "NODE_ALLOC", "uuid-1")),
        (released_by_rm, ("NODE", "n1", "REMOVE", "NODE_ALLOC", "uuid-1")),
    ],
    "NODE_CAPACITY": [(node_changed, ("NODE", "n1", "SET", "NODE_CAPACITY", ""))],
    "NODE_OCCUPIED": [(node_changed, ("NODE", "n1", "SET", "NODE_OCCUPIED", ""))],
    "QUEUE_CONFIG": [
        (queues_changed, ("QUEUE", "root.a", "SET", "QUEUE_CONFIG", "")),
        (queues_changed, ("QUEUE", "root.b", "REMOVE", "QUEUE_CONFIG", "")),
    ],
    "QUEUE_DYNAMIC": [
        (dynamic_queue, ("QUEUE", "root.ns", "ADD", "QUEUE_DYNAMIC", "")),
        (dynamic_queue, ("QUEUE", "root.ns", "SET", "QUEUE_DYNAMIC", "")),
        (dynamic_queue, ("QUEUE", "root.ns", "REMOVE", "QUEUE_DYNAMIC", "")),
    ],
    "QUEUE_TYPE": [(queues_changed, ("QUEUE", "root.a", "SET", "QUEUE_TYPE", ""))],
    "QUEUE_MAX": [
        (queues_changed, ("QUEUE", "root.a", "SET", "QUEUE_MAX", "")),
        (dynamic_queue, ("QUEUE", "root.ns", "SET", "QUEUE_MAX", "")),
    ],
    "QUEUE_GUARANTEED": [(queues_changed, ("QUEUE", "root.a", "SET", "QUEUE_GUARANTEED", ""))],
    "QUEUE_APP": [
        (app_lived, ("QUEUE", "root.a", "ADD", "QUEUE_APP", "app")),
        (app_lived, ("QUEUE", "root.a", "REMOVE", "QUEUE_APP", "app")),
        (queues_changed, ("QUEUE", "root.a", "REMOVE", "QUEUE_APP", "app")),
    ],
    "QUEUE_ALLOC": [
        (placed_one, ("QUEUE", "root.a", "ADD", "QUEUE_ALLOC", "uuid-1")),
        (released_by_rm, ("QUEUE", "root.a", "REMOVE", "QUEUE_ALLOC", "uuid-1")),
    ],
    "ALLOC_CANCEL": [(released_by_rm, ("APP", "app", "REMOVE", "ALLOC_CANCEL", "uuid-1"))],
    "ALLOC_PREEMPT": [(preempted, ("APP", "victims", "REMOVE", "ALLOC_PREEMPT", "uuid-2"))],
    "ALLOC_TIMEOUT": [
        (app_failed, ("APP", "job", "REMOVE", "ALLOC_TIMEOUT", "uuid-1")),
        (gang_timed_out, ("APP", "gang", "REMOVE", "ALLOC_TIMEOUT", "uuid-1")),
    ],
    "ALLOC_REPLACED": [(swapped, ("APP", "gang", "REMOVE", "ALLOC_REPLACED", "uuid-1"))],
    "ALLOC_NODEREMOVED": [(node_removed, ("APP", "app", "REMOVE", "ALLOC_NODEREMOVED", "uuid-1"))],
}
_ALL = [(detail, story, said) for detail, stories in STORIES.items() for story, said in stories]


@pytest.mark.parametrize(("detail", "story", "wanted"), _ALL, ids=lambda one: getattr(one, "__name__", str(one)))
def test_it_is_said_in_the_story_that_makes_it_happen(
    detail: str, story: Story, wanted: Said, listener: Listener
) -> None:
    assert wanted[3] == detail
    story()
    assert listener.said().count(wanted) == 1


def test_every_detail_change_type_and_kind_of_object_of_the_interface_has_a_story() -> None:
    assert list(STORIES) == SI.ChangeDetail.keys()
    assert {said[2] for _, _, said in _ALL} == set(SI.ChangeType.keys())
    assert {said[0] for _, _, said in _ALL} == set(SI.Type.keys())


def test_a_placement_is_said_of_the_request_the_application_the_node_and_the_queue(listener: Listener) -> None:
    talk = a_conversation(a_node("n1", NODE))
    talk.asks(an_ask(memory=30, count=2))
    before = listener.ring.next_id
    talk.cycle(1)
    told = listener.messages(before)[1:]  # the first is the state of the application
    assert [(one.objectID, amounts(one), one.timestampNano) for one in told] == [
        (name, {"memory": 30}, at(talk.now_ns).wall_ns) for name in ("app", "app", "n1", "root.a")
    ]
    assert [one.referenceID for one in told] == ["k", "uuid-1", "uuid-1", "uuid-1"]


def test_what_comes_with_its_node_was_never_requested(listener: Listener) -> None:
    talk = a_conversation()
    before = listener.ring.next_id
    talk.nodes(a_node("n1", NODE, an_existing()))
    details = [said[3] for said in listener.said(before)]
    assert "REQUEST_ALLOC" not in details
    assert details.count("APP_ALLOC") == details.count("NODE_ALLOC") == details.count("QUEUE_ALLOC") == 1


def test_states_without_a_detail_of_their_own_are_named_in_the_message(listener: Listener) -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.apps(a_gang(memory=20, execution_timeout_ms=1_000))
    talk.asks(builders.a_placeholder(count=2, app="gang"))
    talk.schedule()
    talk.sleep(SECOND_NS)
    confirm_all(talk)
    told = [
        (one.eventChangeType, SI.ChangeDetail.Name(one.eventChangeDetail), one.message) for one in listener.messages()
    ]
    why = (
        "ResourceReservationTimeout: after 1 s task group group has 1 of 2 placeholders: the next one needs 10 memory: "
    )
    assert (
        SI.SET,
        "DETAILS_NONE",
        f"Resuming: {why}no node has room: 1 node is considered, 1 has too little memory",
    ) in told
    assert (SI.SET, "APP_ACCEPTED", "runApplication") in told


def test_a_new_node_says_only_what_is_not_as_with_most(listener: Listener) -> None:
    talk = a_conversation()
    before = listener.ring.next_id
    talk.nodes(a_node("plain", NODE))
    assert [said[3] for said in listener.said(before)] == ["DETAILS_NONE"]
    before = listener.ring.next_id
    drained = a_node("n1", NODE, action=NodeAction.CREATE_DRAIN, occupied={"gpu": 1}, attributes={"ready": "false"})
    talk.nodes(drained)
    told = listener.messages(before)
    assert [(SI.ChangeDetail.Name(one.eventChangeDetail), one.message, amounts(one)) for one in told] == [
        ("DETAILS_NONE", "registered", NODE),
        ("NODE_OCCUPIED", "", {"gpu": 1}),
        ("NODE_READY", "ready: false", {}),
        ("NODE_SCHEDULABLE", "schedulable: false", {}),
    ]


def test_a_node_that_reports_what_was_known_already_is_no_event(listener: Listener) -> None:
    talk = a_conversation(a_node("n1", NODE, occupied={"memory": 1}))
    before = listener.ring.next_id
    talk.nodes(a_node("n1", NODE, action=NodeAction.UPDATE, occupied={"memory": 1}))
    assert listener.ring.next_id == before


def test_a_queue_file_that_says_the_same_is_no_event_and_one_that_is_refused_is_explained(listener: Listener) -> None:
    talk = a_conversation(a_node("n1", NODE))
    before = listener.ring.next_id
    reload(talk, a_root())
    assert listener.ring.next_id == before
    talk.step(UpdateConfiguration(RM, (builders.a_partition_spec(a_root(a_queue_spec("a", a_queue_spec("b")))),)))
    (told,) = listener.messages(before)
    assert (told.type, told.objectID, told.eventChangeType) == (SI.QUEUE, "root", SI.NONE)
    assert "root.a" in told.message


def test_for_a_gang_that_is_refused_no_queues_are_made(listener: Listener) -> None:
    rules = (RuleSpec(RuleKind.PROVIDED, create=True),)
    parent = QueueSpec("p", parent=True, max=Limits(memory=5))
    root = QueueSpec("root", parent=True, submit_acl=builders.EVERYBODY, children=(parent,))
    talk = builders.Conversation(builders.a_scheduler())
    talk.register(PartitionSpec("default", root, rules))
    before = listener.ring.next_id
    talk.apps(an_app("gang", "root.p.x.y", placeholder_ask=Resources(memory=10)))
    assert [said for said in listener.said(before) if said[0] == "QUEUE"] == []
    assert listener.said(before)


def test_a_resource_manager_that_is_stopped_says_so_once_for_all_of_its_objects(listener: Listener) -> None:
    talk = placed_one()
    before = listener.ring.next_id
    talk.stop(StopCause.UNREGISTERED)
    (event,) = listener.events(before)
    assert (event.rm_id, event.record.object_id, event.record.message) == (RM, RM, "stopped: unregistered")


def test_a_swap_is_explained_from_the_request_to_its_room(listener: Listener) -> None:
    talk = a_full_gang(1)
    before = listener.ring.next_id
    request = a_swap(talk, real("r"))
    confirm(talk, request)
    told = [(said, one.message) for said, one in zip(listener.said(before), listener.messages(before), strict=True)]
    assert told[0][0] == ("APP", "gang", "ADD", "APP_REQUEST", "r")
    assert told[1] == (("REQUEST", "r", "NONE", "DETAILS_NONE", "gang"), "takes the room of uuid-1")
    assert told[2][0] == ("REQUEST", "p", "NONE", "DETAILS_NONE", "gang")
    (added,) = [(said, message) for said, message in told if said[2:4] == ("ADD", "APP_ALLOC")]
    assert added == (("APP", "gang", "ADD", "APP_ALLOC", "uuid-2"), "takes the room of placeholder uuid-1")


def test_the_release_of_a_victim_names_the_ask(listener: Listener) -> None:
    preempted()
    victim = ("REQUEST", "n1_1", "NONE", "DETAILS_NONE", "victims")
    (message,) = [one.message for one in listener.messages() if (one.objectID, one.referenceID) == victim[1:5:3]]
    assert message.startswith("Preempted for ask c of application claimer: queue root.c is below its guarantee")
