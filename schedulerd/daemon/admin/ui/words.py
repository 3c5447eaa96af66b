"""Names of the interface as words: events, and what led to the state of an application."""

from __future__ import annotations

import re

from schedulerd.core.language.lifecycles import ApplicationState, ApplicationTrigger

_EVENTS = {
    "AppRequestAdded": ("ask added", "asks added"),
    "AppRequestRemoved": ("ask changed", "asks changed"),
    "RequestAlloc": ("ask placed", "asks placed"),
    "RequestCancel": ("ask withdrawn", "asks withdrawn"),
    "RequestTimeout": ("ask timed out", "asks timed out"),
    "AppAllocAdded": ("allocation added", "allocations added"),
    "NodeAllocAdded": ("allocation added", "allocations added"),
    "QueueAllocAdded": ("allocation added", "allocations added"),
    "NodeAllocRemoved": ("allocation removed", "allocations removed"),
    "QueueAllocRemoved": ("allocation removed", "allocations removed"),
    "AllocCancel": ("allocation released", "allocations released"),
    "AllocPreempt": ("allocation preempted", "allocations preempted"),
    "AllocTimeout": ("allocation timed out", "allocations timed out"),
    "AllocReplaced": ("placeholder replaced", "placeholders replaced"),
    "AllocNoderemoved": ("allocation lost with its node", "allocations lost with their nodes"),
    "QueueAppAdded": ("application added", "applications added"),
    "QueueAppRemoved": ("application removed", "applications removed"),
}
"""One of them, and several."""

_S, _T = ApplicationState, ApplicationTrigger
_CAUSES = {
    (_T.RUN, _S.ACCEPTED): "its first ask came",
    (_T.RUN, _S.STARTING): "it got its first allocation, or its whole gang",
    (_T.RUN, _S.RUNNING): "it has started",
    (_T.COMPLETE, _S.COMPLETING): "it has no asks and no allocations left",
    (_T.COMPLETE, _S.COMPLETED): "no ask came while it was Completing",
    (_T.FAIL, _S.FAILED): "its last allocation has ended",
    (_T.RESUME, _S.RESUMING): "its gang was given up",
    (_T.EXPIRE, _S.EXPIRED): "it ended long ago",
}
_CAUSES_AFTER = {
    (_S.RESUMING, _S.ACCEPTED): "its placeholders are gone, and its asks are placed one by one",
    (_S.COMPLETING, _S.RUNNING): "another ask came",
    (_S.COMPLETING, _S.ACCEPTED): "another ask came, and its gang is not complete yet",
}
"""Where the state before says more."""

_UUID = re.compile(r"\s*\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?\b", re.IGNORECASE)


def event_words(name: str, count: int) -> str:
    """`AppRequestAdded` as `ask added`, or `12 asks added`."""
    known = _EVENTS.get(name)
    if known is not None:
        return known[0] if count == 1 else f"{count:,} {known[1]}"
    words = "".join(f" {one.lower()}" if one.isupper() else one for one in name).strip()
    return words if count == 1 else f"{words}, {count:,} times"


def state_cause(before: ApplicationState | None, state: ApplicationState, cause: str) -> str:
    """What led to a state: the cause itself, unless it is only the name of a trigger."""
    try:
        trigger = ApplicationTrigger(cause)
    except ValueError:
        return cause
    if before is not None and (before, state) in _CAUSES_AFTER:
        return _CAUSES_AFTER[before, state]
    return _CAUSES.get((trigger, state), "")


def message_of(name: str, message: str) -> str:
    """The message of an event; that of a state with its cause in words."""
    try:
        state = ApplicationState(name.removeprefix("App"))
    except ValueError:
        return message
    return state_cause(None, state, message.removeprefix(f"{state.value}: "))


def without_uuids(text: str) -> str:
    """The text without UUIDs, which say nothing to people."""
    return _UUID.sub("", text)
