"""The state as people see it: plain values, in order, and with a reason for whoever waits."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder, LimitSpec, PreemptionPolicy
from schedulerd.core.views import view
from schedulerd.core.views.values import LimitView
from tests.unit.core.builders import (
    RM,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)

ROOM = {"memory": 100, "vcore": 10}


def test_a_queue_shows_its_limits_and_an_application_the_group_that_counts() -> None:
    limits = (LimitSpec(("*",), max_applications=2), LimitSpec(groups=("staff",), max=Limits(vcore=3, memory=2)))
    talk = a_conversation(root=a_root(a_queue_spec("a", max_applications=5, limits=limits)))
    talk.apps(an_app("one", groups=("guests", "staff")), an_app("two", groups=("guests",)))
    queue = talk.queue()
    assert queue.max_applications == 5
    assert queue.limits == [LimitView(("*",), (), {}, 2), LimitView((), ("staff",), {"memory": 2, "vcore": 3}, 0)]
    assert [talk.app(name).group for name in ("one", "two")] == ["staff", ""]


def test_everything_is_listed_by_id_and_without_zeros() -> None:
    talk = a_conversation(a_node("n2", ROOM), a_node("n1", {"vcore": 1, "memory": 50, "gpu": 0}))
    talk.apps(an_app("zoo"), an_app("bar"))
    talk.asks(an_ask("k2"), an_ask("k1", count=2), an_ask("x", 900), an_ask("w", 900))
    talk.schedule()
    partition = talk.view()
    assert [node.node_id for node in partition.nodes] == ["n1", "n2"]
    assert [app.application_id for app in partition.applications] == ["app", "bar", "zoo"]
    assert [ask.allocation_key for ask in talk.app().asks] == ["w", "x"]
    assert [one.allocation_key for one in talk.app().allocations] == ["k1", "k1", "k2"]
    assert list(talk.node("n1").capacity.items()) == [("memory", 50), ("vcore", 1)]
    assert partition.total == {"memory": 150, "vcore": 11}


def test_a_queue_shows_what_is_left_of_all_quotas_above() -> None:
    leaf = a_queue_spec("a", max={"memory": 80, "gpu": 2}, order=ApplicationOrder.FAIR)
    talk = a_conversation(a_node("n1", ROOM), root=a_root(leaf, max={"memory": 50}))
    talk.asks(an_ask("k", 20))
    talk.schedule()
    queue = talk.queue()
    assert (queue.max, queue.headroom) == ({"gpu": 2, "memory": 80}, {"gpu": 2, "memory": 30})
    assert (queue.allocated, queue.leaf, queue.application_order) == ({"memory": 20}, True, "fair")
    assert queue.applications == ["app"]


def test_a_queue_shows_its_part_in_preemption() -> None:
    fenced = a_queue_spec("a", preemption_policy=PreemptionPolicy.FENCE, preemption_delay_ns=7)
    talk = a_conversation(root=a_root(fenced, a_queue_spec("b")))
    shown = {path: talk.queue(path) for path in ("root.a", "root.b")}
    assert {path: (queue.preemption_policy, queue.preemption_delay_ns) for path, queue in shown.items()} == {
        "root.a": ("fence", 7),
        "root.b": ("default", 30 * SECOND_NS),
    }


def test_applications_run_from_their_first_real_allocation() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    assert talk.queue("root").running_applications == 0
    talk.asks(an_ask("k"))
    talk.schedule()
    assert [talk.queue(path).running_applications for path in ("root", "root.a")] == [1, 1]
    talk.release()
    assert talk.queue("root").running_applications == 0


def test_users_are_shown_with_their_usage_at_every_level() -> None:
    talk = a_conversation(a_node("n1", ROOM))
    for user in ("bob", "ann"):
        talk.apps(an_app(f"of-{user}", user=user))
        talk.asks(an_ask("k", app=f"of-{user}"))
    talk.schedule()
    users = talk.view().users
    assert [user.user for user in users] == ["ann", "bob"]
    assert users[0].usage == {"root": {"memory": 10}, "root.a": {"memory": 10}}
    assert users[0].applications == {"root": ["of-ann"], "root.a": ["of-ann"]}


def scribble(value: Any) -> None:
    """Spoils every mapping and list that can be reached."""
    if isinstance(value, dict):
        for one in value.values():
            scribble(one)
        value["spoilt"] = -1
    elif isinstance(value, list):
        for one in value:
            scribble(one)
        value.clear()
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            scribble(getattr(value, name))


def test_nothing_in_a_view_leads_back_into_the_state() -> None:
    talk = a_conversation(a_node("n1", ROOM, attributes={"zone": "z"}))
    talk.asks(an_ask("k", count=2, tags={"t": "v"}), an_ask("large", 500))
    talk.schedule()
    shown = view.resource_managers(talk.scheduler.cluster)
    before = deepcopy(shown)
    scribble(shown)
    assert view.resource_managers(talk.scheduler.cluster) == before


def test_an_unknown_resource_manager_has_no_view() -> None:
    talk = a_conversation()
    with pytest.raises(KeyError, match="nobody"):
        view.partition(talk.scheduler.cluster, "nobody", "default")
    with pytest.raises(KeyError, match="nowhere"):
        view.partition(talk.scheduler.cluster, RM, "nowhere")
