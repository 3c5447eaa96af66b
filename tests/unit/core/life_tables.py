"""The lives of nodes and resource managers, written down once more: what the core's own tables must say."""

from __future__ import annotations

from schedulerd.core.language.lifecycles import NodeState as N
from schedulerd.core.language.lifecycles import NodeTrigger as A
from schedulerd.core.language.lifecycles import ResourceManagerState as R
from schedulerd.core.language.lifecycles import ResourceManagerTrigger as C

NODE_TABLE: dict[tuple[N, A], N] = {
    (N.REMOVED, A.CREATE): N.SCHEDULABLE,
    (N.REMOVED, A.CREATE_DRAIN): N.DRAINING,
    (N.SCHEDULABLE, A.READY): N.SCHEDULABLE,
    (N.SCHEDULABLE, A.NOT_READY): N.NOT_READY,
    (N.SCHEDULABLE, A.DRAIN): N.DRAINING,
    (N.SCHEDULABLE, A.DECOMMISSION): N.REMOVED,
    (N.NOT_READY, A.READY): N.SCHEDULABLE,
    (N.NOT_READY, A.NOT_READY): N.NOT_READY,
    (N.NOT_READY, A.DRAIN): N.DRAINING,
    (N.NOT_READY, A.DECOMMISSION): N.REMOVED,
    (N.DRAINING, A.READY): N.DRAINING,
    (N.DRAINING, A.NOT_READY): N.DRAINING,
    (N.DRAINING, A.DRAIN): N.DRAINING,
    (N.DRAINING, A.SCHEDULE): N.SCHEDULABLE,
    (N.DRAINING, A.DECOMMISSION): N.REMOVED,
}

RESOURCE_MANAGER_TABLE: dict[tuple[R, C], R] = {
    (R.STOPPED, C.REGISTER): R.INIT,
    (R.INIT, C.REGISTER): R.INIT,
    (R.INIT, C.CONNECT): R.RUNNING,
    (R.INIT, C.STOP): R.STOPPED,
    (R.RUNNING, C.REGISTER): R.INIT,
    (R.RUNNING, C.CONNECT): R.RUNNING,
    (R.RUNNING, C.DISCONNECT): R.PAUSED,
    (R.RUNNING, C.STOP): R.STOPPED,
    (R.PAUSED, C.REGISTER): R.INIT,
    (R.PAUSED, C.CONNECT): R.RUNNING,
    (R.PAUSED, C.STOP): R.STOPPED,
}
"""Every legal cell; all others are illegal."""
