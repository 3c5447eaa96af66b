"""Real use of nodes and allocations, as resource managers report it (SI 2021-02 `UtilizationReport`).

It is shown, and never used for quotas or feasibility. If others use a node as well, it is recommended to offer less,
because otherwise it would be over-committed.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import Utilization
from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.specs import MINUTE_NS
from schedulerd.core.nodes.rules.recommendation import recommendation
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.node import Node, Recommended
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext

RECOMMEND_AGAIN_NS = MINUTE_NS
"""Minimum interval between recommendations for a node, however often its use is reported."""


def check(context: StepContext, rm: ResourceManager, item: Utilization) -> Change:
    """Records the reported use, or ignores it with the reason. Without a partition, all partitions of the resource
    manager are searched."""
    mistake = checks.identifier("ID", item.object_id) or checks.not_negative("actualUsedResource", item.used)
    partition = rm.partition(item.partition) if item.partition else None
    if mistake is None and item.partition and partition is None:
        mistake = checks.unknown_partition(item.partition, rm.partitions)
    if mistake is None:
        searched = [partition] if partition is not None else rm.partitions.values()
        for one in searched:
            if item.object_id in one.nodes:
                return partial(_use_of_node, context, one, one.nodes[item.object_id], item)
            if item.object_id in one.allocations:
                return partial(commit.report_use, one, one.allocations[item.object_id], item.used)
        words = f"ID {shown(item.object_id)} is neither a node nor the UUID of an allocation"
        mistake = Mistake(RejectCode.UNKNOWN_NODE, words)
    return partial(ignore, context, rm, item, mistake)


def ignore(context: StepContext, rm: ResourceManager, item: Utilization, mistake: Mistake) -> None:
    name = rm.known_partition_name(item.partition) if item.partition else ""
    context.emit(ItemIgnored(rm.rm_id, name, item.object_id, mistake.code, mistake.reason))


def _use_of_node(context: StepContext, partition: Partition, node: Node, item: Utilization) -> None:
    commit.report_use(partition, node, item.used)
    _recommend(context, partition, node)


def _recommend(context: StepContext, partition: Partition, node: Node) -> None:
    last = node.recommended
    if last is not None and context.now_ns < last.at_ns + RECOMMEND_AGAIN_NS:
        return
    own, schedulable, message = recommendation(node)
    if schedulable == (node.capacity if last is None else last.schedulable):
        return
    node.recommended = Recommended(own, node.capacity, schedulable, context.now_ns)
    context.emit(NodeRecommended(partition.rm_id, partition.name, node.node_id, schedulable, message))
