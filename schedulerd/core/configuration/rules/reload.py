"""What a new queue file would do to the running state: why it cannot be applied, or its impacts.

The functions are pure, so `ValidateConfiguration` and `schedulerd validate --against` give the same sentences that the
reload itself logs. The state is compared with the new specs, not the old file with the new one: what matters is the
queue that will be above its new quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from schedulerd.amounts import amount, amount_text
from schedulerd.core.applications.rules.queue_placement import (
    FORCE_CREATE_TAG,
    RECOVERY_QUEUE,
    Matches,
    place_application,
)
from schedulerd.core.configuration.rules.rule_words import describe_rules
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.facts.configuration import Impact, ImpactKind
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import SECOND_NS, LimitSpec, PartitionSpec, QueueSpec
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.dismantling import dismantle_tree
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.quotas.limit_subject import LimitSubject
from schedulerd.core.state.quotas.usage import UsageLedger
from schedulerd.core.state.step_context import ResourceManager

NAMES_SHOWN = 5
"""Maximum number of application names in a sentence."""
PLACED_AGAIN_MAX = 200
"""Maximum number of applications of a partition whose placement is tried with the new file, the last ones submitted."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a new queue file would do to one RM."""

    refusals: tuple[str, ...]
    """Why the file cannot be applied. If there are any, nothing changes."""
    changed: bool
    """False if the file says what is in effect already."""
    impact: tuple[Impact, ...]
    """Harmful impacts first, then in the order of partitions and queues."""


def assess(rm: ResourceManager, specs: tuple[PartitionSpec, ...], matches: Matches) -> Assessment:
    """Compares all partitions. The cost is one visit of each queue, of each user where limits change, and of some
    applications. `matches` is that of the scheduler."""
    refusals = tuple(_refusals(rm, specs))
    changed = {name: partition.spec for name, partition in rm.partitions.items()} != {one.name: one for one in specs}
    if refusals or not changed:
        return Assessment(refusals, changed, ())
    return Assessment((), changed, tuple(sorted(_impact(rm, specs, matches), key=lambda one: not one.harms)))


def _refusals(rm: ResourceManager, specs: tuple[PartitionSpec, ...]) -> Iterator[str]:
    if not specs:
        yield "the queue file has no partitions, which would end everything; a truncated file looks like that"
    for spec in specs:
        if spec.name in rm.partitions:
            yield from _queue_refusals(rm.partitions[spec.name].root, spec.root)


def _queue_refusals(queue: Queue, spec: QueueSpec) -> Iterator[str]:
    if queue.applications and not spec.is_leaf:
        yield (
            f"queue {queue.written} has {_counted(len(queue.applications), 'application')} and cannot become a parent; "
            "let them finish or remove them first"
        )
    for child in spec.children:
        if child.key in queue.children:
            yield from _queue_refusals(queue.children[child.key], child)


def _impact(rm: ResourceManager, specs: tuple[PartitionSpec, ...], matches: Matches) -> Iterator[Impact]:
    for spec in specs:
        partition = rm.partitions.get(spec.name)
        if partition is None:
            yield Impact(
                ImpactKind.PARTITION_ADDED, spec.name, "", False, f"partition {spec.name} is new and has no nodes yet"
            )
        elif partition.spec != spec:
            yield from _partition_impact(partition, spec)
            yield from _QueueComparison(partition, spec).walk(partition.root, spec.root)
            yield from _without_place(partition, spec, matches)
    named = {spec.name for spec in specs}
    yield from (_removal(partition) for name, partition in rm.partitions.items() if name not in named)


def _removal(partition: Partition) -> Impact:
    pending = sum(ask.pending for one in partition.applications.values() for ask in one.asks.values())
    ends = (
        f"that ends {_counted(len(partition.applications), 'application')} "
        f"with {_counted(len(partition.allocations), 'allocation')} and {pending} pending, "
        f"and removes {_counted(len(partition.nodes), 'node')}"
    )
    harms = bool(partition.applications or partition.allocations or partition.nodes)
    message = f"partition {partition.name} is no longer in the file: {ends if harms else 'it is empty and is removed'}"
    return Impact(ImpactKind.PARTITION_REMOVED, partition.name, "", harms, message)


def _partition_impact(partition: Partition, spec: PartitionSpec) -> Iterator[Impact]:
    old = partition.spec
    if old.rules != spec.rules:
        message = (
            f"placement rules of partition {spec.name} change from [{describe_rules(old.rules)}] to "
            f"[{describe_rules(spec.rules)}]; applications that have a queue stay there"
        )
        yield Impact(ImpactKind.RULES_CHANGED, spec.name, "", False, message)
    if (old.node_order, old.node_weights) != (spec.node_order, spec.node_weights):
        message = (
            f"nodes of partition {spec.name} are ordered by {_node_order(spec)} instead of {_node_order(old)}; "
            "what is placed stays where it is"
        )
        yield Impact(ImpactKind.NODE_ORDER_CHANGED, spec.name, "", False, message)


