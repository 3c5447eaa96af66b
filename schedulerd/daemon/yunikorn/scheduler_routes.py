"""Routes of the scheduler itself: history, events, health, metrics and dumps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn import events
from schedulerd.daemon.yunikorn.answers import accepts_gzip, small
from schedulerd.daemon.yunikorn.application_routes import application_objects, each_application
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.configuration_projections import configuration_json
from schedulerd.daemon.yunikorn.dumps import stacks
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.health import check_health
from schedulerd.daemon.yunikorn.node_routes import each_node
from schedulerd.daemon.yunikorn.partition_routes import all_partitions, clusters, partitions
from schedulerd.daemon.yunikorn.queue_projections import QueueObjects
from schedulerd.daemon.yunikorn.rules import rules


async def history_applications(call: Call) -> object:
    """How many applications ran, minute by minute. Totals are texts."""
    samples = list(call.rest.history.samples)
    return Listed({"timestamp": one.at_ns, "totalApplications": str(one.applications)} for one in samples)


async def history_containers(call: Call) -> object:
    """How many containers there were, minute by minute."""
    samples = list(call.rest.history.samples)
    return Listed({"timestamp": one.at_ns, "totalContainers": str(one.containers)} for one in samples)


async def events_batch(call: Call) -> object:
    """Events from an id on."""
    return events.batch(call)


async def events_stream(call: Call) -> object:
    """Events as they happen."""
    return events.stream(call)


async def health(call: Call) -> object:
    """The checks of the scheduler. With `strict` a bad result is 503."""
    found = await check_health([one for _, one in all_partitions(call)], call.rest.failures, call.work.breathe)
    if not found["Healthy"] and "strict" in call.request.query_params:
        raise PeerError(503, "Scheduler is not healthy")
    return found


async def metrics(call: Call) -> object:
    """The same as `/metrics`."""
    return await call.rest.metrics(call.request)


async def stack(call: Call) -> object:
    """What the process is doing."""
    text = await stacks(call.work.breathe)
    return small(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", zipped=accepts_gzip(call.request))


async def full_state_dump(call: Call) -> object:
    """All that the other routes show, in one object."""
    found = all_partitions(call)
    items = sum(len(one.nodes) + len(one.applications) + len(one.terminated) + len(one.allocations) for _, one in found)
    call.check_size(items, "/api/v1")
    managers = call.resource_managers()
    shown = {rm.rm_id: await call.rest.configurations.of(rm) for rm in managers}
    trees = [(await QueueObjects.of(call, rm, one)).tree(one.root) for rm, one in found]
    return {
        "timestamp": call.rest.clocks().wall_ns,
        "partitions": await partitions(call),
        "applications": Listed(_every_application(call, found)),
        "appHistory": await history_applications(call),
        "nodes": Listed(
            {"partitionName": one.name, "nodesInfo": Listed(each_node(one, application_objects(call, one)))}
            for _, one in found
        ),
        "clusterInfo": await clusters(call),
        "containerHistory": await history_containers(call),
        "queues": Listed(trees),
        "rmDiagnostics": {"empty": "Ask schedulerd.v1.Admin/GetStateDump, which asks the resource manager"},
        "logLevel": call.rest.log_level(),
        "config": configuration_json(managers[0], shown[managers[0].rm_id])
        if len(managers) == 1
        else Listed(configuration_json(rm, shown[rm.rm_id]) for rm in managers),
        "placementRules": Listed({"partition": one.name, "rules": rules(one)} for _, one in found),
        "eventStreams": [],
    }


def _every_application(call: Call, found: Sequence[tuple[ResourceManager, Partition]]) -> Iterator[Any]:
    for _, partition in found:
        objects = application_objects(call, partition)
        yield from each_application(list(partition.applications.values()), objects, "")
        for one in list(partition.terminated.values()):
            yield objects.rejected(one) if isinstance(one, RejectedApplication) else objects.application(one)
