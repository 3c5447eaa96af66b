"""Gangs whose members are preempted all together or not at all (tag `schedulerd.io/disruption: gang`)."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
)

AS_ONE = {"schedulerd.io/disruption": "gang"}


def a_cluster(guaranteed: int = 0, tags: dict[str, str] | None = None, **fields: Any) -> Conversation:
    """Application `mpi` in queue b, which is guaranteed that much, has m1 and m2 on n1, and m3 on n2; `app` in queue a
    has x on n2. Queue c is guaranteed 30. All are of 10, and nothing is free."""
    queues = [
        a_queue_spec("a"),
        a_queue_spec("b", guaranteed={"memory": guaranteed}),
        a_queue_spec("c", guaranteed={"memory": 30}),
    ]
    talk = a_conversation(root=a_root(*queues))
    talk.apps(an_app("asker", "root.c"), an_app("mpi", "root.b", tags=AS_ONE if tags is None else tags))
    talk.nodes(
        a_node("n1", {"memory": 20}, *[an_existing(f"u{at}", f"m{at}", "mpi", task_group="w") for at in (1, 2)]),
        a_node("n2", {"memory": 20}, an_existing("u3", "m3", "mpi", task_group="w", **fields), an_existing("x", "x")),
    )
    return talk


def preempted(talk: Conversation, memory: int, **fields: Any) -> list[str]:
    """What is preempted for an ask of so much."""
    talk.asks(an_ask("k", memory, 1, "asker", allow_preempt_other=True, **fields))
    facts: list[Fact] = talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()
    return sorted(one.allocation_key for one in of(ReleaseRequested, facts))


def test_all_of_the_gang_or_none_of_it() -> None:
    assert preempted(a_cluster(), 20) == ["m1", "m2", "m3"]
    assert preempted(a_cluster(tags={}), 20) == ["m1", "m2"]


def test_what_the_rest_of_the_gang_uses_counts_as_harm() -> None:
    assert preempted(a_cluster(), 10) == ["x"]


def test_the_queue_must_be_above_its_guarantee_before_and_may_be_below_after() -> None:
    assert preempted(a_cluster(20), 20) == ["m1", "m2", "m3"]
    assert preempted(a_cluster(30), 20) == []
    assert preempted(a_cluster(20, {}), 20) == ["m3", "x"]


def test_one_member_that_may_not_be_preempted_protects_all() -> None:
    talk, tags = a_cluster(), {"yunikorn.apache.org/allow-preemption": "false"}
    talk.nodes(a_node("n3", {"memory": 10}, an_existing("u4", "m4", "mpi", task_group="w", tags=tags)))
    assert preempted(talk, 20) == []
    assert preempted(a_cluster(priority=5), 20) == []


def test_an_ask_for_its_only_node_takes_single_members() -> None:
    talk = a_cluster()
    talk.asks(an_ask("k", 10, 1, "asker", tags={"yunikorn.apache.org/requiredNode": "n1"}))
    assert len(of(ReleaseRequested, talk.schedule())) == 1


def test_a_gang_asks_for_the_room_of_another_one_as_a_whole() -> None:
    talk = a_cluster()
    declared = '[{"name": "w", "min": 3}]'
    talk.apps(an_app("gang", "root.c", tags={"schedulerd.io/task-groups": declared}))
    talk.asks(*[an_ask(f"g{at}", 10, 1, "gang", task_group="w", allow_preempt_other=True) for at in range(3)])
    facts = talk.schedule() + talk.sleep(31 * SECOND_NS) + talk.schedule()
    assert sorted(one.allocation_key for one in of(ReleaseRequested, facts)) == ["m1", "m2", "m3"]
