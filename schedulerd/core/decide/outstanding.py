"""Which asks lack nothing but room on nodes: what a larger cluster would run (SI 2021-02 `AutoScalingMetrics`).

They are counted by pending class and leaf as if they were placed one after the other, so that no more of them are
outstanding than quotas and limits would let in together. Equal asks are counted at once, however many there are: a look
costs by the pending classes that find no node and the leaves where they wait. Only applications that would start to run
with their asks are gone through one by one, and no more of them than may start.

Not among them: asks for one required node, as no other would help; those that have a placeholder to take, that wait for
a result, or for which others were asked to end, as their room is there or will be; and those that only a placement
constraint or the resource manager keeps from the room there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.pending_index import Key
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.quotas.headroom import Headroom
from schedulerd.core.resources import Resources

PLACES_MAX = 2_000
"""How many pending classes are looked at, each counted once for every leaf where it waits: it takes about 20 ms."""


class Outstanding(NamedTuple):
    """Equal pending allocations that lack nothing but room on nodes."""

    leaf: Queue
    pending_class: PendingClass
    application: Application | None
    """The one that would start to run with them; None if they are of any application in the leaf."""
    pending: int
    """How many they are."""


def outstanding(partition: Partition, places_max: int | None = PLACES_MAX) -> list[Outstanding]:
    """What is outstanding, by leaf. Without `places_max` all of it."""
    count = _Count(partition)
    count.count(
        pending_class for pending_class in looked_at(partition, places_max) if lacks_room_only(partition, pending_class)
    )
    return count.found


def turned_away(partition: Partition) -> list[Outstanding]:
    """What is outstanding, and after that all else that quotas and limits let in and no node takes."""
    pending_classes = {
        pending_class: lacks_room_only(partition, pending_class) for pending_class in looked_at(partition)
    }
    count = _Count(partition)
    count.count(pending_class for pending_class, is_outstanding in pending_classes.items() if is_outstanding)
    count.count(pending_class for pending_class, is_outstanding in pending_classes.items() if not is_outstanding)
    return count.found


def looked_at(partition: Partition, places_max: int | None = PLACES_MAX) -> list[PendingClass]:
    """The pending classes that no node takes, as many as there is time for: those first that have waited for
    longest."""
    found, places = [], 0
    for pending_class in partition.request_classes.unschedulable():
        places += len(pending_class.pending_by_leaf)
        if places_max is not None and places > places_max:
            break
        found.append(pending_class)
    return found


def outstanding_asks(partition: Partition) -> list[tuple[Application, Ask, int]]:
    """The same ask by ask, with how many allocations of each: costs by the asks that are listed."""
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
    """Whether asks of the pending class, of which no node takes any now, could be placed if there were more nodes of
    the kind that will do for them."""
    request_class = pending_class.request_class
    if not pending_class.unschedulable or request_class.required_node:
        return False
    if request_class.constraint is None:
        return not request_class.refused or partition.node_order.first_fit(request_class) is None
    return partition.constraints.lacks_room_only(request_class)


def _place(leaf: Queue) -> tuple[Key, ...]:
    return tuple(queue.key() for queue in reversed(leaf.path_to_root[:-1]))


def _applications(leaf: Queue, pending_class: PendingClass) -> Iterator[Application]:
    """Those with asks of the pending class that are looked at, in order."""
    return (one for one in leaf.pending_index.in_order(pending_class) if isinstance(one, Application))


def _groups(application: Application, pending_classes: Collection[PendingClass]) -> list[AskGroup]:
    """Those of its asks of these pending classes that are looked at, in order."""
    return sorted(
        (one for one in application.groups.values() if one.counted and one.pending_class in pending_classes),
        key=AskGroup.key,
    )


def _ranked(leaf: Queue, pending_classes: list[PendingClass]) -> list[PendingClass]:
    """In the order of the first asks of them in the leaf."""

    def place(pending_class: PendingClass) -> tuple[Key, Key]:
        key, entity = leaf.pending_index.first_of(pending_class)
        return key, entity.pending_index.first_of(pending_class)[0] if isinstance(entity, Application) else ()

    return sorted(pending_classes, key=place) if len(pending_classes) > 1 else pending_classes


def _starts(leaf: Queue, pending_class: PendingClass) -> bool:
    """Whether it matters that an application, or its gang, would start with the first ask of the pending class."""
    return pending_class.quota_key.starts_application or (
        bool(pending_class.quota_key.gang_gate) and any(queue.max for queue in leaf.path_to_root)
    )


def _speaks_for_one(predicate_check: PredicateCheck) -> bool:
    """Whether one pending allocation of an ask has room if the result is yes, which no reservation shows."""
    return predicate_check.takes_one and (
        predicate_check.reservation is None or not predicate_check.reservation.is_entitled
    )


class _Count:
    """One look: what was found so far, and what is left of quotas and limits after that."""

    def __init__(self, partition: Partition) -> None:
        self.found: list[Outstanding] = []
        self._headroom = Headroom(partition.usages)
        self._swaps: dict[AskGroup, int] = {}
        """How many of the group have a placeholder to take."""
        self._served: dict[AskGroup, int] = {}
        """How many have that, or have others end for them."""
        self._served_in: dict[tuple[Queue, PendingClass], int] = {}
        """The same by leaf and pending class."""
        self._served_by: dict[Queue, dict[Application, PendingClass]] = {}
        """Whose they are, by leaf, with the first pending class that they are of."""
        self._started: dict[Queue, dict[Application, None]] = {}
        """Those that are supposed to start, by leaf."""
        self._run_anyhow: dict[Application, None] = {}
        """Those that are supposed to run, and need no free place for it."""
        self._promised: dict[tuple[Queue, PendingClass], Resources] = {}
        """What is promised to gangs that have started, of what they wait for there (SEMANTICS G2)."""
        for application in partition.swaps:
            self._note_swaps(application)
        for reservation in partition.reservations:
            if reservation.is_entitled:
                self._serve(reservation.application, reservation.ask.group, 1)
        for predicate_check in partition.callbacks.open_predicate_checks.values():
            if predicate_check.application.partition is partition and _speaks_for_one(predicate_check):
                self._serve(predicate_check.application, predicate_check.ask.group, 1)
        if partition.root.gang_quota_promised:
            for application in partition.open_gangs:
                self._note_promises(application)

    def count(self, pending_classes: Iterable[PendingClass]) -> None:
        """Goes on with what waits for these."""
        by_leaf: dict[Queue, list[PendingClass]] = {}
        for pending_class in pending_classes:
            for leaf in pending_class.pending_by_leaf:
                by_leaf.setdefault(leaf, []).append(pending_class)
        for leaf in sorted(by_leaf, key=_place):
            self._count_in(leaf, by_leaf[leaf])

    def _count_in(self, leaf: Queue, pending_classes: Iterable[PendingClass]) -> None:
        """Those that run anyhow come before those with which something would start."""
        running: list[PendingClass] = []
        starting: list[PendingClass] = []
        for pending_class in pending_classes:
            (starting if _starts(leaf, pending_class) else running).append(pending_class)
        for pending_class in running if self._have_room(leaf, running) else _ranked(leaf, running):
            taken = self._take(leaf, pending_class, None, self._pending(leaf, pending_class))
            self._run_again(leaf, pending_class, taken)
            self._headroom.keep_promise(leaf, self._promised.get((leaf, pending_class), Resources()))
        self._count_starting(leaf, dict.fromkeys(starting))

    def _count_starting(self, leaf: Queue, pending_classes: Collection[PendingClass]) -> None:
        """Those that have started with other pending classes, and those for which there is room already, come first.
        One that would get nothing takes no place from the next."""
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
        """Applications that were about to complete run again whether as many run or not, but count from then on."""
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
        """Whether quotas and limits have room for all that waits for these: then it does not matter who is first."""
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
        return max(0, pending_class.pending_by_leaf[leaf] - self._served_in.get((leaf, pending_class), 0))

    def asks(self, application: Application, pending_class: PendingClass) -> Iterator[tuple[Ask, int]]:
        """The asks of the application that may be outstanding, in order, with how many allocations of each."""
        for group in _groups(application, (pending_class,)):
            swaps = self._swaps.get(group, 0)
            for ask in group.in_order():
                predicate_checks = ask.predicate_history.predicate_checks if ask.predicate_history is not None else ()
                entitled = sum(one.is_entitled for one in ask.reservations.values())
                pending = ask.pending - entitled - sum(map(_speaks_for_one, predicate_checks))
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
        """The application is supposed to start with this pending class, and then gets all that it asks for of these
        pending classes."""
        self._started.setdefault(leaf, {})[application] = None
        placed = self._take_all(leaf, application, pending_classes)
        rest = Resources(
            {name: amount - placed[name] for name, amount in pending_class.quota_key.gang_gate if amount > placed[name]}
        )
        self._headroom.start(leaf, pending_class, rest)

    def _take_all(self, leaf: Queue, application: Application, pending_classes: Collection[PendingClass]) -> Resources:
        """What the application asks for of these pending classes, as far as there is room; how much that is."""
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
