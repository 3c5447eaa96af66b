"""Whether a plan still holds, judged as a whole against the present state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Allocation, Ask, may_be_preempted
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import admits_group
from schedulerd.core.state.plans.plan import Plan, PlannedAllocation
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import blocked, blocked_together

_Wanted: TypeAlias = tuple[Application, Ask, Node]


def objection(partition: Partition, plan: Plan) -> str | None:
    """The first reason, as a sentence, why the plan cannot be committed as a whole; None if it can.

    Asks must be pending and admitted, each for as many allocations as the plan has. Victims must exist. Nodes must have
    room for all planned allocations together, and quotas and limits must let all of them in together.
    """
    preempts = [(one.application, one.ask, one.node) for one in plan.preemptions]
    reserves = [(one.application, one.ask, one.node) for one in plan.reservations]
    allocates = [(one.application, one.ask, one.node) for one in plan.allocations]
    return (
        _against_asks([*preempts, *reserves, *allocates])
        or _against_nodes(partition, [*preempts, *reserves, *allocates])
        or _against_reservations(preempts, reserves)
        or _against_victims(partition, [victim for one in plan.preemptions for victim in one.victims])
        or _against_room(partition, plan.allocations)
        or _against_quotas(plan.allocations)
    )


def _against_asks(wanted: Iterable[_Wanted]) -> str | None:
    counts = Counter((application, ask) for application, ask, _ in wanted)
    for (application, ask), count in counts.items():
        group = ask.group
        if group is None or application.groups.get(ask.group_key) is not group or not application.propagates_demand:
            return f"ask {ask.key} of application {application.application_id} does not wait any longer"
        if count > ask.unchecked:
            return f"ask {ask.key} waits for {ask.unchecked} allocations, and {count} are planned"
    return None


def _against_nodes(partition: Partition, wanted: Iterable[_Wanted]) -> str | None:
    for application, ask, node in wanted:
        if partition.nodes.get(node.node_id) is not node:
            return f"node {node.node_id} is gone"
        group = ask.group
        if group is None or not admits_group(partition, application, group):
            return f"ask {ask.key} of application {application.application_id} waits for its gang"
    return None


def _against_reservations(preempts: Sequence[_Wanted], reserves: Sequence[_Wanted]) -> str | None:
    counts = Counter(ask for _, ask, _ in (*preempts, *reserves))
    for ask, count in counts.items():
        if count > ask.pending - ask.entitled:
            return f"ask {ask.key} waits for {ask.pending} allocations, and room is reserved for {ask.entitled} of them"
    seen = {(ask, node) for _, ask, node in preempts}
    for _, ask, node in reserves:
        if (ask, node) in seen or any(one.ask is ask for one in node.reservations):
            return f"room of node {node.node_id} is reserved for ask {ask.key} already"
        seen.add((ask, node))
    return None


def _against_victims(partition: Partition, victims: Sequence[Allocation]) -> str | None:
    if len(set(victims)) < len(victims):
        return "an allocation is preempted twice"
    for one in victims:
        if partition.allocations.get(one.uuid) is not one or not may_be_preempted(partition.spec, one):
            return f"allocation {one.uuid} may not be preempted any longer"
    return None


def _against_room(partition: Partition, planned: Iterable[PlannedAllocation]) -> str | None:
    taken: defaultdict[Node, Resources] = defaultdict(Resources)
    for one in planned:
        request_class = one.ask.request_class
        refusal = partition.refusal(request_class, one.node)
        if refusal is not None:
            return f"node {one.node.node_id} does not take ask {one.ask.key}: {refusal}"
        before = taken[one.node]
        name = one.node.free.minus(before).lacks(request_class.items)
        if name is not None:
            return f"node {one.node.node_id} does not take all that is planned there: not enough {name}"
        before.add(request_class.items)
    return None


def _against_quotas(planned: Sequence[PlannedAllocation]) -> str | None:
    wanted: list[tuple[Queue, Resources, QuotaKey, str]] = []
    for one in planned:
        group = one.ask.group
        assert group is not None, "asks were judged before"
        key = group.pending_class.quota_key
        for queue in one.application.queue.path_to_root:
            rule = blocked(queue, one.ask.request_class.items, key)
            if rule is not None:
                return rule.clause()
        wanted.append((one.application.queue, one.ask.request_class.resources, key, one.application.application_id))
    rule = blocked_together(wanted) if len(wanted) > 1 else None
    return rule.clause() if rule is not None else None
