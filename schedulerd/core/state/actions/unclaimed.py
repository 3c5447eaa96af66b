"""Unclaimed allocations come and go: they are reported, reported anew, released, or their node goes.

How they join their application is in `recovery.handlers.joining`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from schedulerd.core.language.commands import AllocationRelease, ExistingAllocation, TerminationType
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnd, UnclaimedEnded
from schedulerd.core.state.ledger import commit_unclaimed
from schedulerd.core.state.model.node import Node, Unclaimed
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext
from schedulerd.core.state.unknown_application import unknown_application


def known(partition: Partition, existing: ExistingAllocation, uuids: Collection[str]) -> Unclaimed | None:
    """The unclaimed allocation that an update of a node reports: the one with its UUID, else the only one of its key,
    if that is not reported beside it (`uuids`)."""
    found = partition.unclaimed.by_uuid.get(existing.uuid)
    if found is not None:
        return found
    of_key = partition.unclaimed.of_key(existing.application_id, existing.allocation_key)
    return of_key[0] if len(of_key) == 1 and of_key[0].uuid not in uuids else None


def hold(context: StepContext, partition: Partition, node: Node, existing: ExistingAllocation) -> None:
    """The allocation runs on the node, and its application is not known."""
    one = Unclaimed(replace(existing, node_id=node.node_id), node)
    commit_unclaimed.hold(partition, one)
    reason = unknown_application(partition, existing.application_id).reason
    context.emit(
        AllocationUnclaimed(
            rm_id=partition.rm_id,
            partition=partition.name,
            application_id=one.application_id,
            allocation_key=one.key,
            uuid=one.uuid,
            node_id=node.node_id,
            resources=existing.resources,
            tags=existing.tags,
            reason=reason,
        )
    )


def report_anew(
    context: StepContext, partition: Partition, one: Unclaimed, node: Node, existing: ExistingAllocation
) -> None:
    """An update of a node reports an unclaimed allocation again. Nothing happens if it says the same."""
    if replace(existing, node_id=node.node_id) != one.spec or one.node is not node:
        end(context, partition, one, UnclaimedEnd.REPORTED_ANEW, message=f"reported anew on node {node.node_id}")
        hold(context, partition, node, existing)


def named(partition: Partition, item: AllocationRelease) -> list[Unclaimed]:
    """The unclaimed allocations that a release names: one by its UUID, those of a key, or all of an application."""
    if not partition.unclaimed:
        return []
    if item.uuid:
        one = partition.unclaimed.by_uuid.get(item.uuid)
        return [one] if one is not None and item.application_id in ("", one.application_id) else []
    if item.allocation_key:
        return partition.unclaimed.of_key(item.application_id, item.allocation_key)
    return partition.unclaimed.of_application(item.application_id)


def release(
    context: StepContext,
    partition: Partition,
    allocations: Iterable[Unclaimed],
    termination: TerminationType,
    message: str,
    *,
    confirm: bool,
) -> None:
    """The RM released these allocations, or removed their application."""
    for one in allocations:
        end(context, partition, one, UnclaimedEnd.RELEASED, termination, message, confirm=confirm)


def end(
    context: StepContext,
    partition: Partition,
    one: Unclaimed,
    cause: UnclaimedEnd,
    termination: TerminationType = TerminationType.STOPPED_BY_RM,
    message: str = "",
    *,
    confirm: bool = False,
) -> None:
    """The allocation is unclaimed no longer."""
    commit_unclaimed.drop(partition, one, frees_room=cause is not UnclaimedEnd.JOINED)
    context.emit(
        UnclaimedEnded(
            rm_id=partition.rm_id,
            partition=partition.name,
            application_id=one.application_id,
            allocation_key=one.key,
            uuid=one.uuid,
            node_id=one.node.node_id,
            resources=one.spec.resources,
            cause=cause,
            termination=termination,
            confirm=confirm,
            message=message,
        )
    )
