"""Which guarantees keep the allocations that an ask would need; for the reason that people read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from schedulerd.amounts import resource
from schedulerd.core.language.resources import Resources
from schedulerd.core.preemption.rules.preemption_context import PreemptionContext
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.sentences import preemption

NODES_SEEN_MAX = 8
"""Maximum number of nodes whose allocations are checked."""
ALLOCATIONS_SEEN_MAX = 60
"""Maximum number of allocations of a node that are checked, the youngest first."""
QUEUES_SAID_MAX = 3
"""Maximum number of queues that are named."""


def of_queues(context: PreemptionContext) -> list[str]:
    """The queues that were found to use no more than their guarantees, as sentences."""
    return [_sentence(queue, name) for queue, name in context.protected.items()]


def on_nodes(context: PreemptionContext, needs: Iterable[tuple[Node, Resources]]) -> list[str]:
    """The queues and resources whose guarantees keep allocations of these nodes, as sentences.

    `needs` has what must become free on each node. The context must be new: nothing may have been taken from its
    budgets.
    """
    kept: dict[Queue, str] = {}
    beyond: dict[str, None] = {}
    for node, need in islice(needs, NODES_SEEN_MAX):
        if context.entitled_to.isdisjoint(need):
            beyond.update(dict.fromkeys(need))
        for queue, name in _protected_on(context, node, need):
            kept.setdefault(queue, name)
    said = [_sentence(queue, name) for queue, name in islice(kept.items(), QUEUES_SAID_MAX)]
    if beyond and not said:
        said.append(f"short there is {', '.join(map(resource, sorted(beyond)))}, which is not guaranteed to it")
    return said


def _protected_on(context: PreemptionContext, node: Node, need: Resources) -> list[tuple[Queue, str]]:
    """The guarantees against as many victims on this node as possible, each with its queue and a resource."""
    found = []
    taken = []
    for one in context.may_be_preempted(islice(reversed(node.allocations.values()), ALLOCATIONS_SEEN_MAX), need):
        items = one.allocation.request_class.items
        if any(name in need for name, _ in items):
            budgets = context.budgets_of(one.allocation.application.queue)
            kept = [(queue, name) for queue, budget in budgets if (name := budget.protects(items, need)) is not None]
            found += kept
            if not kept:
                taken += [(budget, items) for _, budget in budgets]
                for _, budget in budgets:
                    budget.take(items, 1)
    for budget, items in taken:
        budget.take(items, -1)
    return found


def _sentence(queue: Queue, name: str) -> str:
    above = queue.allocated[name] - queue.leaving[name] - queue.guaranteed[name]
    return preemption.protected(queue.written, name, above)
