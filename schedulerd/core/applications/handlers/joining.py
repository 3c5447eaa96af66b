"""Unclaimed allocations join their application when it is added."""

from __future__ import annotations

from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.facts.fact import ItemIgnored
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd
from schedulerd.core.state.actions import recovery_mismatches, taking_over, unclaimed
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Unclaimed
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext


def join(context: StepContext, partition: Partition, application: Application, count: int) -> int:
    """Unclaimed allocations of the application become its allocations, at most `count`; returns how many were tried.

    One with a mistake stays unclaimed, with the reason.
    """
    tried = partition.unclaimed.joining(application.application_id, count)
    for one in tried:
        field = f"existing allocation {one.uuid} (allocationKey {shown(one.key)}) on node {one.node.node_id}"
        mistake = _mistake(application, one)
        if mistake is not None:
            partition.unclaimed.keep(one, mistake.reason)
            reason = f"{field}: {mistake.reason}. It stays unclaimed"
            context.emit(ItemIgnored(partition.rm_id, partition.name, one.uuid, mistake.code, reason))
            continue
        unclaimed.end(context, partition, one, UnclaimedEnd.JOINED)
        taking_over.take_over_one(context, application, one.node, one.spec)
        recovery_mismatches.tell(context, application, field, one.spec)
    return len(tried)


def _mistake(application: Application, one: Unclaimed) -> Mistake | None:
    """Its key is that of an allocation of another kind. All else was checked when its node was reported."""
    ask = application.asks.get(one.key)
    others = ask.allocations.values() if ask is not None else ()
    mistakes = (taking_over.kind_mistake(other, one.spec) for other in others)
    return next((mistake for mistake in mistakes if mistake is not None), None)
