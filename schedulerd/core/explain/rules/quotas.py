"""A blocking quota or limit with everything about it: whose usage it is, and what would lift it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import islice

from schedulerd.core.explain.causes import RuleCause, Use
from schedulerd.core.explain.values import QuotaLevel
from schedulerd.core.language.resources import Items
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.quotas.quota_key import QuotaKey
from schedulerd.core.state.quotas.rules import Blocked, BlockedBy, all_blocked

RULES_MAX = 10
"""Rules that block one ask that are listed."""
USES_NAMED_MAX = 5
"""Users of a quota that are named."""
USES_SEEN_MAX = 1_000
"""Users of a quota among which the largest are looked for."""


def rule_cause(partition: Partition, found: Blocked) -> RuleCause:
    """What is known about the blocking rule."""
    queue, name = found.queue, found.resource
    if found.account:
        ledger = (partition.usages.groups if found.is_group else partition.usages.users).find(found.account, queue.path)
        ids = ledger.applications if ledger is not None else {}
        running = (partition.applications[one] for one in ids if one in partition.applications)
        uses, left_out = _largest(_of_applications(running, name), len(ids))
    else:
        uses, left_out = uses_of_queue(queue, name)
    return RuleCause(
        kind="rule",
        rule=found.by.value,
        queue=queue.written,
        resource=name,
        used=found.used,
        promised=found.promised,
        asked=found.asked,
        max=found.max,
        account=found.account,
        is_group=found.is_group,
        missing=found.used + found.promised + found.asked - found.max,
        leaving=queue.leaving[name] if found.by in (BlockedBy.QUOTA, BlockedBy.GANG_QUOTA) else 0,
        fits_alone=found.asked <= found.max,
        uses=uses,
        uses_left_out=left_out,
    )


def further_causes(
    partition: Partition, leaf: Queue, items: Items, key: QuotaKey, first: Blocked | None
) -> list[RuleCause]:
    """The rules that block beside the first one. All of them have to let the ask in before it can be placed."""
    if first is None:
        return []
    others = (one for one in all_blocked(leaf, items, key) if _rule(one) != _rule(first))
    return [rule_cause(partition, one) for one in islice(others, RULES_MAX)]


def _rule(found: Blocked) -> tuple[object, ...]:
    return found.by, found.queue, found.resource, found.account, found.is_group


def uses_of_queue(queue: Queue, name: str) -> tuple[list[Use], int]:
    """Who uses most of a resource of the queue ('': running applications), and how many more use some of it.

    A leaf is used by applications, another queue by its child queues.
    """
    if queue.is_leaf:
        return _largest(_of_applications(queue.applications.values(), name), len(queue.applications))
    children = ((child.written, child.allocated[name] if name else child.running) for child in queue.children.values())
    return _largest((Use(path, "", amount) for path, amount in children if amount), len(queue.children))


def quota_levels(leaf: Queue, items: Items) -> list[QuotaLevel]:
    """Quota and guarantee of each queue from the leaf to the root, for each resource asked for."""
    return [
        QuotaLevel(
            queue=queue.written,
            resource=name,
            guaranteed=queue.guaranteed.get(name),
            used=queue.allocated[name],
            reserved=queue.quota_reserved[name],
            asked=amount,
            max=queue.max.get(name),
        )
        for queue in leaf.path_to_root
        for name, amount in items
        if name in queue.max or name in queue.guaranteed
    ]


def _largest(uses: Iterator[Use], count_max: int) -> tuple[list[Use], int]:
    """The largest uses, and how many more there are: with more than `USES_SEEN_MAX`, `count_max` is taken for all."""
    seen = list(islice(uses, USES_SEEN_MAX + 1))
    named = nlargest(USES_NAMED_MAX, seen[:USES_SEEN_MAX], key=lambda use: use.amount)
    return named, (count_max if len(seen) > USES_SEEN_MAX else len(seen)) - len(named)


def _of_applications(applications: Iterable[Application], name: str) -> Iterator[Use]:
    for one in applications:
        amount = one.allocated[name] + one.placeholder_allocated[name] if name else int(bool(one.usage_ledgers))
        if amount:
            yield Use("", one.application_id, amount)
