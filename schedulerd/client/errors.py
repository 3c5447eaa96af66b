"""What can go wrong between a resource manager and the scheduler: an exception for each thing to do about it."""

from __future__ import annotations

from grpc import aio


class SchedulerError(Exception):
    """The scheduler cannot be used as it is; the message is a sentence for the person who started the client."""


class SchedulerUnreachable(SchedulerError):
    """No scheduler answers at the target, or it no longer does."""


class RegistrationRejected(SchedulerError):
    """The scheduler answered, and does not want this resource manager."""


class ResyncRequired(SchedulerError):
    """The scheduler no longer knows the state of this resource manager: it has to register and report again."""


class Superseded(SchedulerError):
    """Another client has registered with the same rmID. Registering again would only disconnect it in turn."""


class StreamRefused(SchedulerError):
    """The scheduler ended a stream because of how it was used."""


class SendQueueFull(SchedulerError):
    """Too many items wait to be sent; a client that sends a lot has to `await client.drain()` now and then."""


class NodeRejected(SchedulerError):
    """A node was not taken."""

    def __init__(self, node_id: str, reason: str) -> None:
        super().__init__(f"node {node_id!r} is rejected: {reason}")
        self.node_id = node_id
        self.reason = reason


class ApplicationRejected(SchedulerError):
    """An application was not taken."""

    def __init__(self, application_id: str, reason: str) -> None:
        super().__init__(f"application {application_id!r} is rejected: {reason}")
        self.application_id = application_id
        self.reason = reason


def status_text(error: aio.AioRpcError) -> str:
    """`UNAVAILABLE: what the other side says`."""
    details = error.details()
    return f"{error.code().name}: {details}" if details else error.code().name
