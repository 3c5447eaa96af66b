"""Whether the quotas of a queue, and the limits of users and groups there, let an ask in now.

`items` are the amounts asked for, `key` is the quota key. What entitled reservations and open predicate checks hold
counts as used (`Queue.quota_reserved`), without the part `own` that the asker itself holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.language.resources import Items, Limits, Resources
from schedulerd.core.state.quotas.quota_key import PLAIN, QuotaKey
from schedulerd.core.state.quotas.usage import UNUSED
from schedulerd.sentences import quotas

if TYPE_CHECKING:
    from schedulerd.core.language.specs import LimitSpec
    from schedulerd.core.state.model.queue import Queue


class BlockedBy(Enum):
    """The kind of rule that blocks."""

    QUOTA = "quota"
    """`resources.max` of a queue."""
    GANG_QUOTA = "gang quota"
    """`resources.max` of a queue, for the whole gang (SEMANTICS G2)."""
    MAX_APPLICATIONS = "max applications"
    """`maxapplications` of a queue."""
    LIMIT = "limit"
    """`maxresources` of a user or group."""
    GANG_LIMIT = "gang limit"
    """`maxresources` of a user or group, for the whole gang."""
    LIMIT_MAX_APPLICATIONS = "limit max applications"
    """`maxapplications` of a user or group."""


class Blocked(NamedTuple):
    """A rule that does not let an ask in, with the numbers."""

    by: BlockedBy
    queue: Queue
    """The queue that has the rule."""
    resource: str
    """'' where applications are counted."""
    used: int
    promised: int
    """Reserved by others (QUOTA), or promised to gangs that have started (GANG_QUOTA, GANG_LIMIT); 0 for other
    rules."""
    asked: int
    max: int
    account: str = ""
    """The user or group of a limit."""
    is_group: bool = False

    def clause(self) -> str:
        """For people: the rule, and the amounts that show why it blocks."""
        return quotas.rule(self.by.value, self.queue.written, self)


def blocked(queue: Queue, items: Items, key: QuotaKey, own: Items = ()) -> Blocked | None:
    """The first rule of this queue that does not let `items` in; None if all do."""
    return blocked_by_quota(queue, items, own) or blocked_by_limits(queue, items, key)


def blocked_by_quota(queue: Queue, items: Items, own: Items = ()) -> Blocked | None:
    """Checks the quota of this queue for the amounts alone."""
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
    """Checks all other rules of this queue: quota for a whole gang, running applications, limits of users and
    groups."""
    gate = key.gang_gate
    if gate and (name := queue.max.exceeded_by(queue.allocated.plus(queue.gang_quota_promised), gate)) is not None:
        used, promised = queue.allocated[name], queue.gang_quota_promised[name]
        return Blocked(BlockedBy.GANG_QUOTA, queue, name, used, promised, dict(gate)[name], queue.max[name])
    if key.starts_application and queue.max_applications and queue.running >= queue.max_applications:
        return Blocked(BlockedBy.MAX_APPLICATIONS, queue, "", queue.running, 0, 1, queue.max_applications)
    return blocked_by_user_limits(queue, items, key) if key.limit_subject is not None else None


def blocked_by_user_limits(queue: Queue, items: Items, key: QuotaKey) -> Blocked | None:
    """Checks the limits of users and groups in this queue."""
    assert key.limit_subject is not None
    for limit, account, is_group in key.limit_subject.limits_among(queue.limits):
        found = _blocked_by_user_limit(queue, limit, account, is_group, items, key)
        if found is not None:
            return found
    return None


def _blocked_by_user_limit(
    queue: Queue, limit: LimitSpec, account: str, is_group: bool, items: Items, key: QuotaKey
) -> Blocked | None:
    ledger = (queue.usages.groups if is_group else queue.usages.users).find(account, queue.path) or UNUSED
    if limit.max is not None:
        used, promised, gate = ledger.usage, ledger.promised, key.gang_gate
        name = limit.max.exceeded_by(used, items)
        if name is not None:
            asked, most = dict(items)[name], limit.max[name]
            return Blocked(BlockedBy.LIMIT, queue, name, used[name], 0, asked, most, account, is_group)
        if gate and (name := limit.max.exceeded_by(used.plus(promised), gate)) is not None:
            amounts = used[name], promised[name], dict(gate)[name], limit.max[name]
            return Blocked(BlockedBy.GANG_LIMIT, queue, name, *amounts, account, is_group)
    running = len(ledger.applications)
    if key.starts_application and limit.max_applications and running >= limit.max_applications:
        by, most = BlockedBy.LIMIT_MAX_APPLICATIONS, limit.max_applications
        return Blocked(by, queue, "", running, 0, 1, most, account, is_group)
    return None


def all_blocked(leaf: Queue, items: Items, key: QuotaKey) -> Iterator[Blocked]:
    """Every rule on the path from the leaf to the root that does not let `items` in, nearest to the root first: each
    resource of each quota and limit. The first one is that of `highest_blocked`."""
    for queue in reversed(list(leaf.path_to_root)):
        yield from filter(None, (blocked_by_quota(queue, (item,)) for item in items))
        gates = [QuotaKey(gang_gate=(item,)) for item in key.gang_gate]
        starts = QuotaKey(starts_application=key.starts_application)
        yield from filter(None, (blocked_by_limits(queue, (), one) for one in (*gates, starts)))
        for limit, account, is_group in (
            () if key.limit_subject is None else key.limit_subject.limits_among(queue.limits)
        ):
            each = [*(((item,), PLAIN) for item in items), *(((), one) for one in (*gates, starts))]
            checks = (_blocked_by_user_limit(queue, limit, account, is_group, *one) for one in each)
            yield from filter(None, checks)


def blocked_together(wanted: Iterable[tuple[Queue, Resources, QuotaKey, str]]) -> Blocked | None:
    """The first rule that lets in each of these allocations alone, but not all of them together; None if all rules do.

    Each item of `wanted`: the leaf queue, the amounts, the quota key, the application id.
    """
    in_queue: dict[Queue, _Together] = {}
    of_account: dict[tuple[Queue, int, str, bool], _Together] = {}
    for leaf, resources, key, application_id in wanted:
        for queue in leaf.path_to_root:
            in_queue.setdefault(queue, _Together()).add(resources, key, application_id)
            limits = () if key.limit_subject is None else key.limit_subject.limits_among(queue.limits)
            for limit, account, is_group in limits:
                of_one = of_account.setdefault((queue, queue.limits.index(limit), account, is_group), _Together())
                of_one.add(resources, key, application_id)
    for queue, together in in_queue.items():
        found = _blocked_together_by_quota(queue, together)
        if found is not None:
            return found
    for (queue, index, account, is_group), together in of_account.items():
        found = _blocked_together_by_limit(queue, queue.limits[index], account, is_group, together)
        if found is not None:
            return found
    return None


def _blocked_together_by_quota(queue: Queue, together: _Together) -> Blocked | None:
    found = blocked_by_quota(queue, together.resources.canonical())
    if found is not None:
        return found
    used, promised, gates = queue.allocated, queue.gang_quota_promised, together.gates
    name = queue.max.exceeded_by(used.plus(promised), gates.canonical())
    if name is not None:
        return Blocked(BlockedBy.GANG_QUOTA, queue, name, used[name], promised[name], gates[name], queue.max[name])
    if queue.max_applications and queue.running + len(together.starting) > queue.max_applications:
        by, most = BlockedBy.MAX_APPLICATIONS, queue.max_applications
        return Blocked(by, queue, "", queue.running, 0, len(together.starting), most)
    return None


def _blocked_together_by_limit(
    queue: Queue, limit: LimitSpec, account: str, is_group: bool, together: _Together
) -> Blocked | None:
    ledger = (queue.usages.groups if is_group else queue.usages.users).find(account, queue.path) or UNUSED
    used, promised, asked, gates = ledger.usage, ledger.promised, together.resources, together.gates
    limits = limit.max if limit.max is not None else Limits()
    name = limits.exceeded_by(used, asked.canonical())
    if name is not None:
        return Blocked(BlockedBy.LIMIT, queue, name, used[name], 0, asked[name], limits[name], account, is_group)
    name = limits.exceeded_by(used.plus(promised), gates.canonical())
    if name is not None:
        amounts = used[name], promised[name], gates[name], limits[name]
        return Blocked(BlockedBy.GANG_LIMIT, queue, name, *amounts, account, is_group)
    running, starts = len(ledger.applications), len(together.starting)
    if limit.max_applications and running + starts > limit.max_applications:
        by, most = BlockedBy.LIMIT_MAX_APPLICATIONS, limit.max_applications
        return Blocked(by, queue, "", running, 0, starts, most, account, is_group)
    return None


class _Together:
    """The amounts of several allocations, and the applications and gangs that would start with them."""

    __slots__ = ("_gangs", "gates", "resources", "starting")

    def __init__(self) -> None:
        self.resources = Resources()
        self.starting: set[str] = set()
        self.gates = Resources()
        """What the gangs that would start lack, each as a whole."""
        self._gangs: set[str] = set()

    def add(self, resources: Resources, key: QuotaKey, application_id: str) -> None:
        self.resources.add(resources.items())
        if key.starts_application:
            self.starting.add(application_id)
        if key.gang_gate and application_id not in self._gangs:
            self._gangs.add(application_id)
            self.gates.add(key.gang_gate)


def highest_blocked(leaf: Queue, items: Items, key: QuotaKey, own: Items = ()) -> Blocked | None:
    """The blocking rule of the queue nearest to the root, on the path from the leaf to the root; None if none
    blocks."""
    found = None
    has_limits = key.starts_application or key.limit_subject is not None
    for queue in leaf.path_to_root:
        if queue.max or has_limits:
            found = blocked(queue, items, key, own) or found
    return found


def stays_blocked(queue: Queue, items: Items, own: Items = ()) -> bool:
    """Whether the quota of this queue still blocks when everything that is being released is gone."""
    left = queue.allocated.minus(queue.leaving).plus(_reserved_by_others(queue, own))
    return queue.max.exceeded_by(left, items) is not None


def headroom(leaf: Queue) -> Limits:
    """What the quotas from this leaf to the root still allow; the size of the cluster is not a quota (SEMANTICS G2)."""
    left = Limits()
    for queue in leaf.path_to_root:
        left = left.tightest(queue.max.left(queue.allocated.plus(queue.quota_reserved)))
    return left


def _reserved_by_others(queue: Queue, own: Items) -> Resources:
    others = Resources(queue.quota_reserved)
    others.subtract(own)
    return others
