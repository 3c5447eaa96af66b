"""Facts as the events of a recording: what a resource manager would have been told, in the recordings' own words.

This mirrors what `schedulerd.wire` puts on the streams, without protobuf: the runner exercises the core alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from schedulerd.core.language.facts.configuration import ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationRejected,
    AskRejected,
    AskWithdrawn,
    EarlyAskReleased,
    Fact,
    NodeAccepted,
    NodeRejected,
    Released,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState

Event = dict[str, Any]
Rename = Callable[[str], str]


def event_of(fact: Fact, rename: Rename) -> Event | None:
    """The event a fact shows as, or None if the resource manager is not told. `rename` applies the aliases to a key."""
    match fact:
        case NodeAccepted():
            return {"ev": "nodeAccepted", "node": fact.node_id}
        case NodeRejected():
            return {"ev": "nodeRejected", "node": fact.node_id, "reason": fact.reason}
        case ApplicationAccepted():
            return {"ev": "appAccepted", "app": fact.application_id}
        case ApplicationRejected():
            return {"ev": "appRejected", "app": fact.application_id, "reason": fact.reason}
        case ApplicationChanged():
            return _application_changed(fact)
        case AskRejected():
            key = rename(fact.allocation_key)
            return {"ev": "askRejected", "app": fact.application_id, "key": key, "reason": fact.reason}
        case EarlyAskReleased():
            return _released("askReleased", fact, fact.termination.name, rename)
        case AskWithdrawn():
            return None if fact.termination is None else _released("askReleased", fact, fact.termination.name, rename)
        case Allocated():
            return None if fact.recovered else _allocated(fact, rename)
        case Released():
            return _released("released", fact, fact.termination.name, rename) if fact.confirm else None
        case ReleaseRequested():
            return _released("released", fact, fact.termination.name, rename)
        case ConfigurationUpdated():
            return {"ev": "configUpdate", "error": ""}
        case ConfigurationRejected():
            return {"ev": "configUpdate", "error": "; ".join(fact.reasons)}
        case _:
            return None


def in_reading_order(message: Iterable[Event]) -> list[Event]:
    """The events of one message as a recording lists them: accepted and rejected items travel in lists of their own,
    so a response says nothing about their order, and the recordings read the accepted ones first."""
    return sorted(message, key=lambda event: event["ev"] in ("appRejected", "nodeRejected"))


def _application_changed(fact: ApplicationChanged) -> Event | None:
    if fact.old_state is None or fact.state is ApplicationState.REJECTED:
        return None
    return {"ev": "appUpdated", "app": fact.application_id, "state": fact.state.value, "message": fact.cause}


def _allocated(fact: Allocated, rename: Rename) -> Event:
    return {
        "ev": "alloc",
        "app": fact.application_id,
        "key": rename(fact.allocation_key),
        "node": fact.node_id,
        "placeholder": fact.placeholder,
        "taskGroup": fact.task_group,
        "resources": dict(fact.resources),
        "priority": fact.priority,
    }


def _released(
    kind: str,
    fact: AskWithdrawn | EarlyAskReleased | Released | ReleaseRequested,
    termination: str,
    rename: Rename,
) -> Event:
    return {
        "ev": kind,
        "app": fact.application_id,
        "key": rename(fact.allocation_key),
        "terminationType": termination,
        "message": fact.message,
    }
