"""What things are called where a history is taken apart: by whose they are, in which partition, and their id.

Ids are unique in a partition of a resource manager only.
"""

from __future__ import annotations

from typing import Any, NamedTuple


def printable(text: str) -> str:
    """A text for a terminal: resource managers may put anything into theirs, and a terminal obeys some of it."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


class ApplicationName(NamedTuple):
    """An application; a resource manager may use the name again when it is over."""

    rm_id: str
    partition: str
    """Name as in the queue file; '' if the resource manager named none that there is."""
    application_id: str


class PodName(NamedTuple):
    """An allocation."""

    rm_id: str
    partition: str
    uuid: str


class QueueName(NamedTuple):
    """A queue."""

    rm_id: str
    partition: str
    path: str


def application_of(fact: Any) -> ApplicationName:
    """The one that a fact about an application, or about something of it, is about."""
    return ApplicationName(fact.rm_id, fact.partition, fact.application_id)


def pod_of(fact: Any) -> PodName:
    """The one that a fact about an allocation is about."""
    return PodName(fact.rm_id, fact.partition, fact.uuid)


def queue_of(fact: Any) -> QueueName:
    """The one in which the thing is that a fact is about."""
    return QueueName(fact.rm_id, fact.partition, fact.queue)
