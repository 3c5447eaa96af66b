"""What users and groups use, queue by queue, with the limits for them.

A user is shown whom a limit names, or who has an application with asks or allocations; a group, if a limit names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.quotas.limit_subject import EVERYBODY_ELSE, LimitSubject
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, go_object, quota
from schedulerd.daemon.yunikorn.pacing import Breathe


@dataclass(slots=True)
class Account:
    """A user or group, and where it is shown."""

    name: str
    is_group: bool
    queues: dict[Queue, None] = field(default_factory=dict)
    """With the queues above each."""
    applications: dict[str, str] = field(default_factory=dict)
    """Its applications with asks or allocations, with the group that counts for each."""

    def add(self, leaf: Queue) -> None:
        """It is shown in this queue and those above."""
        for queue in leaf.path_to_root:
            self.queues[queue] = None


async def accounts(
    partition: Partition, breathe: Breathe, *, groups: bool, only: str | None = None
) -> dict[str, Account]:
    """The users, or the groups, of a partition; with `only` at most one of them."""
    found: dict[str, Account] = {}

    def account(name: str) -> Account:
        return found.setdefault(name, Account(name, groups))

    for queue in partition.root.subtree():
        await breathe()
        for limit in queue.limits:
            for name in limit.groups if groups else limit.users:
                if only in (None, name) and (groups or name != EVERYBODY_ELSE):
                    account(name).add(queue)
    for number, app in enumerate(list(partition.applications.values())):
        if number % 128 == 0:
            await breathe()
        name = app.group if groups else app.spec.user
        if (app.groups or app.allocations or app.awaiting_placeholder) and name and only in (None, name):
            one = account(name)
            one.add(app.queue)
            one.applications[app.application_id] = app.group
    return found


def user_object(partition: Partition, user: Account) -> Fields:
    """What a user uses."""
    return go_object(
        {
            "userName": user.name,
            "groups": {app: group for app, group in sorted(user.applications.items()) if group},
            "queues": _usage(partition, user, partition.root),
        },
        frozenset({"userName", "queues"}),
    )


def group_object(partition: Partition, group: Account) -> Fields:
    """What a group uses."""
    ledger = partition.usages.groups.find(group.name, partition.root.path)
    return go_object(
        {
            "groupName": group.name,
            "applications": list(ledger.applications) if ledger is not None else [],
            "queues": _usage(partition, group, partition.root),
        },
        frozenset({"groupName", "queues"}),
    )


def _usage(partition: Partition, account: Account, queue: Queue) -> Fields:
    ledgers = partition.usages.groups if account.is_group else partition.usages.users
    ledger = ledgers.find(account.name, queue.path)
    limit = _limit(queue, account)
    children = [one for one in queue.children.values() if one in account.queues]
    return go_object(
        {
            "queuePath": queue.path,
            "resourceUsage": amounts(ledger.usage) if ledger is not None else {},
            "runningApplications": list(ledger.applications) if ledger is not None else [],
            "maxResources": quota(limit.max) if limit is not None else {},
            "maxApplications": limit.max_applications if limit is not None else 0,
            "children": Listed(_usage(partition, account, one) for one in children) if children else None,
        },
        frozenset({"queuePath"}),
    )


def _limit(queue: Queue, account: Account) -> LimitSpec | None:
    """The limit of this queue that counts for the account."""
    subject = LimitSubject("", account.name) if account.is_group else LimitSubject(account.name, "")
    return next(
        (limit for limit, _, is_group in subject.limits_among(queue.limits) if is_group is account.is_group), None
    )
