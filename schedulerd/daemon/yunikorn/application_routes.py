"""Routes of applications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition
from schedulerd.daemon.runtime.json_stream import PAUSE, Listed
from schedulerd.daemon.yunikorn import lookup
from schedulerd.daemon.yunikorn.application_projections import ApplicationObjects, shown_state
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.errors import (
    INVALID_APPLICATION_STATE,
    INVALID_QUEUE_APPLICATION_STATE,
    INVALID_STATUS,
    PeerError,
)

_ACTIVE_STATUSES = frozenset({"new", "accepted", "running", "completing", "failing", "resuming"})
_ENDED = frozenset({ApplicationState.COMPLETED, ApplicationState.FAILED})


async def applications(call: Call) -> object:
    """The applications of a partition that are active, rejected or completed."""
    partition = lookup.partition(call)
    match call.variables["state"].lower():
        case "active":
            return await _applications(call, partition, list(partition.applications.values()), _status(call))
        case "rejected":
            rejected = [one for one in partition.terminated.values() if isinstance(one, RejectedApplication)]
            call.check_size(len(rejected), "/api/v1/applications")
            objects = application_objects(call, partition)
            return Listed(map(objects.rejected, rejected))
        case "completed":
            ended = [
                one for one in partition.terminated.values() if isinstance(one, Application) and one.state in _ENDED
            ]
            return await _applications(call, partition, ended, "")
    raise PeerError(400, INVALID_APPLICATION_STATE)


async def queue_applications(call: Call) -> object:
    """The active applications in one queue; none in a parent queue."""
    lookup.queue_name(call)  # before the partition
    partition = lookup.partition(call)
    found = lookup.queue(call, partition.root)
    return await _applications(call, partition, list(found.applications.values()), "")


async def queue_applications_by_state(call: Call) -> object:
    """The active applications in one queue, by status."""
    lookup.queue_name(call)
    partition = lookup.partition(call)
    found = lookup.queue(call, partition.root)
    if call.variables["state"].lower() != "active":
        raise PeerError(400, INVALID_QUEUE_APPLICATION_STATE)
    return await _applications(call, partition, list(found.applications.values()), _status(call))


async def application(call: Call) -> object:
    """One application; in the queue that the path names, if it names one."""
    partition = lookup.partition(call)
    found = lookup.application(call, partition)
    call.check_size(len(found.asks) + len(found.allocations), "/api/v1/asks")
    return application_objects(call, partition).application(found)


def _status(call: Call) -> str:
    """The status to filter by, in lower case; '' for all."""
    status = call.query("status").lower()
    if status and status not in _ACTIVE_STATUSES:
        raise PeerError(400, INVALID_STATUS)
    return status


async def _applications(call: Call, partition: Partition, found: list[Application], status: str) -> Listed:
    items = 0
    for number, one in enumerate(found):
        if number % 256 == 0:
            await call.work.breathe()
        items += 1 + len(one.asks) + len(one.allocations)
    call.check_size(items, "/api/v1/applications")
    return Listed(each_application(found, application_objects(call, partition), status))


def each_application(found: list[Application], objects: ApplicationObjects, status: str) -> Iterator[Any]:
    """The applications with a status ('' for all), made when they are written."""
    were = {one: one.is_terminal for one in found}
    for one in found:
        is_wanted = not status or shown_state(one.state).value.lower() == status
        # an application that ended meanwhile is no longer among the active ones
        yield objects.application(one) if is_wanted and one.is_terminal is were[one] else PAUSE


def application_objects(call: Call, partition: Partition) -> ApplicationObjects:
    """What makes the objects of applications, asks and allocations of this partition."""
    rm = call.rest.cluster.resource_managers[partition.rm_id]
    now_ns = call.rest.clocks().wall_ns
    return ApplicationObjects(partition, rm.state, call.rest.resource_histories, call.epoch_ns, now_ns)
