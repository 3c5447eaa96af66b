"""The life of a resource manager, a node and an application, as literal tables: a missing cell is an illegal move.

Read a table as: from this state, this trigger leads to that state. `fsm.py` runs them. States and triggers of the
application are those of SI 2023-06 (SEMANTICS A); the trigger's value is the message an RM sees with the new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ResourceManagerState(StrEnum):
    """SI 'Lifecycle of RM-Scheduler communication'; INIT is a registered RM whose streams are not open yet."""

    INIT = "init"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class NodeState(StrEnum):
    """Whether new allocations may go to a node. REMOVED nodes are forgotten; the state is only ever reported."""

    SCHEDULABLE = "schedulable"
    DRAINING = "draining"
    NOT_READY = "not_ready"
    REMOVED = "removed"


class ApplicationState(StrEnum):
    """SI `UpdatedApplication.state`, spelled as on the wire."""

    NEW = "New"
    ACCEPTED = "Accepted"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    RESUMING = "Resuming"
    EXPIRED = "Expired"


class ApplicationTrigger(StrEnum):
    """What moves an application."""

    RUN = "runApplication"
    REJECT = "rejectApplication"
    COMPLETE = "completeApplication"
    FAIL = "failApplication"
    RESUME = "resumeApplication"
    EXPIRE = "expireApplication"


_S = ApplicationState
_T = ApplicationTrigger

APPLICATION: Mapping[ApplicationState, Mapping[ApplicationTrigger, ApplicationState]] = {
    _S.NEW: {_T.RUN: _S.ACCEPTED, _T.REJECT: _S.REJECTED, _T.FAIL: _S.FAILING, _T.RESUME: _S.RESUMING},
    _S.ACCEPTED: {
        _T.RUN: _S.STARTING,
        _T.COMPLETE: _S.COMPLETING,
        _T.FAIL: _S.FAILING,
        _T.RESUME: _S.RESUMING,
    },
    _S.STARTING: {_T.RUN: _S.RUNNING, _T.COMPLETE: _S.COMPLETING, _T.FAIL: _S.FAILING},
    _S.RUNNING: {_T.RUN: _S.RUNNING, _T.COMPLETE: _S.COMPLETING, _T.FAIL: _S.FAILING},
    _S.COMPLETING: {_T.RUN: _S.RUNNING, _T.COMPLETE: _S.COMPLETED},
    _S.COMPLETED: {_T.EXPIRE: _S.EXPIRED},
    _S.FAILING: {_T.FAIL: _S.FAILED},
    _S.FAILED: {_T.EXPIRE: _S.EXPIRED},
    _S.REJECTED: {_T.EXPIRE: _S.EXPIRED},
    _S.RESUMING: {_T.RUN: _S.ACCEPTED},
    _S.EXPIRED: {},
}

TERMINAL_STATES = frozenset({_S.COMPLETED, _S.FAILED, _S.REJECTED, _S.EXPIRED})
"""In these an application has left its queue and its id is free for a new one (SEMANTICS G6)."""
