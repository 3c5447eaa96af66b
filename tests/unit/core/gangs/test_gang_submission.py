"""Gangs that could never run are rejected when they are submitted, unless they run already (SEMANTICS G1, I13)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationRejected, RejectCode
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import ApplicationOrder, LimitSpec, QueueSpec
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, of, only
from tests.unit.core.gang_builders import a_gang

LIMITED = a_root(
    a_queue_spec("a", limits=(LimitSpec(users=("ann",), groups=("staff",), max=Limits(memory=50)),)),
    a_queue_spec("b", limits=(LimitSpec(users=("*",), max=Limits(memory=40)),)),
    a_queue_spec("c", limits=(LimitSpec(users=("ann",), max_applications=1), LimitSpec(groups=("*",)))),
)
FORCED = {"application.create.force": "true"}


@pytest.mark.parametrize(
    ("memory", "fields", "reason"),
    [
        (51, {"user": "ann"}, "placeholderAsk wants 51 memory, but maxresources of user 'ann' in queue root.a is 50"),
        (
            51,
            {"user": "bob", "groups": ("guests", "staff")},
            "placeholderAsk wants 51 memory, but maxresources of group 'staff' in queue root.a is 50",
        ),
        (
            41,
            {"user": "eve", "queue": "root.b"},
            "placeholderAsk wants 41 memory, but maxresources of user 'eve' in queue root.b is 40",
        ),
    ],
    ids=["user", "group", "any user"],
)
def test_a_gang_above_what_its_user_or_group_may_ever_have_is_rejected(
    memory: int, fields: dict[str, str], reason: str
) -> None:
    talk = a_conversation(root=LIMITED)
    rejected = only(ApplicationRejected, talk.apps(a_gang(memory=memory, **fields)))
    assert rejected.code is RejectCode.OVER_QUOTA
    assert rejected.reason == f"{reason}: the gang could never be placed"


@pytest.mark.parametrize(
    ("memory", "fields"),
    [
        (50, {"user": "ann"}),
        (500, {"user": "bob"}),
        (500, {"user": "ann", "queue": "root.c"}),
        (40, {"user": "eve", "queue": "root.b"}),
    ],
    ids=["as much as it may", "a limit of others", "a limit on applications", "any user"],
)
def test_any_other_gang_is_accepted_whatever_its_user_has_now(memory: int, fields: dict[str, str]) -> None:
    talk = a_conversation(a_node("n1", {"memory": 1_000}), root=LIMITED)
    assert (
        of(ApplicationRejected, talk.apps(a_gang("first", memory, **fields), a_gang("second", memory, **fields))) == []
    )


@pytest.mark.parametrize("order", [ApplicationOrder.FAIR, ApplicationOrder.DRF])
def test_a_gang_is_rejected_where_several_gangs_would_get_a_part_each(order: ApplicationOrder) -> None:
    talk = a_conversation(a_node("n1", {"memory": 1_000}), root=a_root(a_queue_spec("a", order=order)))
    rejected = only(ApplicationRejected, talk.apps(a_gang(memory=20)))
    assert rejected.code is RejectCode.QUEUE_NOT_FIFO
    assert rejected.reason == (
        f"placeholderAsk is set, and queue root.a has application.sort.policy {order}, under which several gangs would "
        "get a part each; it must be fifo or stateaware"
    )


@pytest.mark.parametrize(
    "root",
    [
        a_root(a_queue_spec("a", max={"memory": 10})),
        a_root(a_queue_spec("a", order=ApplicationOrder.FAIR)),
        a_root(a_queue_spec("a", order=ApplicationOrder.DRF)),
        a_root(a_queue_spec("a", limits=(LimitSpec(users=("*",), max=Limits(memory=10)),))),
    ],
    ids=["quota", "fair", "drf", "limit"],
)
def test_one_that_runs_already_is_accepted_all_the_same(root: QueueSpec) -> None:
    talk = a_conversation(root=root)
    assert of(ApplicationAccepted, talk.apps(a_gang(memory=20))) == []
    assert only(ApplicationAccepted, talk.apps(a_gang(memory=20, tags=FORCED))).application_id == "gang"
