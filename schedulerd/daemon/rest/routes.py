"""The table of all routes, and the handler of each.

A handler returns a value, which is written as JSON, or a response. It raises `PeerError` for what the peer refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from starlette.requests import ClientDisconnect

from schedulerd.config import QueueFileInvalid
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.application import Application
from schedulerd.core.model.rejected_application import RejectedApplication
from schedulerd.core.partition import Partition
from schedulerd.core.step_context import ResourceManager
from schedulerd.daemon.rest import events, lookup
from schedulerd.daemon.rest.answers import accepts_gzip, busy, small
from schedulerd.daemon.rest.application_objects import ApplicationObjects, shown_state
from schedulerd.daemon.rest.call import Call
from schedulerd.daemon.rest.configuration_objects import configuration_json, configuration_yaml
from schedulerd.daemon.rest.dumps import stacks
from schedulerd.daemon.rest.errors import (
    GROUP_NOT_FOUND,
    INVALID_APPLICATION_STATE,
    INVALID_QUEUE_APPLICATION_STATE,
    INVALID_STATUS,
    USER_NOT_FOUND,
    PeerError,
)
from schedulerd.daemon.rest.go_json import PAUSE, Fields, Listed
from schedulerd.daemon.rest.health import check_health
from schedulerd.daemon.rest.node_objects import node_object
from schedulerd.daemon.rest.partition_objects import partition_object
from schedulerd.daemon.rest.queue_objects import QueueObjects
from schedulerd.daemon.rest.rules import rules
from schedulerd.daemon.rest.usage import Account, accounts, group_object, user_object
from schedulerd.daemon.rest.utilization import dominant, utilizations
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.settings.document import TEXT_BYTES_MAX

CLUSTER_NAME = "kubernetes"
"""A constant of the peer."""

YAML_TYPE = "application/x-yaml; charset=UTF-8"

BODY_SECONDS_MAX = 10.0
"""How long a client may take to send a queue file."""

BODIES_MAX = 4
"""Queue files that are received at a time."""

VIEW, OPERATE, METRICS = "http_rest", "http_rest_operate", ""
"""The settings that guard a route; '' for one that everybody may read."""

_ACTIVE_STATUSES = frozenset({"new", "accepted", "running", "completing", "failing", "resuming"})
_ENDED = frozenset({ApplicationState.COMPLETED, ApplicationState.FAILED})

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


class PeerRoute(NamedTuple):
    """One route."""

    method: str
    path: str
    handler: Handler
    guard: str = VIEW
    """The setting that says which clients get an answer."""


# clusters and partitions --------------------------------------------------------------------------------------------


async def clusters(call: Call) -> object:
    """One object for each partition of each resource manager."""
    return Listed(
        {
            "startTime": call.rest.started_at_ns,
            "rmBuildInformation": [dict(sorted({**rm.build_info, "rmId": rm.rm_id}.items()))],
            "partition": partition.name,
            "clusterName": CLUSTER_NAME,
        }
        for rm, partition in _partitions(call)
    )


async def partitions(call: Call) -> object:
    """The partitions of all resource managers."""
    return Listed([await partition_object(call, rm, one) for rm, one in _partitions(call)])


def _partitions(call: Call) -> list[tuple[ResourceManager, Partition]]:
    return [(rm, one) for rm in call.resource_managers() for one in rm.partitions.values()]


async def placement_rules(call: Call) -> object:
    """The placement rules of a partition in their order."""
    return rules(lookup.partition(call))


# queues -------------------------------------------------------------------------------------------------------------


async def queues(call: Call) -> object:
    """The queue tree of a partition."""
    partition = lookup.partition(call)
    _check_queues(call, sum(1 for _ in partition.root.walk()))
    objects = await QueueObjects.of(call, lookup.resource_manager(call), partition)
    return objects.tree(partition.root)


async def queue(call: Call) -> object:
    """One queue; with the key `subtree`, whatever its value, with all queues below it."""
    partition = lookup.partition(call)
    found = lookup.queue(call, partition.root)
    with_children = "subtree" in call.request.query_params
    _check_queues(call, sum(1 for _ in found.walk()) if with_children else len(found.children))
    objects = await QueueObjects.of(call, lookup.resource_manager(call), partition)
    return objects.queue(found, with_children=with_children)


def _check_queues(call: Call, count: int) -> None:
    call.check_size(count, "/api/v1/queues")


# applications -------------------------------------------------------------------------------------------------------


async def applications(call: Call) -> object:
    """The applications of a partition that are active, rejected or completed."""
    partition = lookup.partition(call)
    match call.variables["state"].lower():
        case "active":
            return await _applications(call, partition, list(partition.applications.values()), _status(call))
        case "rejected":
            rejected = [one for one in partition.terminated.values() if isinstance(one, RejectedApplication)]
            call.check_size(len(rejected), "/api/v1/applications")
            objects = _application_objects(call, partition)
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
    return _application_objects(call, partition).application(found)


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
    return Listed(_each_application(found, _application_objects(call, partition), status))


def _each_application(found: list[Application], objects: ApplicationObjects, status: str) -> Iterator[Any]:
    were = {one: one.is_terminal for one in found}
    for one in found:
        is_wanted = not status or shown_state(one.state).value.lower() == status
        # an application that ended meanwhile is no longer among the active ones
        yield objects.application(one) if is_wanted and one.is_terminal is were[one] else PAUSE


def _application_objects(call: Call, partition: Partition) -> ApplicationObjects:
    rm = call.rest.cluster.resource_managers[partition.rm_id]
    now_ns = call.rest.clocks().wall_ns
    return ApplicationObjects(partition, rm.state, call.rest.resource_histories, call.epoch_ns, now_ns)


# nodes --------------------------------------------------------------------------------------------------------------


async def nodes(call: Call) -> object:
    """All nodes of a partition, with their allocations."""
    partition = lookup.partition(call)
    call.check_size(len(partition.nodes) + len(partition.allocations), "/api/v1/nodes")
    return Listed(_each_node(partition, _application_objects(call, partition)))


def _each_node(partition: Partition, objects: ApplicationObjects) -> Iterator[Any]:
    for one in list(partition.nodes.values()):
        yield node_object(one, partition, objects) if partition.nodes.get(one.node_id) is one else PAUSE


async def node(call: Call) -> object:
    """One node."""
    partition = lookup.partition(call)
    found = lookup.node(call, partition)
    call.check_size(len(found.allocations), "/api/v1/nodes")
    return node_object(found, partition, _application_objects(call, partition))


async def node_utilizations(call: Call) -> object:
    """How full the nodes are, by partition and resource."""
    found = []
    for rm, partition in _partitions(call):
        one: Fields = {"clusterId": rm.rm_id, "partition": partition.name}
        if partition.nodes:
            one["utilizations"] = Listed(utilizations(partition))
        found.append(one)
    return Listed(found)


async def node_utilization(call: Call) -> object:
    """The resource that is used most, in the default partition; of version 1.4 of the peer."""
    if not call.rest.cluster.resource_managers:
        return {}
    partition = lookup.resource_manager(call).partitions.get("default")
    name = dominant(partition) if partition is not None else ""
    if partition is None or not name:
        return {}
    for one in utilizations(partition):
        await call.work.breathe()
        if one is not PAUSE and one["type"] == name:
            return one
    return {}


# users and groups ---------------------------------------------------------------------------------------------------


async def users(call: Call) -> object:
    """What every user uses."""
    return await _all_usage(call, user_object, groups=False)


async def groups(call: Call) -> object:
    """What every group uses that a limit names."""
    return await _all_usage(call, group_object, groups=True)


async def user(call: Call) -> object:
    """What one user uses."""
    return await _one_usage(call, lookup.user_name(call), user_object, USER_NOT_FOUND, groups=False)


async def group(call: Call) -> object:
    """What one group uses."""
    return await _one_usage(call, lookup.group_name(call), group_object, GROUP_NOT_FOUND, groups=True)


UsageObject: TypeAlias = Callable[[Partition, Account], Fields]


def _usage_partition(call: Call) -> Partition | None:
    """The partition of a usage route. The peer looks at none: there one that it does not know has the same users."""
    if not call.rest.cluster.resource_managers:
        return None
    known = lookup.resource_manager(call).partitions
    return known.get(call.variables["partition"]) or known.get("default") or next(iter(known.values()), None)


async def _all_usage(call: Call, shown: UsageObject, *, groups: bool) -> object:
    partition = _usage_partition(call)
    if partition is None:
        return []
    found = await accounts(partition, call.work.breathe, groups=groups)
    call.check_size(sum(len(one.queues) for one in found.values()), "/api/v1/users")
    return Listed(shown(partition, one) for one in found.values())


async def _one_usage(call: Call, name: str, shown: UsageObject, missing: str, *, groups: bool) -> object:
    partition = _usage_partition(call)
    found = await accounts(partition, call.work.breathe, groups=groups, only=name) if partition is not None else {}
    if partition is None or name not in found:
        raise PeerError(404, missing)
    return shown(partition, found[name])


# configuration ------------------------------------------------------------------------------------------------------


async def configuration(call: Call) -> object:
    """The queue file of a resource manager; JSON only for exactly this `Accept`."""
    managers = call.rest.cluster.resource_managers
    rm = lookup.resource_manager(call) if managers else None
    shown = await call.rest.configurations.of(rm) if rm is not None else None
    if call.request.headers.get("accept") == "application/json":
        return configuration_json(rm, shown)
    text = configuration_yaml(rm, shown)
    return small(text.encode(), YAML_TYPE, zipped=accepts_gzip(call.request))


async def validate(call: Call) -> object:
    """Whether a queue file could be loaded. The answer is 200 in any case."""
    try:
        with call.bodies.held(None):
            text = (await _body(call)).decode("utf-8")
        await call.rest.validate(text, "config")
    except UnicodeDecodeError as error:
        return {"allowed": False, "reason": f"not valid UTF-8 at byte {error.start}"}
    except QueueFileInvalid as error:
        return {"allowed": False, "reason": str(error)}
    except Busy as error:
        raise busy(str(error)) from error
    return {"allowed": True}


async def _body(call: Call) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in call.request.stream():
                size += len(chunk)
                if size > TEXT_BYTES_MAX:
                    raise PeerError(413, f"the body has more than {TEXT_BYTES_MAX} bytes")
                parts.append(chunk)
    except TimeoutError as error:
        raise PeerError(408, f"the body did not come within {BODY_SECONDS_MAX:g} s") from error
    except ClientDisconnect as error:
        raise PeerError(400, "the connection was closed before the body had come") from error
    return b"".join(parts)


# history, events, health, dumps -------------------------------------------------------------------------------------


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
    found = await check_health([one for _, one in _partitions(call)], call.rest.failures, call.work.breathe)
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
    found = _partitions(call)
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
            {"partitionName": one.name, "nodesInfo": Listed(_each_node(one, _application_objects(call, one)))}
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
        objects = _application_objects(call, partition)
        yield from _each_application(list(partition.applications.values()), objects, "")
        for one in list(partition.terminated.values()):
            yield objects.rejected(one) if isinstance(one, RejectedApplication) else objects.application(one)


# the table ----------------------------------------------------------------------------------------------------------

_P = "/ws/v1/partition/{partition}"

ROUTES: tuple[PeerRoute, ...] = (
    PeerRoute("GET", "/ws/v1/clusters", clusters),
    PeerRoute("GET", "/ws/v1/partitions", partitions),
    PeerRoute("GET", f"{_P}/placementrules", placement_rules),
    PeerRoute("GET", f"{_P}/queues", queues),
    PeerRoute("GET", f"{_P}/queue/{{queue}}", queue),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/applications", queue_applications),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/applications/{{state}}", queue_applications_by_state),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/application/{{application}}", application),
    PeerRoute("GET", f"{_P}/application/{{application}}", application),
    PeerRoute("GET", f"{_P}/applications/{{state}}", applications),
    PeerRoute("GET", f"{_P}/nodes", nodes),
    PeerRoute("GET", f"{_P}/node/{{node}}", node),
    PeerRoute("GET", f"{_P}/usage/users", users),
    PeerRoute("GET", f"{_P}/usage/user/{{user}}", user),
    PeerRoute("GET", f"{_P}/usage/groups", groups),
    PeerRoute("GET", f"{_P}/usage/group/{{group}}", group),
    PeerRoute("GET", "/ws/v1/config", configuration),
    PeerRoute("POST", "/ws/v1/validate-conf", validate),
    PeerRoute("GET", "/ws/v1/history/apps", history_applications),
    PeerRoute("GET", "/ws/v1/history/containers", history_containers),
    PeerRoute("GET", "/ws/v1/events/batch", events_batch),
    PeerRoute("GET", "/ws/v1/events/stream", events_stream),
    PeerRoute("GET", "/ws/v1/scheduler/healthcheck", health),
    PeerRoute("GET", "/ws/v1/scheduler/node-utilizations", node_utilizations),
    PeerRoute("GET", "/ws/v1/scheduler/node-utilization", node_utilization),
    PeerRoute("GET", "/ws/v1/metrics", metrics, METRICS),
    PeerRoute("GET", "/ws/v1/stack", stack, OPERATE),
    PeerRoute("GET", "/debug/stack", stack, OPERATE),
    PeerRoute("GET", "/ws/v1/fullstatedump", full_state_dump, OPERATE),
    PeerRoute("GET", "/debug/fullstatedump", full_state_dump, OPERATE),
)
