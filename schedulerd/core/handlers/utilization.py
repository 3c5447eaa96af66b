"""What nodes and allocations really use, as resource managers report it (SI 2021-02 `UtilizationReport`).

It is kept to be shown, and never used for quotas or placement. A node that others use as well is recommended to offer
less, as it would be given more than it has.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core import checks, commit
from schedulerd.core.callback_facts import NodeRecommended
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import Utilization
from schedulerd.core.decide.recommendation import recommendation
from schedulerd.core.facts import ItemIgnored, RejectCode
from schedulerd.core.handlers.taking import Change
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.node import Node, Recommended
from schedulerd.core.model.partition import Partition
from schedulerd.core.specs import MINUTE_NS
from schedulerd.core.step_context import StepContext

RECOMMEND_AGAIN_NS = MINUTE_NS
"""How long after a recommendation for a node there is another one, however often its use is reported."""


def check(context: StepContext, rm: ResourceManager, item: Utilization) -> Change:
    """What the item says is kept, or it is said why not. Without a partition all of the resource manager are
    searched."""
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
    context.say(ItemIgnored(rm.rm_id, name, item.object_id, mistake.code, mistake.reason))


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
    context.say(NodeRecommended(partition.rm_id, partition.name, node.node_id, schedulable, message))
