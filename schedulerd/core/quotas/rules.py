"""Whether the quotas of a queue, and the limits of users and groups there, let something more in at present.

`items` are the amounts that are asked for, `key` whose they are. Amounts for which others have an entitled reservation,
or a predicate check under way, count as used (`Queue.quota_reserved`); `own` is the part of it that the asker has
itself.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.quotas.quota_key import QuotaKey
from schedulerd.core.resources import Items, Limits, Resources

if TYPE_CHECKING:
    from schedulerd.core.model.queue import Queue


class BlockedBy(Enum):
    """Which rule blocks."""

    QUOTA = "quota"
    """`resources.max` of a queue."""
    GANG_QUOTA = "gang quota"
    """`resources.max` of a queue, for the whole of a gang (SEMANTICS G2)."""
    MAX_APPLICATIONS = "max applications"
    """`maxapplications` of a queue."""
    LIMIT = "limit"
    """`maxresources` of a user or group."""
    LIMIT_MAX_APPLICATIONS = "limit max applications"
    """`maxapplications` of a user or group."""


class Blocked(NamedTuple):
    """A rule that does not let something in, with the numbers."""

    by: BlockedBy
    queue: Queue
    """The queue whose rule it is."""
    resource: str
    """'' where applications are counted."""
    used: int
    promised: int
    """Reserved for others (QUOTA), or promised to gangs that have started (GANG_QUOTA); 0 for other rules."""
    asked: int
    max: int
    account: str = ""
    """The user or group of a limit."""
    is_group: bool = False


def blocked(queue: Queue, items: Items, key: QuotaKey, own: Items = ()) -> Blocked | None:
    """The first rule of this queue that does not let so much more in; None if all do."""
    return blocked_by_quota(queue, items, own) or blocked_by_limits(queue, items, key)


def blocked_by_quota(queue: Queue, items: Items, own: Items = ()) -> Blocked | None:
    """The quota of this queue for the amounts alone."""
    if not queue.max:
        return None
    if not queue.quota_reserved:
        name = queue.max.exceeded_by(queue.allocated, items)
    else:
        name = queue.max.exceeded_by(queue.allocated.plus(_reserved_by_others(queue, own)), items)
    if name is None:
        return None
    reserved = _reserved_by_others(queue, own)[name]
    return Blocked(BlockedBy.QUOTA, queue, name, queue.allocated[name], reserved, dict(items)[name], queue.max[name])


def blocked_by_limits(queue: Queue, items: Items, key: QuotaKey) -> Blocked | None:
    """All other rules of this queue: its quota for a whole gang, its running applications, users and groups."""
    gate = key.gang_gate
    if gate and (name := queue.max.exceeded_by(queue.allocated.plus(queue.gang_quota_promised), gate)) is not None:
        used, promised = queue.allocated[name], queue.gang_quota_promised[name]
        return Blocked(BlockedBy.GANG_QUOTA, queue, name, used, promised, dict(gate)[name], queue.max[name])
    if key.starts_application and queue.max_applications and queue.running >= queue.max_applications:
        return Blocked(BlockedBy.MAX_APPLICATIONS, queue, "", queue.running, 0, 1, queue.max_applications)
    return blocked_by_user_limits(queue, items, key) if key.limit_subject is not None else None


def blocked_by_user_limits(queue: Queue, items: Items, key: QuotaKey) -> Blocked | None:
    """The limits of users and groups in this queue."""
    assert key.limit_subject is not None
    usages = queue.usages
    for limit, account, is_group in key.limit_subject.limits_at(queue):
        ledger = (usages.groups if is_group else usages.users).find(account, queue.path)
        if limit.max is not None:
            used = ledger.usage if ledger is not None else Resources()
            name = limit.max.exceeded_by(used, items)
            if name is not None:
                asked, most = dict(items)[name], limit.max[name]
                return Blocked(BlockedBy.LIMIT, queue, name, used[name], 0, asked, most, account, is_group)
        running = len(ledger.applications) if ledger is not None else 0
        if key.starts_application and limit.max_applications and running >= limit.max_applications:
            by, most = BlockedBy.LIMIT_MAX_APPLICATIONS, limit.max_applications
            return Blocked(by, queue, "", running, 0, 1, most, account, is_group)
    return None


def highest_blocked(leaf: Queue, items: Items, key: QuotaKey, own: Items = ()) -> Blocked | None:
    """The rule that blocks in the queue nearest to the root, of all from the leaf to the root; None if none does."""
    found = None
    has_limits = key.starts_application or key.limit_subject is not None
    for queue in leaf.path_to_root:
        if queue.max or has_limits:
            found = blocked(queue, items, key, own) or found
    return found


def stays_blocked(queue: Queue, items: Items, own: Items = ()) -> bool:
    """Whether the quota of this queue blocks even when all that was asked to go has gone."""
    left = queue.allocated.minus(queue.leaving).plus(_reserved_by_others(queue, own))
    return queue.max.exceeded_by(left, items) is not None


def headroom(leaf: Queue) -> Limits:
    """What the quotas from here to the root still allow; cluster size is not a quota (SEMANTICS G2)."""
    left = Limits()
    for queue in leaf.path_to_root:
        left = left.tightest(queue.max.left(queue.allocated.plus(queue.quota_reserved)))
    return left


def _reserved_by_others(queue: Queue, own: Items) -> Resources:
    others = Resources(queue.quota_reserved)
    others.subtract(own)
    return others
