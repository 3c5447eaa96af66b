"""What is opted out of preemption (`allowPreemptSelf: false`) is never a victim, unless the queue file says `last`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.language.commands import ExistingAllocation, UpdateConfiguration
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import SECOND_NS, OptOut, QueueProperties
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
    placed,
)
from tests.unit.core.preemption_builders import a_daemon, an_entitled_ask, preempted, wait

DELAY_NS = 60 * SECOND_NS
TAG = "yunikorn.apache.org/allow-preemption"


def a_cluster(opt_out: OptOut, *existing: ExistingAllocation, **opted: Any) -> Conversation:
    """n1, full with `spared` and `any` of root.v, the first of them as `opted` says; `c` is guaranteed all of it."""
    talk = a_conversation(root=a_root(a_queue_spec("c", guaranteed={"memory": 20}), a_queue_spec("v")))
    talk.apps(an_app("claimer", "root.c"), an_app("daemons", "root.c"), an_app("app", "root.v"))
    talk.nodes(a_node("n1", {"memory": 20}, *existing))
    if not existing:
        talk.asks(an_ask("spared", **opted), an_ask("any"))
        assert len(placed(talk.schedule())) == 2
    say(talk, opt_out)
    return talk


def say(talk: Conversation, opt_out: OptOut, most: int | None = None) -> None:
    """The queue file says so; with `most`, it gives root.v no more than that."""
    spec = talk.model().spec
    timed = QueueProperties(quota_preemption_delay_ns=DELAY_NS)
    limits = Limits() if most is None else Limits({"memory": most})
    children = tuple(
        replace(one, max=limits, properties=timed) if one.name == "v" else one for one in spec.root.children
    )
    root = replace(spec.root, children=children)
    changed = replace(spec, root=root, quota_preemption_enabled=True, preemption_optout=opt_out)
    talk.step(UpdateConfiguration(RM, (changed,)))


def for_a_guarantee(talk: Conversation) -> list[str]:
    talk.asks(an_entitled_ask("c", 20))
    return preempted(wait(talk, DELAY_NS))


def for_a_required_node(talk: Conversation) -> list[str]:
    talk.asks(a_daemon("d", memory=20))
    return preempted(talk.schedule())


def for_a_quota(talk: Conversation) -> list[str]:
    say(talk, talk.model().spec.preemption_optout, most=0)
    return preempted(wait(talk, DELAY_NS))


WAYS = pytest.mark.parametrize("way", [for_a_guarantee, for_a_required_node, for_a_quota])


@WAYS
def test_it_is_never_preempted_unless_the_queue_file_says_last(way: Any) -> None:
    nobody_else = [] if way is not for_a_quota else ["any"]
    assert way(a_cluster(OptOut.NEVER, allow_preempt_self=False)) == nobody_else
    assert sorted(way(a_cluster(OptOut.LAST, allow_preempt_self=False))) == ["any", "spared"]
    assert sorted(way(a_cluster(OptOut.NEVER))) == ["any", "spared"], "no policy means that it may be preempted"


@WAYS
@pytest.mark.parametrize(("tag", "is_preempted"), [("false", False), ("False", False), ("true", True), ("", True)])
def test_of_an_existing_allocation_a_tag_says_so(way: Any, tag: str, is_preempted: bool) -> None:
    tags = {TAG: tag} if tag else {}
    talk = a_cluster(OptOut.NEVER, an_existing("e1", "k1", memory=20, tags=tags))
    assert way(talk) == (["k1"] if is_preempted else [])
