"""Messages of the scheduler interface that are made in more than one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from schedulerd._generated.si.v1 import si_pb2

Amounts = Mapping[str, int]
Tags = Mapping[str, str]

ID_LENGTH_MAX = 1024
"""Maximum number of characters of an id. A scheduler rejects a longer id, and shortens a much longer one in the
rejection, so the client could not tell what was rejected."""

PREDICATES_TAG = "schedulerd.io/predicates"
"""Of an ask, with the value `none`: the scheduler does not ask about it on the callback stream."""
ASKED_AT_TAG = "schedulerd.io/asked-at"
"""Of an ask: when it was made first, in nanoseconds since the epoch."""
TASK_GROUPS_TAG = "schedulerd.io/task-groups"
"""Of an application: the task groups of a gang without placeholders."""

_BLAMED = re.compile(r"""existingAllocations\[\d+\] \(allocationKey ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""")


def check_id(field: str, value: str) -> None:
    """Raises ValueError for an id that no scheduler takes."""
    if len(value) > ID_LENGTH_MAX:
        raise ValueError(f"{field} has {len(value)} characters; at most {ID_LENGTH_MAX} are allowed")


def resource(amounts: Amounts) -> si_pb2.Resource:
    """Amounts by resource name. Equal amounts share a message, to be copied into others: most asks are like others."""
    return _resource(tuple(amounts.items()))


@lru_cache(4_096)
def _resource(amounts: tuple[tuple[str, int], ...]) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts})


@lru_cache(4_096)
def ask_template(
    application_id: str,
    partition: str,
    amounts: tuple[tuple[str, int], ...],
    count: int,
    priority: int,
    execution_timeout_ms: int,
    task_group: str,
    placeholder: bool,
    originator: bool,
    allow_preempt_self: bool,
    allow_preempt_other: bool,
) -> si_pb2.AllocationAsk:
    """An ask without its key and tags, to be copied: most asks are like others, and a copy is made much faster."""
    return si_pb2.AllocationAsk(
        applicationID=application_id,
        partitionName=partition,
        resourceAsk=_resource(amounts),
        maxAllocations=count,
        priority=priority,
        executionTimeoutMilliSeconds=execution_timeout_ms,
        taskGroupName=task_group,
        placeholder=placeholder,
        Originator=originator,
        preemptionPolicy=si_pb2.PreemptionPolicy(
            allowPreemptSelf=allow_preempt_self, allowPreemptOther=allow_preempt_other
        ),
    )


def ask_tags(tags: Tags | None, *, predicates: bool, asked_at_ns: int | None) -> Tags:
    """The tags of an ask with those that say what it has no field for."""
    if predicates and asked_at_ns is None:
        return tags or {}
    said = dict(tags or {})
    if not predicates:
        said[PREDICATES_TAG] = "none"
    if asked_at_ns is not None:
        said[ASKED_AT_TAG] = str(asked_at_ns)
    return said


def application_tags(tags: Tags | None, asked_at_ns: int | None) -> Tags | None:
    """The tags of an application with the one that says its age."""
    return tags if asked_at_ns is None else {**(tags or {}), ASKED_AT_TAG: str(asked_at_ns)}


def node(
    node_id: str,
    resources: Amounts | None,
    *,
    action: si_pb2.NodeInfo.ActionFromRM.ValueType = si_pb2.NodeInfo.CREATE,
    occupied: Amounts | None = None,
    attributes: Tags | None = None,
    existing: Iterable[si_pb2.Allocation] = (),
) -> si_pb2.NodeInfo:
    """A node, or a change of one; None says nothing about the resources."""
    return si_pb2.NodeInfo(
        nodeID=node_id,
        action=action,
        attributes=attributes,
        schedulableResource=None if resources is None else resource(resources),
        occupiedResource=None if occupied is None else resource(occupied),
        existingAllocations=existing,
    )


def release(
    allocation: si_pb2.Allocation | si_pb2.AllocationRelease,
    termination: si_pb2.TerminationType.ValueType,
    message: str = "",
) -> si_pb2.AllocationRelease:
    """The release of an allocation, or the confirmation of a release."""
    return si_pb2.AllocationRelease(
        partitionName=allocation.partitionName,
        applicationID=allocation.applicationID,
        UUID=allocation.UUID,
        allocationKey=allocation.allocationKey,
        terminationType=termination,
        message=message,
    )


OVER = frozenset({"Completed", "Failed", "Rejected"})
"""States in which applications have ended, and their ids can be used again."""


def blamed_key(reason: str) -> str:
    """The key of the existing allocation because of which a node or its update was rejected; empty if none is to blame.

    The interface has no field for it, so the beginning of the reason says it. Tests hold the scheduler to that.
    """
    found = _BLAMED.match(reason)
    return str(ast.literal_eval(found[1])) if found is not None else ""
