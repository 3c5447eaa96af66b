"""Which asks are outstanding: they lack nothing but room on nodes, so a larger cluster would run them (SI 2021-02
`AutoScalingMetrics`).

Asks are counted by pending class and leaf queue, as if they were allocated one after the other, so no more are
outstanding than quotas and limits would let in together. Equal asks are counted at once: the cost grows with the
unschedulable classes and the leaves where they wait. Only applications that would start to run with their asks are
visited one by one, and no more than may start.

Not outstanding are:

- asks with a required node, because no other node would help
- asks that have a placeholder to replace, await a predicate result, or have an entitled reservation
- asks that only a placement constraint or the RM keeps from the room there is
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.quotas.headroom import Headroom

PLACES_MAX = 2_000
"""Maximum number of places (a pending class in a leaf queue) that are visited; this many take about 20 ms."""


class Outstanding(NamedTuple):
    """Equal outstanding allocations."""

    leaf: Queue
    pending_class: PendingClass
    application: Application | None
    """The application that would start to run with them; None if they are of any application in the leaf."""
    pending: int
    """Their number."""


def outstanding(partition: Partition, places_max: int | None = PLACES_MAX) -> list[Outstanding]:
    """What is outstanding, by leaf queue. With `places_max` None, everything."""
    count = _Count(partition)
    count.count(
        pending_class
        for pending_class in oldest_unschedulable(partition, places_max)
        if lacks_room_only(partition, pending_class)
    )
    return count.found


def unschedulable_within_quotas(partition: Partition) -> list[Outstanding]:
    """What is outstanding, followed by everything else that quotas and limits let in and no node takes."""
    pending_classes = {
        pending_class: lacks_room_only(partition, pending_class) for pending_class in oldest_unschedulable(partition)
    }
    count = _Count(partition)
    count.count(pending_class for pending_class, is_outstanding in pending_classes.items() if is_outstanding)
    count.count(pending_class for pending_class, is_outstanding in pending_classes.items() if not is_outstanding)
    return count.found


def oldest_unschedulable(partition: Partition, places_max: int | None = PLACES_MAX) -> list[PendingClass]:
    """The unschedulable classes, in at most `places_max` places: those that have waited longest first."""
    found, places = [], 0
    for pending_class in partition.request_classes.unschedulable():
        places += len(partition.pending_counts.of(pending_class))
        if places_max is not None and places > places_max:
            break
        found.append(pending_class)
    return found


def outstanding_asks(partition: Partition) -> list[tuple[Application, Ask, int]]:
    """What is outstanding ask by ask, with the number of allocations of each. The cost grows with the asks in the
    list."""
    count = _Count(partition)
    found = []
    for leaf, pending_class, application, most in outstanding(partition, None):
        applications = _applications(leaf, pending_class) if application is None else [application]
        for one in applications:
            for ask, pending in count.asks(one, pending_class):
                if most:
                    found.append((one, ask, min(pending, most)))
                    most -= min(pending, most)
            if not most:
                break
    return found


def lacks_room_only(partition: Partition, pending_class: PendingClass) -> bool:
    """Whether more nodes of a suitable kind would let asks of this unschedulable class be allocated."""
    request_class = pending_class.request_class
    if not pending_class.unschedulable or request_class.required_node:
        return False
    if request_class.constraint is None:
        return not request_class.refused or partition.node_order.first_fit(request_class) is None
    return partition.constraints.lacks_room_only(request_class)


def _place(leaf: Queue) -> tuple[Key, ...]:
    return tuple(queue.key() for queue in reversed(leaf.path_to_root[:-1]))


def _applications(leaf: Queue, pending_class: PendingClass) -> Iterator[Application]:
    """The applications in the leaf with asks of the class in the pending index, in order."""
    return (one for one in leaf.pending_index.in_order(pending_class) if isinstance(one, Application))


def _groups(application: Application, pending_classes: Collection[PendingClass]) -> list[AskGroup]:
    """The application's ask groups of these classes that are in the pending index, in order."""
    return sorted(
        (one for one in application.groups.values() if one.counted and one.pending_class in pending_classes),
        key=AskGroup.key,
    )


def _ranked(leaf: Queue, pending_classes: list[PendingClass]) -> list[PendingClass]:
    """The classes in the order of their first asks in the leaf."""

    def place(pending_class: PendingClass) -> tuple[Key, Key]:
        key, entity = leaf.pending_index.first_of(pending_class)
        return key, entity.pending_index.first_of(pending_class)[0] if isinstance(entity, Application) else ()

    return sorted(pending_classes, key=place) if len(pending_classes) > 1 else pending_classes