def _without_place(partition: Partition, spec: PartitionSpec, matches: Matches) -> Iterator[Impact]:
    """Applications that keep their queue, but that the new rules and ACLs would not let in again. Those of draining
    queues are told with the queue."""
    root = Queue.from_spec(spec.root)
    refused: dict[str, str] = {}
    for application in islice(reversed(partition.applications.values()), PLACED_AGAIN_MAX):
        queue = application.queue
        if queue.name == RECOVERY_QUEUE or _will_drain(queue, root):
            continue
        found = place_application(root, spec.rules, replace(application.spec, tags=_unforced(application)), matches)
        if isinstance(found, Mistake):
            refused[application.application_id] = found.reason
    dismantle_tree(root)
    if refused:
        message = (
            f"{_counted(len(refused), 'application')} could not be submitted again as before: {_some(refused)}; the "
            f"first because {next(iter(refused.values()))}"
        )
        yield Impact(ImpactKind.NO_PLACE, spec.name, "", True, message)


def _will_drain(queue: Queue, root: Queue) -> bool:
    """Whether a queue, or one above it, drains when the tree is as in the new file, which is below `root`."""
    for one in reversed(queue.path_to_root[:-1]):
        assert one.parent is not None
        parent = root.find(one.parent.path)
        if parent is not None and one.name not in parent.children:
            return one.managed or parent.is_leaf
    return False


def _unforced(application: Application) -> dict[str, str]:
    """Its tags, without the one by which no application is refused."""
    return {name: value for name, value in application.spec.tags.items() if name != FORCE_CREATE_TAG}


def _node_order(spec: PartitionSpec) -> str:
    weights = ", ".join(f"{name}: {weight:g}" for name, weight in sorted(spec.node_weights.items()))
    return f"{spec.node_order} {{{weights}}}"


_BEFORE_ITS_GANG = (ApplicationState.NEW, ApplicationState.ACCEPTED)


