"""Whether queues are what the queue file says, take applications only as long as it names them, and by whose limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedulerd.core.language.commands import Command, RegisterResourceManager, UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.facts.fact import ApplicationAccepted, ApplicationChanged, Fact, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import PartitionSpec, QueueSpec
from schedulerd.core.views.values import ApplicationView, LimitView, PartitionView, QueueView, ResourceManagerView

Rules = tuple[object, ...]
"""All that a file says of a queue."""
Said = tuple[PartitionSpec, dict[str, Rules]]
"""Of a partition, and by path of its queues."""


class FileInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Said]] = {}
        """What each resource manager's file says of which partition, if that holds."""
        self._judged: dict[tuple[str, str], PartitionView] = {}
        """What was as it says."""

    def after(self, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """What is not as the files say, as sentences; `state` is the one after the step."""
        if isinstance(command, RegisterResourceManager | UpdateConfiguration) and _holds(facts):
            self._said[command.rm_id] = {one.name: (one, dict(_rules_of(one.root, ""))) for one in command.partitions}
        for rm in state:
            said = self._said[rm.rm_id]
            if said.keys() != {partition.name for partition in rm.partitions}:
                yield f"{rm.rm_id} has partitions other than {sorted(said)}"
            for partition in rm.partitions:
                name = rm.rm_id, partition.name
                if partition is not self._judged.get(name):
                    self._judged[name] = partition
                    for text in _differences(partition, *said[partition.name], facts):
                        yield f"[{rm.rm_id}]{partition.name} is not what the file says: {text}"


def _holds(facts: Sequence[Fact]) -> bool:
    return any(
        isinstance(fact, ConfigurationUpdated)
        or (isinstance(fact, ResourceManagerChanged) and fact.state is ResourceManagerState.INIT)
        for fact in facts
    )


def _differences(
    partition: PartitionView, spec: PartitionSpec, named: Mapping[str, Rules], facts: Sequence[Fact]
) -> Iterator[str]:
    said = (spec.node_order.value, spec.preemption_enabled)
    if (partition.node_order, partition.preemption_enabled) != said:
        yield f"nodes are ordered by {partition.node_order}, preemption is {partition.preemption_enabled}"
    queues = {queue.path: queue for queue in partition.queues}
    for path, rules in named.items():
        if path not in queues:
            yield f"{path} is missing"
        elif _rules_shown(queues[path]) != rules:
            yield f"{path} has {_rules_shown(queues[path])}, the file {rules}"
    applications = {item.application_id: item for item in partition.applications}
    submitted = {
        one.application_id for one in facts if isinstance(one, ApplicationChanged) and one.old_state is None
    }  # not those that said anew what their namespace has
    for fact in facts:
        if isinstance(fact, ApplicationAccepted) and fact.application_id not in submitted:
            continue
        is_here = isinstance(fact, ApplicationAccepted) and (fact.rm_id, fact.partition) == (
            partition.rm_id,
            partition.name,
        )
        if isinstance(fact, ApplicationAccepted) and is_here and fact.queue not in named and queues[fact.queue].managed:
            yield f"{fact.queue} is not named any longer, and takes {fact.application_id}"
        if isinstance(fact, ApplicationAccepted) and is_here and fact.application_id in applications:
            yield from _another_group(applications[fact.application_id], queues)


def _another_group(item: ApplicationView, queues: Mapping[str, QueueView]) -> Iterator[str]:
    """For an application that was accepted now: the first group of the limits, from its leaf up, that it is in."""
    names = item.queue.split(".")
    way = [queues[".".join(names[:levels])] for levels in range(len(names), 0, -1)]
    listed = [group for queue in way for limit in queue.limits for group in limit.groups]
    its_own = [group for group in listed if group in item.groups]
    counts = its_own[0] if its_own else "*" if "*" in listed else ""
    if item.group != counts:
        yield f"{item.application_id} of {item.groups} counts for group {item.group!r}, and {counts!r} is the first"


def _rules_of(spec: QueueSpec, above: str) -> Iterator[tuple[str, Rules]]:
    """Of the queue and all below it, by path."""
    path = f"{above}{spec.name}"
    yield path, _rules_said(spec)
    for child in spec.children:
        yield from _rules_of(child, f"{path}.")


def _rules_shown(queue: QueueView) -> Rules:
    rules = queue.max, queue.guaranteed, queue.max_applications, queue.limits
    return *rules, queue.application_order, queue.preemption_policy, queue.preemption_delay_ns


def _rules_said(spec: QueueSpec) -> Rules:
    limits = [LimitView(one.users, one.groups, dict(one.max or {}), one.max_applications) for one in spec.limits]
    properties = spec.properties
    return (
        spec.max,
        spec.guaranteed.nonzero(),
        spec.max_applications,
        limits,
        properties.application_order.value,
        properties.preemption_policy.value,
        properties.preemption_delay_ns,
    )
