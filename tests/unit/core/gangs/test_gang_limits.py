"""Gangs under limits of users and groups: the gate, the promise, and the deadlock after a limit was lowered."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.gangs import GangGaveWay
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import MINUTE_NS, SECOND_NS, LimitSpec, QueueSpec, Timeouts
from schedulerd.core.views.values import UserView
from tests.unit.core.builders import (
    EVERYBODY,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    an_app,
    an_ask,
    of,
    only,
    placed,
    states,
)

S = ApplicationState
PATIENCE_NS = 10 * SECOND_NS
TIMES = Timeouts(gang_deadlock_timeout_ns=PATIENCE_NS)
NAMES_GROUPS = LimitSpec(groups=("dev",))
"""Limits nothing; the group of an application is one that a limit names when the application is submitted."""


def a_tree(*limits: LimitSpec, most: int | None = None) -> QueueSpec:
    leaves = [a_queue_spec("a"), a_queue_spec("b")]
    amounts = None if most is None else {"memory": most}
    return a_queue_spec("root", a_queue_spec("p", *leaves, limits=limits, max=amounts), submit_acl=EVERYBODY)


def a_limit(memory: int = 50, users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> LimitSpec:
    return LimitSpec(users, groups, Limits(memory=memory))


def two_gangs(root: QueueSpec, nodes: int = 10, **second: Any) -> Conversation:
    """Two gangs of four members of 10 each, in different queues; `second` has fields of the second one."""
    talk = a_conversation(*(a_node(f"n{number}", {"memory": 10}) for number in range(nodes)), root=root, timeouts=TIMES)
    fields = {"user": "ann", "groups": ("dev",), "placeholder_ask": Resources(memory=40)}
    talk.apps(an_app("first", "root.p.a", **fields), an_app("second", "root.p.b", **{**fields, **second}))
    talk.asks(*(a_placeholder(f"p{number}", app=app) for number in range(4) for app in ("first", "second")))
    return talk


def reload(talk: Conversation, root: QueueSpec) -> None:
    talk.step(UpdateConfiguration(talk.rm_id, (a_partition_spec(root),)))


def held(talk: Conversation) -> tuple[int, int]:
    return len(talk.app("first").allocations), len(talk.app("second").allocations)


def confirm(talk: Conversation, requests: list[ReleaseRequested]) -> None:
    for one in requests:
        talk.release(application_id=one.application_id, uuid=one.uuid, termination=one.termination)


@pytest.mark.parametrize(
    ("limit", "whose"),
    [
        (a_limit(users=("ann",)), "user 'ann'"),
        (a_limit(users=("*",)), "user 'ann'"),
        (a_limit(groups=("dev",)), "group 'dev'"),
        (a_limit(groups=("*",)), "group '*'"),
    ],
)
def test_of_two_gangs_that_a_limit_lets_in_one_after_the_other_one_runs_whole_and_the_other_waits(
    limit: LimitSpec, whose: str
) -> None:
    talk = two_gangs(a_tree(limit))
    talk.schedule()
    assert held(talk) == (4, 0)
    waits = f"{whose} would be above its limit in queue root.p with the whole gang: 40 of 50 memory used, 40 more asked"
    assert {ask.waiting_for for ask in talk.app("second").asks} == {waits}
    talk.sleep(60 * MINUTE_NS)
    assert (talk.app("second").state, talk.app("second").gang_started) == (S.ACCEPTED, False)
    talk.remove("first")
    assert states(talk.schedule(), "second") == [S.STARTING]


def test_a_limit_of_one_user_keeps_no_gang_of_another_user_out() -> None:
    talk = two_gangs(a_tree(a_limit(users=("ann",)), a_limit(users=("*",))), user="bob")
    talk.schedule()
    assert held(talk) == (4, 4)


def promised(accounts: list[UserView]) -> dict[str, Any]:
    return {one.user: one.gang_promised for one in accounts if one.gang_promised}


def test_what_a_started_gang_lacks_is_promised_to_its_user_and_group_against_other_gangs_alone() -> None:
    talk = two_gangs(a_tree(a_limit(users=("ann",)), NAMES_GROUPS), nodes=1)
    talk.schedule()
    assert held(talk) == (1, 0)
    lacks = {"root": {"memory": 30}, "root.p": {"memory": 30}, "root.p.a": {"memory": 30}}
    assert (promised(talk.view().users), promised(talk.view().groups)) == ({"ann": lacks}, {"dev": lacks})
    [reason] = {ask.waiting_for for ask in talk.app("second").asks}
    assert "10 of 50 memory used, 30 promised to gangs, 40 more asked" in reason
    talk.nodes(a_node("n2", {"memory": 40}))
    talk.apps(an_app("plain", "root.p.b", user="ann"))
    talk.asks(an_ask("k", 40, app="plain"))
    assert ("plain", "k", "n2") in placed(talk.schedule())
    talk.remove("first")
    assert promised(talk.view().users) == promised(talk.view().groups) == {}


def test_a_gang_that_the_limits_of_another_file_no_longer_hold_waits_at_the_gate() -> None:
    talk = two_gangs(a_tree())
    reload(talk, a_tree(a_limit(users=("ann",))))
    talk.schedule()
    assert held(talk) == (4, 0)
    reload(talk, a_tree(a_limit(80, users=("ann",))))
    assert states(talk.schedule(), "second") == [S.STARTING]


LOWERED = [
    a_tree(NAMES_GROUPS, most=50),
    a_tree(a_limit(users=("ann",))),
    a_tree(a_limit(users=("*",))),
    a_tree(a_limit(groups=("dev",))),
]


def halves(lowered: QueueSpec, nodes: int = 4, **second: Any) -> Conversation:
    """Each of the gangs holds three of four, and then nodes come and a quota or limit is lowered to 50."""
    talk = two_gangs(a_tree(NAMES_GROUPS), nodes=6, **second)
    talk.schedule()
    assert held(talk) == (3, 3)
    reload(talk, lowered)
    talk.nodes(*(a_node(f"m{number}", {"memory": 10}) for number in range(nodes)))
    return talk


@pytest.mark.parametrize("lowered", LOWERED, ids=["max", "user", "any user", "group"])
def test_of_gangs_that_a_lowered_quota_or_limit_stops_halfway_the_later_one_is_released(lowered: QueueSpec) -> None:
    talk = halves(lowered)
    assert placed(talk.schedule()) == []
    facts = talk.sleep(PATIENCE_NS)
    gave_way = only(GangGaveWay, facts)
    assert (gave_way.application_id, gave_way.in_favour_of, gave_way.placeholders) == ("second", "first", 3)
    confirm(talk, of(ReleaseRequested, facts))
    assert states(talk.schedule(), "first") == [S.STARTING]
    assert (held(talk), talk.app("second").gang_started) == ((4, 0), False)
    talk.remove("first")
    assert states(talk.schedule(), "second") == [S.STARTING]


def test_no_gang_is_released_where_it_uses_nothing_of_the_limit_that_is_short() -> None:
    talk = halves(a_tree(a_limit(30, users=("ann",)), a_limit(users=("*",))), user="bob")
    assert placed(talk.schedule()) == [("second", "p3", "m0")]
    assert of(GangGaveWay, talk.sleep(PATIENCE_NS)) == []


def test_it_is_released_where_only_a_rule_is_in_the_way() -> None:
    assert of(GangGaveWay, halves(LOWERED[0]).sleep(PATIENCE_NS))


def test_it_is_released_where_the_nodes_are_full_as_well() -> None:
    talk = halves(LOWERED[1], nodes=0)
    facts = talk.sleep(PATIENCE_NS)
    assert only(GangGaveWay, facts).application_id == "second"
    confirm(talk, of(ReleaseRequested, facts))
    assert states(talk.schedule(), "first") == [S.STARTING]


@pytest.mark.parametrize(("most", "is_enough"), [(60, True), (50, False)])
def test_no_gang_is_released_if_others_than_gangs_leave_too_little(most: int, is_enough: bool) -> None:
    """They use 20, the earlier gang has 30 of 40."""
    talk = halves(a_tree(NAMES_GROUPS, most=60))
    reload(talk, a_tree(NAMES_GROUPS, most=80))
    talk.apps(an_app("plain", "root.p.b", user="ann"))
    talk.asks(an_ask("k", count=2, app="plain", priority=1))
    talk.cycle(2)
    reload(talk, a_tree(NAMES_GROUPS, most=most))
    assert (held(talk), len(talk.app("plain").allocations)) == ((3, 3), 2)
    assert bool(of(GangGaveWay, talk.sleep(PATIENCE_NS))) is is_enough
