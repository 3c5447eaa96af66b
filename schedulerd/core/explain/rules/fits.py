"""What if: would this ask be placed now, where, and if not why not. Nothing is changed by the question."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from schedulerd.core.applications.rules.queue_placement import access_mistake, closed_because
from schedulerd.core.explain.rules import nodes
from schedulerd.core.explain.rules.ask import further_causes, quota_levels, rule_cause
from schedulerd.core.explain.values import FitsFinding
from schedulerd.core.language.checks import shown
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.quotas.limit_subject import group_of, limit_subject_of
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import ResourceManager


@dataclass(frozen=True, slots=True)
class Supposed:
    """An ask that nobody made, of a new application."""

    resources: Resources
    user: str = ""
    groups: tuple[str, ...] = ()
    required_node: str = ""


def fits(
    rm: ResourceManager, partition: Partition, leaf: Queue, ask: Supposed, now_ns: int
) -> Generator[None, None, FitsFinding]:
    """Judges by whether the application would be taken, then by quotas and limits, then by nodes; the result is the
    value of the generator."""
    refusal = _refusal(rm, leaf, ask)
    items = ask.resources.canonical()
    request_class = RequestClass(items, required_node=ask.required_node)
    limits = [queue.limits for queue in leaf.path_to_root]
    subject = limit_subject_of(limits, ask.user, group_of(limits, ask.groups))
    key = QuotaKey(subject, starts_application=True)
    rule = highest_blocked(leaf, items, key)
    further = further_causes(partition, leaf, items, key, rule)
    cause = rule_cause(partition, rule) if rule is not None else None
    levels = quota_levels(leaf, items)
    found = yield from nodes.survey(partition, request_class)
    node_id = found.best[0].node_id if found.best and found.best[0].cause == "room" else ""
    return FitsFinding(
        rm_id=partition.rm_id,
        partition=partition.name,
        queue=leaf.written,
        resources=ask.resources.nonzero(),
        now_ns=now_ns,
        fits=not refusal and rule is None and bool(node_id),
        node_id=node_id if not refusal and rule is None else "",
        refusal=refusal,
        rule=cause,
        also_blocked_by=further,
        quotas=levels,
        nodes=found,
    )


def _refusal(rm: ResourceManager, leaf: Queue, ask: Supposed) -> str:
    """Why nothing would be placed for a new application there, as at its submission; '' if something would."""
    if rm.state is not ResourceManagerState.RUNNING:
        return f"resource manager {shown(rm.rm_id)} is {rm.state.value}: nothing is placed for it"
    if (reason := closed_because(leaf)) is not None:
        return reason
    mistake = access_mistake(leaf, ask.user, ask.groups)
    return mistake.reason if mistake is not None else ""
