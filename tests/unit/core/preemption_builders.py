"""Builders and readings for tests of reservations and preemption: asks with a right to room, and victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedulerd.core.language.commands import NewAsk, UpdateConfiguration
from schedulerd.core.language.facts.fact import Fact, ReleaseCause, ReleaseRequested
from schedulerd.core.language.facts.preemption import PreemptionRefused
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.specs import PartitionSpec, QueueSpec
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    placed,
)


def wait(talk: Conversation, ns: int) -> list[Fact]:
    """Time goes by: every alarm rings at its own deadline, and is followed by all cycles that are wanted then."""
    facts = talk.schedule()
    end_ns = talk.now_ns + ns
    while (deadline_ns := talk.scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
        facts += talk.sleep(max(0, deadline_ns - talk.now_ns))
        facts += talk.schedule()
    return facts + talk.sleep(end_ns - talk.now_ns)


def an_entitled_ask(key: str = "c", memory: int = 10, count: int = 1, app: str = "claimer", **fields: Any) -> NewAsk:
    """An ask for which allocations may be preempted."""
    fields.setdefault("allow_preempt_other", True)
    return an_ask(key, memory, count, app, **fields)


def a_daemon(
    key: str = "d",
    node: str = "n1",
    memory: int = 10,
    app: str = "daemons",
    tags: Mapping[str, str] | None = None,
    **fields: Any,
) -> NewAsk:
    """An ask with a required node."""
    return an_ask(key, memory, app=app, tags={REQUIRED_NODE_TAG: node, **(tags or {})}, **fields)


def fill(talk: Conversation, app: str, queue: str, **memory: int) -> list[Fact]:
    """An application with an allocation of each of these keys, placed in this order."""
    talk.apps(an_app(app, queue))
    facts: list[Fact] = []
    for key, amount in memory.items():
        talk.asks(an_ask(key, amount, app=app))
        facts += talk.schedule()
    return facts


def preempted(facts: Sequence[Fact]) -> list[str]:
    """Keys of the allocations that the RM is asked to preempt, in order; no other release may be requested."""
    requests = of(ReleaseRequested, facts)
    assert all(one.cause is ReleaseCause.PREEMPTED for one in requests)
    return [one.allocation_key for one in requests]


def confirm_releases(talk: Conversation, *keys: str) -> list[Fact]:
    """The RM confirms the requested releases of the allocations with these keys."""
    facts: list[Fact] = []
    for allocation in list(talk.model().allocations.values()):
        if allocation.key in keys:
            assert allocation.releasing is not None
            facts += talk.release(
                application_id=allocation.application.application_id,
                uuid=allocation.uuid,
                termination=allocation.releasing,
            )
    return facts


def finished(talk: Conversation, *keys: str) -> list[Fact]:
    """The RM says that the allocations with these keys completed by themselves."""
    facts: list[Fact] = []
    for allocation in list(talk.model().allocations.values()):
        if allocation.key in keys:
            facts += talk.release(application_id=allocation.application.application_id, uuid=allocation.uuid)
    return facts


def reserved(facts: Sequence[Fact]) -> list[tuple[str, str, bool]]:
    """(key, node, whether it is entitled) of each new reservation, in order."""
    return [(one.allocation_key, one.node_id, one.entitled) for one in of(Reserved, facts)]


def ended_reservations(facts: Sequence[Fact]) -> list[tuple[str, str, str]]:
    """(key, node, why) of each reservation that ended, in order."""
    return [(one.allocation_key, one.node_id, one.end.value) for one in of(ReservationEnded, facts)]


def refusals(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """(key, why) of each ask for which nothing is preempted, in order."""
    return [(one.allocation_key, one.refusal.value) for one in of(PreemptionRefused, facts)]


def reservations_of(talk: Conversation) -> list[tuple[str, str, bool]]:
    """(key, node, whether it is entitled) of each reservation there is, in the order in which they began."""
    return [(one.ask.key, one.node.node_id, one.is_entitled) for one in talk.model().reservations]


def guaranteed_root(guaranteed: int = 50, *, victims: dict[str, Any] | None = None, **fields: Any) -> QueueSpec:
    """`c` is guaranteed so much for asks with a right to it, `v` has the possible victims."""
    mine = {"memory": guaranteed} if guaranteed else None
    return a_root(a_queue_spec("c", guaranteed=mine, **fields), a_queue_spec("v", **(victims or {})), a_queue_spec("o"))


def full_nodes(root: QueueSpec | None = None, **nodes: list[int]) -> Conversation:
    """Nodes by name, each full of allocations of such sizes: `n1_0`, `n1_1` and so on, from the oldest on."""
    talk = a_conversation(root=root or guaranteed_root())
    talk.apps(an_app("claimer", "root.c"), an_app("victims", "root.v"), an_app("other", "root.o"))
    for node, sizes in nodes.items():
        talk.nodes(a_node(node, {"memory": sum(sizes)}))
        for number, memory in enumerate(sizes):
            talk.asks(an_ask(f"{node}_{number}", memory, app="victims"))
            assert placed(talk.schedule()) == [("victims", f"{node}_{number}", node)]
    return talk


def without_preemption(root: QueueSpec) -> UpdateConfiguration:
    """A queue file with these queues that switches preemption off."""
    return UpdateConfiguration(RM, (PartitionSpec("default", root, preemption_enabled=False),))
