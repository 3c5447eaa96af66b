"""The longest and the most that an item may carry is taken, and one more is rejected with the field and the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.applications.handlers.asks import MAX_ALLOCATIONS_MAX
from schedulerd.core.applications.rules.queue_placement import LEVELS_MAX
from schedulerd.core.language import checks
from schedulerd.core.language.checks import (
    GROUPS_MAX,
    ID_LENGTH_MAX,
    MESSAGE_LENGTH_MAX,
    RESOURCE_NAME_LENGTH_MAX,
    RESOURCE_NAMES_MAX,
    TAGS_LENGTH_MAX,
    TAGS_MAX,
)
from schedulerd.core.language.commands import (
    AllocationAffinity,
    Expression,
    NodeAction,
    Operator,
    PlacementConstraint,
    ReportUtilization,
    Utilization,
)
from schedulerd.core.language.facts.fact import (
    ApplicationAccepted,
    ApplicationRejected,
    AskAdded,
    AskRejected,
    ItemIgnored,
    NodeAccepted,
    NodeRejected,
    Released,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import Acl, QueueSpec, RuleKind, RuleSpec
from schedulerd.core.state.constraints.checks import EXPRESSIONS_MAX
from tests.loops import each_row
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)

ROOM = {"memory": 100}


def resources(count: int) -> Resources:
    return Resources({f"r{number}": 1 for number in range(count)})


def chained(count: int) -> tuple[Expression, ...]:
    return tuple(Expression(f"key-{number}", Operator.EXIST) for number in range(count))


def entries(count: int) -> dict[str, str]:
    return {str(number): "" for number in range(count)}


ASKS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "allocationKey": (lambda n: {"key": "k" * n}, ID_LENGTH_MAX),
    "taskGroupName": (lambda n: {"task_group": "g" * n}, ID_LENGTH_MAX),
    "maxAllocations": (lambda n: {"count": n}, MAX_ALLOCATIONS_MAX),
    "resourceAsk": (lambda n: {"resources": resources(n)}, RESOURCE_NAMES_MAX),
    "resourceAsk names": (lambda n: {"resources": Resources({"r" * n: 1})}, RESOURCE_NAME_LENGTH_MAX),
    "tags have": (lambda n: {"tags": entries(n)}, TAGS_MAX),
    "tags": (lambda n: {"tags": {"k": "v" * (n - 1)}}, TAGS_LENGTH_MAX),
    "placementConstraint.nodeAffinityConstraint.targetExpressions": (
        lambda n: {"constraint": PlacementConstraint(chained(n))},
        EXPRESSIONS_MAX,
    ),
    "placementConstraint.allocationAffinityAttribute.tragetExpressions": (
        lambda n: {"constraint": PlacementConstraint((), AllocationAffinity("zone", chained(n)))},
        EXPRESSIONS_MAX,
    ),
    "placementConstraint.nodeAffinityConstraint.targetExpressions have": (
        lambda n: {"constraint": PlacementConstraint((Expression("k", Operator.IN, ("v" * (n - 1),)),))},
        TAGS_LENGTH_MAX,
    ),
    "placementConstraint.allocationAffinityAttribute.scope": (
        lambda n: {"constraint": PlacementConstraint((), AllocationAffinity("s" * n, chained(1)))},
        ID_LENGTH_MAX,
    ),
}
APPLICATIONS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "applicationID": (lambda n: {"application_id": "a" * n}, ID_LENGTH_MAX),
    "ugi.user": (lambda n: {"user": "u" * n}, ID_LENGTH_MAX),
    "ugi.groups has": (lambda n: {"groups": ("g",) * n}, GROUPS_MAX),
    "ugi.groups[1]": (lambda n: {"groups": ("g", "g" * n)}, ID_LENGTH_MAX),
    "tags": (lambda n: {"tags": {"k": "v" * (n - 1)}}, TAGS_LENGTH_MAX),
    "tags have": (lambda n: {"tags": entries(n)}, TAGS_MAX),
    "gangSchedulingStyle": (lambda n: {"gang_style": "s" * n}, ID_LENGTH_MAX),
    "placeholderAsk": (lambda n: {"placeholder_ask": resources(n)}, RESOURCE_NAMES_MAX),
}
NODES: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "nodeID": (lambda n: {"node_id": "n" * n}, ID_LENGTH_MAX),
    "attributes": (lambda n: {"attributes": {"k": "v" * (n - 1)}}, TAGS_LENGTH_MAX),
    "attributes have": (lambda n: {"attributes": entries(n)}, TAGS_MAX),
    "schedulableResource": (lambda n: {"capacity": dict(resources(n))}, RESOURCE_NAMES_MAX),
    "occupiedResource": (lambda n: {"occupied": dict(resources(n))}, RESOURCE_NAMES_MAX),
}
EXISTING: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "UUID": (lambda n: {"uuid": "u" * n}, ID_LENGTH_MAX),
    "allocationKey": (lambda n: {"key": "k" * n}, ID_LENGTH_MAX),
    "taskGroupName": (lambda n: {"task_group": "g" * n}, ID_LENGTH_MAX),
    "allocationTags": (lambda n: {"tags": {"k": "v" * (n - 1)}}, TAGS_LENGTH_MAX),
    "allocationTags have": (lambda n: {"tags": entries(n)}, TAGS_MAX),
}


def is_said(reason: str, field: str, limit: int) -> None:
    assert field.split()[0] in reason
    assert str(limit) in reason
    assert len(reason) < 500, "a reason does not repeat what is far too long"


@each_row("field", ASKS)
def test_asks(field: str) -> None:
    fields, limit = ASKS[field]
    talk = a_conversation()
    assert of(AskAdded, talk.asks(an_ask(**fields(limit))))
    rejected = only(AskRejected, talk.asks(an_ask(**fields(limit + 1))))
    is_said(rejected.reason, field, limit)


@each_row("field", APPLICATIONS)
def test_applications(field: str) -> None:
    fields, limit = APPLICATIONS[field]
    talk = a_conversation()
    assert of(ApplicationAccepted, talk.apps(an_app(**{"application_id": "one", **fields(limit)})))
    rejected = only(ApplicationRejected, talk.apps(an_app(**{"application_id": "two", **fields(limit + 1)})))
    is_said(rejected.reason, field, limit)


@pytest.mark.parametrize("field", NODES)
def test_nodes(field: str) -> None:
    fields, limit = NODES[field]
    talk = a_conversation()
    assert of(NodeAccepted, talk.nodes(a_node(**{"node_id": "one", "capacity": ROOM, **fields(limit)})))
    rejected = only(NodeRejected, talk.nodes(a_node(**{"node_id": "two", "capacity": ROOM, **fields(limit + 1)})))
    is_said(rejected.reason, field, limit)


@pytest.mark.parametrize("field", EXISTING)
def test_existing_allocations(field: str) -> None:
    fields, limit = EXISTING[field]
    talk = a_conversation()
    assert of(NodeAccepted, talk.nodes(a_node("one", ROOM, an_existing(**{"uuid": "e1", **fields(limit)}))))
    refused = talk.nodes(a_node("two", ROOM, an_existing(**{"uuid": "e2", **fields(limit + 1)})))
    is_said(only(NodeRejected, refused).reason, field, limit)


def test_attributes_of_a_node_that_is_known() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    update = a_node("n1", attributes={"k": "v" * TAGS_LENGTH_MAX}, action=NodeAction.UPDATE)
    is_said(only(NodeRejected, talk.nodes(update)).reason, "attributes", TAGS_LENGTH_MAX)


def test_the_id_of_a_utilization_report() -> None:
    talk = a_conversation()
    report = Utilization("x" * (ID_LENGTH_MAX + 1), Resources(memory=1))
    ignored = only(ItemIgnored, talk.step(ReportUtilization(RM, [report])))
    is_said(ignored.reason, "ID", ID_LENGTH_MAX)


def creating() -> Conversation:
    """A resource manager whose applications go where they say, into queues that are made for them."""
    talk = Conversation(a_scheduler())
    root = QueueSpec("root", parent=True, submit_acl=Acl(everybody=True))
    talk.register(replace(a_partition_spec(root), rules=(RuleSpec(RuleKind.PROVIDED, create=True),)))
    talk.connect()
    return talk


def test_queues_are_created_so_deep_and_no_deeper() -> None:
    talk = creating()
    deepest = ".".join(["root", *["q"] * (LEVELS_MAX - 1)])
    assert of(ApplicationAccepted, talk.apps(an_app("one", deepest)))
    rejected = only(ApplicationRejected, talk.apps(an_app("two", deepest.replace("root.q", "root.other.q"))))
    assert f"it would be {LEVELS_MAX + 1} levels deep; at most {LEVELS_MAX} are allowed" in rejected.reason


def test_work_in_the_deepest_queue_is_placed() -> None:
    talk = creating()
    talk.nodes(a_node("n1", ROOM))
    talk.apps(an_app("app", ".".join(["root", *["q"] * (LEVELS_MAX - 1)])))
    talk.asks(an_ask("k"))
    assert [key for _, key, _ in placed(talk.schedule())] == ["k"]


def test_the_name_of_a_queue() -> None:
    rejected = only(ApplicationRejected, creating().apps(an_app("one", "root." + "a" * ID_LENGTH_MAX)))
    is_said(rejected.reason, "queueName", ID_LENGTH_MAX)


def test_what_is_said_with_a_release_is_cut() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    talk.asks(an_ask("k", count=2))
    talk.schedule()
    said = [one.message for one in of(Released, talk.release(message="m" * 1_000_000))]
    assert said == [f"{'m' * MESSAGE_LENGTH_MAX}... (1000000 characters)"] * 2
    assert checks.message("m" * MESSAGE_LENGTH_MAX) == "m" * MESSAGE_LENGTH_MAX
