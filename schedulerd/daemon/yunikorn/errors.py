"""Errors in the shape of the peer's API. Its texts are part of the interface: clients compare them."""

from __future__ import annotations

from collections.abc import Mapping


class PeerError(Exception):
    """A request that cannot be answered: status, and the text in `message` and `description`."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> dict[str, object]:
        """The three keys that every error has."""
        return {"status_code": self.status, "message": self.message, "description": self.message}


PARTITION_NOT_FOUND = "Partition not found"
QUEUE_NOT_FOUND = "Queue not found"
APPLICATION_NOT_FOUND = "Application not found"
NODE_NOT_FOUND = "Node not found"
USER_NOT_FOUND = "User not found"
GROUP_NOT_FOUND = "Group not found"
INVALID_USER = "Invalid user name"
INVALID_GROUP = "Invalid group name"
INVALID_QUEUE = (
    "invalid queue name, max 64 characters consisting of alphanumeric characters and '-', '_', '#', '@', '/', ':' "
    "allowed"
)
INVALID_APPLICATION_STATE = "Only following application states are allowed: active, rejected, completed"
INVALID_QUEUE_APPLICATION_STATE = "Only following application states are allowed: active"
INVALID_STATUS = "Only following active statuses are allowed: new,accepted,running,completing,failing,resuming"
EVENTS_DISABLED = "Event tracking is disabled"
TOO_MANY_STREAMS = "Too many streaming connections"