class _QueueComparison:
    """Compares the queues of one partition with its new spec."""

    def __init__(self, partition: Partition, spec: PartitionSpec) -> None:
        self._partition = partition
        self._spec = spec

    def walk(self, queue: Queue, spec: QueueSpec) -> Iterator[Impact]:
        yield from self._itself(queue, spec)
        named = set()
        for child_spec in spec.children:
            named.add(child_spec.key)
            child = queue.children.get(child_spec.key)
            if child is None:
                written, below = f"{queue.written}.{child_spec.name}", _queues_below(child_spec)
                message = f"queue {written} is new" + (f", with {_counted(below, 'queue')} below it" if below else "")
                yield self._say(ImpactKind.QUEUE_ADDED, f"{queue.path}.{child_spec.key}", message)
            else:
                yield from self.walk(child, child_spec)
        for name, child in queue.children.items():
            if name not in named and drains(child, spec) and not child.draining:
                yield self._draining(child)

    def _itself(self, queue: Queue, spec: QueueSpec) -> Iterator[Impact]:
        path = queue.path
        if queue.draining:
            yield self._say(ImpactKind.QUEUE_RETURNS, path, f"queue {path} is back: it accepts applications again")
        elif not queue.managed:
            message = f"queue {path} was created by a placement rule; the file names it now, and it stays when empty"
            yield self._say(ImpactKind.QUEUE_KEPT, path, message)
        if queue.is_leaf != spec.is_leaf:
            old, new = ("leaf", "parent") if queue.is_leaf else ("parent", "leaf")
            yield self._say(ImpactKind.QUEUE_TURNS, path, f"queue {path} turns from a {old} into a {new}")
        yield from self._over_max(queue, spec)
        yield from self._over_limits(queue, spec)
        yield from self._gangs_too_large(queue, spec)

    def _over_max(self, queue: Queue, spec: QueueSpec) -> Iterator[Impact]:
        for name, most in sorted(spec.max.items()):
            used = queue.allocated[name]
            if used > most and queue.max.get(name) != most:
                before = queue.max.get(name)
                message = (
                    f"queue {queue.written} will be above its max: {name} {amount_text(name, used)} used, max "
                    f"{'unlimited' if before is None else amount_text(name, before)} becomes {amount_text(name, most)}"
                    f"; nothing is allocated in it until {amount_text(name, used - most)} are free"
                    f"{self._what_ends(spec)}"
                )
                yield self._say(ImpactKind.OVER_MAX, queue.path, message, harms=True)
        running, most = queue.running, spec.max_applications
        if most and running > most and queue.max_applications != most:
            message = (
                f"queue {queue.written} runs {running} applications, maxapplications "
                f"{_shown(queue.max_applications or None)} becomes {most}; no further one starts until "
                f"{running - most + 1} have ended"
            )
            yield self._say(ImpactKind.OVER_MAX_APPLICATIONS, queue.path, message, harms=True)

    def _what_ends(self, spec: QueueSpec) -> str:
        delay_ns = spec.properties.quota_preemption_delay_ns
        if not self._spec.quota_preemption_enabled or not delay_ns:
            return ""
        return f", and allocations above the max in {delay_ns / SECOND_NS:g} s are preempted (quota.preemption.delay)"

    def _over_limits(self, queue: Queue, spec: QueueSpec) -> Iterator[Impact]:
        """Impacts of changed limits; none for limits that stay the same."""
        if queue.limits == spec.limits:
            return
        usages = self._partition.usages
        for is_group, ledgers in ((False, usages.users), (True, usages.groups)):
            for name, by_path in sorted(ledgers.items()):
                ledger = by_path.get(queue.path)
                if ledger is None:
                    continue
                limit_subject = LimitSubject("", name) if is_group else LimitSubject(name, "")
                before = [
                    limit for limit, _, of_group in limit_subject.limits_among(queue.limits) if of_group is is_group
                ]
                who = f"{'group' if is_group else 'user'} {name!r} in {queue.written}"
                for limit, _, of_group in limit_subject.limits_among(spec.limits):
                    if of_group is is_group and limit not in before:
                        for excess in _excesses(ledger, limit):
                            message = f"{who} will be above a limit: {excess}"
                            yield self._say(ImpactKind.OVER_LIMIT, queue.path, message, harms=True)

    def _gangs_too_large(self, queue: Queue, spec: QueueSpec) -> Iterator[Impact]:
        """Gangs that have not started and now never could. They would be rejected at submission under the new max
        (SEMANTICS G1)."""
        if spec.max == queue.max:
            return
        for one in queue.subtree():
            for application in one.applications.values():
                whole = application.gang_total
                if application.gang_alarm is not None or application.state not in _BEFORE_ITS_GANG:
                    continue
                name = spec.max.exceeded_by({}, whole.items())
                if name is not None and queue.max.exceeded_by({}, whole.items()) is None:
                    message = (
                        f"the gang of application {application.application_id} will never start: its placeholderAsk "
                        f"wants {amount(name, whole[name])}, and max of queue {queue.written} becomes "
                        f"{amount_text(name, spec.max[name])}"
                    )
                    yield self._say(ImpactKind.GANG_TOO_LARGE, queue.path, message, harms=True)

    def _draining(self, queue: Queue) -> Impact:
        queues = queue.subtree()
        names = sorted(name for one in queues for name in one.applications)
        which = f"queue {queue.written}" + (
            f" with {_counted(len(queues) - 1, 'queue')} below it" if queues[1:] else ""
        )
        if names:
            rest = f"it has {_counted(len(names), 'application')} to finish: {_some(names)}"
        else:
            rest = "it is empty and is removed"
        message = f"{which} is no longer in the file and accepts nothing new; {rest}"
        return self._say(ImpactKind.QUEUE_DRAINS, queue.path, message, harms=bool(names))

    def _say(self, kind: ImpactKind, path: str, message: str, *, harms: bool = False) -> Impact:
        return Impact(kind, self._partition.name, path, harms, message)


def drains(child: Queue, parent: QueueSpec) -> bool:
    """Whether a queue drains that the new spec of its parent does not name: queues of the file do, and all queues below
    a leaf.

    Other queues that placement rules created stay as long as they are needed.
    """
    return child.managed or parent.is_leaf


def _excesses(ledger: UsageLedger, limit: LimitSpec) -> Iterator[str]:
    for name, most in sorted((limit.max or {}).items()):
        if ledger.usage[name] > most:
            yield f"{name} {amount_text(name, ledger.usage[name])} used, maxresources {amount_text(name, most)}"
    running = len(ledger.applications)
    if limit.max_applications and running > limit.max_applications:
        yield f"{running} applications run, maxapplications {limit.max_applications}"


def _queues_below(spec: QueueSpec) -> int:
    return sum(1 + _queues_below(child) for child in spec.children)


def _shown(most: int | None) -> str:
    return "unlimited" if most is None else str(most)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _some(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    all_names = list(names)
    more = len(all_names) - NAMES_SHOWN
    return ", ".join(all_names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
