"""The table of all routes.

A handler returns a value, which is written as JSON, or a response. It raises `PeerError` for what the peer refuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from schedulerd.daemon.yunikorn import (
    application_routes,
    configuration_routes,
    node_routes,
    partition_routes,
    scheduler_routes,
    usage_routes,
)
from schedulerd.daemon.yunikorn.call import Call

VIEW, OPERATE, EVERYBODY = "http_rest", "http_rest_operate", ""
"""The settings that guard a route; '' for one that every client can read."""

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


class PeerRoute(NamedTuple):
    """One route."""

    method: str
    path: str
    handler: Handler
    guard: str = VIEW
    """The setting that says which clients get an answer."""


_P = "/ws/v1/partition/{partition}"

ROUTES: tuple[PeerRoute, ...] = (
    PeerRoute("GET", "/ws/v1/clusters", partition_routes.clusters),
    PeerRoute("GET", "/ws/v1/partitions", partition_routes.partitions),
    PeerRoute("GET", f"{_P}/placementrules", partition_routes.placement_rules),
    PeerRoute("GET", f"{_P}/queues", partition_routes.queues),
    PeerRoute("GET", f"{_P}/queue/{{queue}}", partition_routes.queue),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/applications", application_routes.queue_applications),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/applications/{{state}}", application_routes.queue_applications_by_state),
    PeerRoute("GET", f"{_P}/queue/{{queue}}/application/{{application}}", application_routes.application),
    PeerRoute("GET", f"{_P}/application/{{application}}", application_routes.application),
    PeerRoute("GET", f"{_P}/applications/{{state}}", application_routes.applications),
    PeerRoute("GET", f"{_P}/nodes", node_routes.nodes),
    PeerRoute("GET", f"{_P}/node/{{node}}", node_routes.node),
    PeerRoute("GET", f"{_P}/usage/users", usage_routes.users),
    PeerRoute("GET", f"{_P}/usage/user/{{user}}", usage_routes.user),
    PeerRoute("GET", f"{_P}/usage/groups", usage_routes.groups),
    PeerRoute("GET", f"{_P}/usage/group/{{group}}", usage_routes.group),
    PeerRoute("GET", "/ws/v1/config", configuration_routes.configuration),
    PeerRoute("POST", "/ws/v1/validate-conf", configuration_routes.validate),
    PeerRoute("GET", "/ws/v1/history/apps", scheduler_routes.history_applications),
    PeerRoute("GET", "/ws/v1/history/containers", scheduler_routes.history_containers),
    PeerRoute("GET", "/ws/v1/events/batch", scheduler_routes.events_batch),
    PeerRoute("GET", "/ws/v1/events/stream", scheduler_routes.events_stream),
    PeerRoute("GET", "/ws/v1/scheduler/healthcheck", scheduler_routes.health),
    PeerRoute("GET", "/ws/v1/scheduler/node-utilizations", node_routes.node_utilizations),
    PeerRoute("GET", "/ws/v1/scheduler/node-utilization", node_routes.node_utilization),
    PeerRoute("GET", "/ws/v1/metrics", scheduler_routes.metrics, EVERYBODY),
    PeerRoute("GET", "/ws/v1/stack", scheduler_routes.stack, OPERATE),
    PeerRoute("GET", "/debug/stack", scheduler_routes.stack, OPERATE),
    PeerRoute("GET", "/ws/v1/fullstatedump", scheduler_routes.full_state_dump, OPERATE),
    PeerRoute("GET", "/debug/fullstatedump", scheduler_routes.full_state_dump, OPERATE),
)
