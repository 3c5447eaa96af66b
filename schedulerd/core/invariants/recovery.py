"""What must hold of items and existing allocations that came before the application that they refer to."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager


def backlogs(rm: ResourceManager) -> Iterator[str]:
    """Every backlog has an alarm that will ring."""
    for (name, application_id), backlog in rm.early.backlogs.items():
        if backlog.alarm is None or not backlog.alarm.live:
            yield f"the backlog of application {application_id} in partition {name} has no alarm"


def unclaimed(partition: Partition) -> Iterator[str]:
    """The unclaimed allocations are those of the nodes. One of an application that is there has a mistake, or is in its
    backlog."""
    there = {uuid: one for node in partition.nodes.values() for uuid, one in node.unclaimed.items()}
    if partition.unclaimed.by_uuid != there:
        yield f"the partition has {len(partition.unclaimed)} unclaimed allocations, its nodes have {len(there)}"
    for uuid, one in there.items():
        if one.node.unclaimed.get(uuid) is not one or one.uuid != uuid:
            yield f"unclaimed allocation {uuid} is not on its node {one.node.node_id}"
        if uuid in partition.allocations:
            yield f"unclaimed allocation {uuid} is an allocation of an application too"
        if one not in partition.unclaimed.of_key(one.application_id, one.key):
            yield f"unclaimed allocation {uuid} is not found by its key"
        if one not in partition.unclaimed.of_application(one.application_id):
            yield f"unclaimed allocation {uuid} is not found by its application"


def joined(rm: ResourceManager) -> Iterator[str]:
    """What waits for an application that is there is in its backlog."""
    for partition in rm.partitions.values():
        for application_id in {one.application_id: None for one in partition.unclaimed}:
            is_in_backlog = (partition.name, application_id) in rm.early.backlogs
            is_there = application_id in partition.applications
            if is_there and not is_in_backlog and partition.unclaimed.joining(application_id, 1):
                yield f"allocations of application {application_id} are unclaimed although it is there"


def alarms(rm: ResourceManager) -> Iterator[Alarm | None]:
    yield from [held.alarm for held in rm.early]
    yield from [backlog.alarm for backlog in rm.early.backlogs.values()]