def _starts(leaf: Queue, pending_class: PendingClass) -> bool:
    """Whether the first ask of the class would start an application, or a gang, and a quota or limit counts that."""
    key = pending_class.quota_key
    return key.starts_application or (
        bool(key.gang_gate) and (key.limit_subject is not None or any(queue.max for queue in leaf.path_to_root))
    )


def _speaks_for_one(predicate_check: PredicateCheck) -> bool:
    """Whether an open check holds room for one pending allocation that no entitled reservation shows."""
    return predicate_check.uses_allocation and (
        predicate_check.reservation is None or not predicate_check.reservation.is_entitled
    )


class _Count:
    """One count: what was found so far, and the headroom that is left after it."""

    def __init__(self, partition: Partition) -> None:
        self.found: list[Outstanding] = []
        self._counts = partition.pending_counts
        self._headroom = Headroom(partition.usages)
        self._swaps: dict[AskGroup, int] = {}
        """For each group, how many of its allocations have a placeholder to replace."""
        self._served: dict[AskGroup, int] = {}
        """For each group, how many of its allocations are served: by a placeholder, an entitled reservation or an open
        check."""
        self._served_in: dict[tuple[Queue, PendingClass], int] = {}
        """The number of served allocations by leaf and pending class."""
        self._served_by: dict[Queue, dict[Application, PendingClass]] = {}
        """The applications with served allocations by leaf, with the first of their classes."""
        self._started: dict[Queue, dict[Application, None]] = {}
        """The applications counted as started, by leaf."""
        self._run_anyhow: dict[Application, None] = {}
        """The applications counted as running again although the number of running applications is limited."""
        self._promised: dict[tuple[Queue, PendingClass], Resources] = {}
        """By leaf and class, the part of promises to gangs that have started which is for these pending asks (SEMANTICS
        G2)."""
        for application in partition.swaps:
            self._note_swaps(application)
        for reservation in partition.reservations:
            if reservation.is_entitled:
                self._serve(reservation.application, reservation.ask.group, 1)
        for predicate_check in partition.callbacks.open_predicate_checks.values():
            if predicate_check.application.partition_name == partition.name and _speaks_for_one(predicate_check):
                self._serve(predicate_check.application, predicate_check.ask.group, 1)
        if partition.root.gang_quota_promised:
            for application in partition.open_gangs:
                self._note_promises(application)

    def count(self, pending_classes: Iterable[PendingClass]) -> None:
        """Continues with these pending classes."""
        by_leaf: dict[Queue, list[PendingClass]] = {}
        for pending_class in pending_classes:
            for leaf in self._counts.of(pending_class):
                by_leaf.setdefault(leaf, []).append(pending_class)
        for leaf in sorted(by_leaf, key=_place):
            self._count_in(leaf, by_leaf[leaf])

    def _count_in(self, leaf: Queue, pending_classes: Iterable[PendingClass]) -> None:
        """Counts classes that start nothing first, then classes that would start an application or a gang."""
        running: list[PendingClass] = []
        starting: list[PendingClass] = []
        for pending_class in pending_classes:
            (starting if _starts(leaf, pending_class) else running).append(pending_class)
        for pending_class in running if self._have_room(leaf, running) else _ranked(leaf, running):
            taken = self._take(leaf, pending_class, None, self._pending(leaf, pending_class))
            self._run_again(leaf, pending_class, taken)
            self._headroom.keep_promise(leaf, pending_class, self._promised.get((leaf, pending_class), Resources()))
        self._count_starting(leaf, dict.fromkeys(starting))

    def _count_starting(self, leaf: Queue, pending_classes: Collection[PendingClass]) -> None:
        """Applications that have started with other classes, or have served allocations, come first.

        An application that would get nothing does not take the place of the next one.
        """
        seen = dict(self._started.get(leaf, {}))
        for application in seen:
            self._take_all(leaf, application, pending_classes)
        for application, pending_class in self._served_by.get(leaf, {}).items():
            if (
                application not in seen
                and pending_class in pending_classes
                and self._headroom.lets_start(leaf, pending_class)
            ):
                seen[application] = None
                self._start(leaf, pending_class, application, pending_classes)
        for pending_class in _ranked(leaf, list(pending_classes)):
            for application in _applications(leaf, pending_class):
                if application in seen:
                    continue
                if not (
                    self._headroom.lets_start(leaf, pending_class) and self._headroom.room_for(leaf, pending_class, 1)
                ):
                    break
                seen[application] = None
                self._start(leaf, pending_class, application, pending_classes)

    def _run_again(self, leaf: Queue, pending_class: PendingClass, taken: int) -> None:
        """Completing applications may run again whatever the limit of running applications is, but count for it
        then."""
        if pending_class.quota_key.limit_subject is None and not any(
            queue.max_applications for queue in leaf.path_to_root
        ):
            return
        for application in _applications(leaf, pending_class):
            if taken <= 0:
                return
            if application.limited_starts and not application.usage_ledgers and application not in self._run_anyhow:
                self._run_anyhow[application] = None
                self._headroom.run(leaf, pending_class)
            taken -= sum(group.pending - self._served.get(group, 0) for group in _groups(application, (pending_class,)))

    def _have_room(self, leaf: Queue, pending_classes: Iterable[PendingClass]) -> bool:
        """Whether quotas and limits have room for everything in these classes; then the order does not matter."""
        taken: list[tuple[PendingClass, int]] = []
        fits = True
        for pending_class in pending_classes:
            count = self._pending(leaf, pending_class)
            fits = self._headroom.room_for(leaf, pending_class, count) == count
            if not fits:
                break
            self._headroom.take(leaf, pending_class, count)
            taken.append((pending_class, count))
        for pending_class, count in taken:
            self._headroom.take(leaf, pending_class, -count)
        return fits

    def _pending(self, leaf: Queue, pending_class: PendingClass) -> int:
        return max(0, self._counts.of(pending_class)[leaf] - self._served_in.get((leaf, pending_class), 0))

    def asks(self, application: Application, pending_class: PendingClass) -> Iterator[tuple[Ask, int]]:
        """The asks of the application that may be outstanding, in order, with the number of allocations of each."""
        for group in _groups(application, (pending_class,)):
            swaps = self._swaps.get(group, 0)
            for ask in group.in_order():
                predicate_checks = ask.predicate_history.predicate_checks if ask.predicate_history is not None else ()
                pending = ask.pending - ask.entitled - sum(map(_speaks_for_one, predicate_checks))
                taken = min(swaps, pending)
                swaps -= taken
                if pending > taken:
                    yield ask, pending - taken

    def _start(
        self,
        leaf: Queue,
        pending_class: PendingClass,
        application: Application,
        pending_classes: Collection[PendingClass],
    ) -> None:
        """Counts the application as started with this class, and takes all its asks of these classes."""
        self._started.setdefault(leaf, {})[application] = None
        placed = self._take_all(leaf, application, pending_classes)
        rest = Resources(
            {name: amount - placed[name] for name, amount in pending_class.quota_key.gang_gate if amount > placed[name]}
        )
        self._headroom.start(leaf, pending_class, rest)

    def _take_all(self, leaf: Queue, application: Application, pending_classes: Collection[PendingClass]) -> Resources:
        """Takes what the application asks for in these classes, as far as there is headroom. Returns the amounts
        taken."""
        pending: dict[PendingClass, int] = {}
        for group in _groups(application, pending_classes):
            pending[group.pending_class] = (
                pending.get(group.pending_class, 0) + group.pending - self._served.get(group, 0)
            )
        placed = Resources()
        for kind, count in pending.items():
            placed.add(kind.items, self._take(leaf, kind, application, count))
        return placed

    def _take(self, leaf: Queue, pending_class: PendingClass, application: Application | None, count: int) -> int:
        count = self._headroom.room_for(leaf, pending_class, max(0, count))
        if count:
            self._headroom.take(leaf, pending_class, count)
            self.found.append(Outstanding(leaf, pending_class, application, count))
        return count

    def _note_swaps(self, application: Application) -> None:
        gang = application.gang
        if gang is None or gang.pending:
            return
        for task_group in gang.task_groups.values():
            idle = task_group.idle
            for group in task_group.waiting:
                if not group.denied:
                    self._swaps[group] = taken = min(idle, group.pending)
                    self._serve(application, group, taken)
                    idle -= taken

    def _note_promises(self, application: Application) -> None:
        gang, leaf = application.gang, application.queue
        if gang is None or leaf is None or not gang.promised:
            return
        rest = Resources(gang.promised)
        for group in application.groups.values():
            if group.placeholder and group.counted:
                wanted = group.request_class.resources.times(group.pending)
                kept = Resources({name: min(amount, rest[name]) for name, amount in wanted.items()})
                rest.subtract(kept.items())
                self._promised.setdefault((leaf, group.pending_class), Resources()).add(kept.items())

    def _serve(self, application: Application, group: AskGroup | None, count: int) -> None:
        if group is not None and group.counted:
            place = application.queue, group.pending_class
            self._served[group] = self._served.get(group, 0) + count
            self._served_in[place] = self._served_in.get(place, 0) + count
            self._served_by.setdefault(application.queue, {}).setdefault(application, group.pending_class)
