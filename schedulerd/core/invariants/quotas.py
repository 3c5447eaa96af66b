"""What must hold of the ledgers that quotas and limits are checked against: of queues, users and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from schedulerd.core.language.counted import differences
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.quotas.usage import Ledgers


def queues(partition: Partition) -> Iterator[str]:
    """The ledgers of a queue are the sums of its applications and of the queues below it."""
    promised, running = _promised_and_running(partition)
    for queue in partition.root.subtree():
        allocated, pending = Resources(), Resources()
        for child in queue.children.values():
            allocated.add(child.allocated.items())
            pending.add(child.pending.items())
        for app in queue.applications.values():
            allocated.add(app.allocated.items())
            allocated.add(app.placeholder_allocated.items())
            pending.add(app.pending.items())
        yield from differences(f"allocated of {queue.path}", queue.allocated, allocated)
        yield from differences(f"pending of {queue.path}", queue.pending, pending)
        yield from differences(f"promised in {queue.path}", queue.gang_quota_promised, promised[queue])
        if queue.running != running[queue]:
            yield f"{queue.path} counts {queue.running} running applications, there are {running[queue]}"


def _promised_and_running(partition: Partition) -> tuple[dict[Queue, Resources], dict[Queue, int]]:
    """What is promised to gangs in each queue and below it, and how many applications run there."""
    promised: dict[Queue, Resources] = {}
    running: dict[Queue, int] = {}
    for queue in reversed(partition.root.subtree()):  # children come before their parents
        promised[queue] = total = Resources()
        running[queue] = 0
        for app in queue.applications.values():
            running[queue] += bool(app.usage_ledgers)
            if app.gang is not None:
                total.add(app.gang.promised.items())
        for child in queue.children.values():
            running[queue] += running[child]
            total.add(promised[child].items())
    return promised, running


def users(partition: Partition) -> Iterator[str]:
    """The usage of a user and a group in a queue is the sum of their allocations there, and what is promised to them
    is the sum of what is promised to their gangs there."""
    usages, promises = _Counted({}, {}), _Counted({}, {})
    for app in partition.applications.values():
        promised = app.gang.promised if app.gang is not None else Resources()
        used = app.allocated.plus(app.placeholder_allocated)
        for queue in app.queue.path_to_root:
            usages.add(app, queue, used)
            promises.add(app, queue, promised)
    yield from _ledgers(partition, "user", partition.usages.users, usages.by_user, promises.by_user)
    yield from _ledgers(partition, "group", partition.usages.groups, usages.by_group, promises.by_group)


class _Counted(NamedTuple):
    """Sums by name of the user or group, and path of the queue."""

    by_user: dict[tuple[str, str], Resources]
    by_group: dict[tuple[str, str], Resources]

    def add(self, app: Application, queue: Queue, amounts: Resources) -> None:
        if amounts:
            self.by_user.setdefault((app.spec.user, queue.path), Resources()).add(amounts.items())
        if amounts and app.group:
            self.by_group.setdefault((app.group, queue.path), Resources()).add(amounts.items())


def _ledgers(
    partition: Partition,
    kind: str,
    ledgers: Ledgers,
    counted: dict[tuple[str, str], Resources],
    promised: dict[tuple[str, str], Resources],
) -> Iterator[str]:
    for name, by_path in ledgers.items():
        for path, ledger in by_path.items():
            what = f"usage of {kind} {name} in {path}"
            yield from differences(what, ledger.usage, counted.pop((name, path), Resources()))
            what = f"promised to {kind} {name} in {path}"
            yield from differences(what, ledger.promised, promised.pop((name, path), Resources()))
            for application_id in ledger.applications:
                if application_id not in partition.applications:
                    yield f"{kind} {name} runs application {application_id} in {path}, which does not exist"
    for (name, path), usage in counted.items():
        if not usage.is_zero():
            yield f"usage of {kind} {name} in {path} has no ledger, counted {usage.nonzero()}"
    for name, path in promised:
        yield f"a promise to a gang of {kind} {name} in {path} has no ledger"
