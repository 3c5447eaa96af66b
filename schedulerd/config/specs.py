"""The models of a queue file that is valid as the core's specs: names in lower case, what is inherited worked in.

Nothing is checked here. What two spellings of the file mean alike is one spec: limits of the partition are those of
root, and a child template that a queue takes over from a queue above it stands in the queue itself.
"""

from __future__ import annotations

from dataclasses import replace

from schedulerd.config.acl import GROUP_NAME, USER_NAME
from schedulerd.config.hierarchy import top_queue
from schedulerd.config.models import Amounts, ChildTemplate, Filter, FilterType, Limit, Partition, PlacementRule, Queue
from schedulerd.config.placement import is_pattern
from schedulerd.config.properties import queue_properties
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    FilterSpec,
    LimitSpec,
    PartitionSpec,
    QueueProperties,
    QueueSpec,
    RuleKind,
    RuleSpec,
    TemplateSpec,
)

DEFAULT_PARTITION = "default"


def partition_name(partition: Partition) -> str:
    """The name of a partition as used everywhere; a partition without a name is the default partition."""
    name = partition.name or DEFAULT_PARTITION
    return DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name


def partition_spec(partition: Partition) -> PartitionSpec:
    """The spec of a partition without problems."""
    root, _ = top_queue(partition, ())
    if not root.limits:
        root = root.model_copy(update={"limits": partition.limits})
    policy = partition.nodesortpolicy
    spec = PartitionSpec(
        name=partition_name(partition),
        root=_queue_spec(root, QueueProperties(), ChildTemplate()),
        rules=tuple(map(_rule_spec, partition.placementrules)),
        node_order=policy.type,
        preemption_enabled=partition.preemption.enabled,
        quota_preemption_enabled=partition.preemption.quotapreemptionenabled,
        preemption_optout=partition.preemption.optout,
        topology=tuple((level.name, level.attribute) for level in partition.topology),
        topology_keys=partition.topologykeys,
    )
    return replace(spec, node_weights=policy.resourceweights) if policy.resourceweights else spec


def _queue_spec(queue: Queue, inherited: QueueProperties, template_above: ChildTemplate) -> QueueSpec:
    """The spec of a queue. `inherited` are its inherited properties, `template_above` the nearest template above it."""
    properties = queue_properties(queue.properties, inherited)
    template = template_above if queue.childtemplate == ChildTemplate() else queue.childtemplate
    return QueueSpec(
        name=queue.name,
        parent=queue.parent,
        guaranteed=Resources(queue.resources.guaranteed.items()),
        max=Limits(queue.resources.max.items()),
        max_applications=queue.maxapplications,
        properties=properties,
        submit_acl=queue.submitacl,
        admin_acl=queue.adminacl,
        limits=tuple(map(_limit_spec, queue.limits)),
        template=_template_spec(template, properties.for_child()) if queue.is_parent else None,
        children=tuple(_queue_spec(child, properties.for_child(), template) for child in queue.queues),
    )


def _template_spec(template: ChildTemplate, inherited: QueueProperties) -> TemplateSpec | None:
    """Initial values of a leaf that is created below a queue with the properties `inherited`."""
    if template == ChildTemplate():
        return None
    return TemplateSpec(
        max_applications=template.maxapplications,
        guaranteed=Resources(template.resources.guaranteed.items()),
        max=Limits(template.resources.max.items()),
        properties=queue_properties(template.properties, inherited) if template.properties else None,
    )


def _limit_spec(limit: Limit) -> LimitSpec:
    return LimitSpec(
        users=limit.users,
        groups=limit.groups,
        max=_limits_or_none(limit.maxresources),
        max_applications=limit.maxapplications,
    )


def _limits_or_none(amounts: Amounts) -> Limits | None:
    return Limits(amounts.items()) if amounts.items() else None


def _rule_spec(rule: PlacementRule) -> RuleSpec:
    """Names of tags ignore case, and are compared in lower case; names of queues are kept as they are written."""
    assert rule.name is not None, "a rule without name is a problem"
    return RuleSpec(
        kind=rule.name,
        create=rule.create,
        value=rule.value.lower() if rule.name is RuleKind.TAG else rule.value,
        filter=_filter_spec(rule.filter),
        parent=None if rule.parent is None else _rule_spec(rule.parent),
    )


def _filter_spec(filter_: Filter) -> FilterSpec:
    return FilterSpec(
        allow=filter_.type is FilterType.ALLOW,
        users=filter_.users,
        groups=filter_.groups,
        is_user_pattern=is_pattern(filter_.users, USER_NAME),
        is_group_pattern=is_pattern(filter_.groups, GROUP_NAME),
    )
