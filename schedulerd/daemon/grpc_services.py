"""The gRPC services of a running daemon."""

from __future__ import annotations

import time

import grpc

from schedulerd.config import Settings
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.admin.admin_service import ADMIN_SERVICE, AdminService
from schedulerd.daemon.admin.event_service import EventService
from schedulerd.daemon.admin.standby import Standby
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.state_service import StateService
from schedulerd.daemon.files.queue_files import Load, QueueFiles
from schedulerd.daemon.files.reloads import Reloads
from schedulerd.daemon.runtime.groups import GroupResolver, Groups
from schedulerd.daemon.scheduling import Scheduling
from schedulerd.daemon.transport.callback_service import CALLBACK_SERVICE, CallbackService
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.scheduler_service import SCHEDULER_SERVICE, SchedulerService


def grpc_handlers(
    settings: Settings,
    scheduling: Scheduling,
    access: GrpcAccess,
    queue_files: QueueFiles,
    reloads: Reloads,
    validate: Load,
    queries: StateQueries,
    standby: Standby,
) -> dict[str, list[grpc.GenericRpcHandler]]:
    """The handlers of all gRPC methods, by the name of the service."""
    owner, sessions, callbacks = scheduling.owner, scheduling.sessions, scheduling.callbacks
    identities, resource_managers = access.identities, scheduling.resource_managers
    groups = Groups(GroupResolver(time.monotonic_ns), waiting_max=settings.calls_max)
    limits = RequestLimits(settings.max_message_items, settings.resource_managers_max)
    classes, style = settings.priority_classes, settings.gang_style_2021.value
    scheduler = SchedulerService(
        owner, access, sessions, queue_files, reloads, resource_managers, groups, classes, limits, style
    )
    admin = AdminService(owner, queue_files, resource_managers, reloads.refuse, validate, identities)
    state = StateService(resource_managers, admin.check_registered, queries, callbacks.state_dump, identities)
    events = EventService(scheduling.events, identities)
    callback = CallbackService(callbacks, scheduling.metrics.callbacks, access, sessions, owner, limits)
    return {
        SCHEDULER_SERVICE: scheduler.handlers(),
        ADMIN_SERVICE: [*admin.handlers(), *state.handlers(), *events.handlers(), *standby.handlers()],
        CALLBACK_SERVICE: callback.handlers(),
    }
