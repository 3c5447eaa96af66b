"""Which asks lack nothing but room on nodes: what a larger cluster would run (SI 2021-02 `AutoScalingMetrics`).

They are counted by shape and leaf as if they were placed one after the other, so that no more of them are outstanding
than quotas and limits would let in together. Equal asks are counted at once, however many there are: a look costs by
the shapes that find no node and the leaves where they wait. Only applications that would start to run with their asks
are gone through one by one, and no more of them than may start.

Not among them: asks for one required node, as no other would help; those that have a placeholder to take, that wait for
a verdict, or for which others were asked to end, as their room is there or will be; and those that only a placement
constraint or the resource manager keeps from the room there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from schedulerd.core.decide.headroom import Headroom
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.line import Key
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.model.trial import Trial
from schedulerd.core.resources import Resources

PLACES_MAX = 2_000
"""How many shapes are looked at, each counted once for every leaf where it waits: it takes about 20 ms."""


class Outstanding(NamedTuple):
    """Equal pending allocations that lack nothing but room on nodes."""

    leaf: Queue
    shape: Shape
    application: Application | None
    """The one that would start to run with them; None if they are of any application in the leaf."""
    pending: int
    """How many they are."""


def outstanding(partition: Partition, places_max: int | None = PLACES_MAX) -> list[Outstanding]:
    """What is outstanding, by leaf. Without `places_max` all of it."""
    count = _Count(partition)
    count.count(shape for shape in looked_at(partition, places_max) if lacks_room_only(partition, shape))
    return count.found


def turned_away(partition: Partition) -> list[Outstanding]:
    """What is outstanding, and after that all else that quotas and limits let in and no node takes."""
    shapes = {shape: lacks_room_only(partition, shape) for shape in looked_at(partition)}
    count = _Count(partition)
    count.count(shape for shape, is_outstanding in shapes.items() if is_outstanding)
    count.count(shape for shape, is_outstanding in shapes.items() if not is_outstanding)
    return count.found


def looked_at(partition: Partition, places_max: int | None = PLACES_MAX) -> list[Shape]:
    """The shapes that no node takes, as many as there is time for: those first that have waited for longest."""
    found, places = [], 0
    for shape in partition.shapes.parked():
        places += len(shape.waiting)
        if places_max is not None and places > places_max:
            break
        found.append(shape)
    return found


def outstanding_asks(partition: Partition) -> list[tuple[Application, Ask, int]]:
    """The same ask by ask, with how many allocations of each: costs by the asks that are listed."""
    count = _Count(partition)
    found = []
    for leaf, shape, application, most in outstanding(partition, None):
        applications = _applications(leaf, shape) if application is None else [application]
        for one in applications:
            for ask, pending in count.asks(one, shape):
                if most:
                    found.append((one, ask, min(pending, most)))
                    most -= min(pending, most)
            if not most:
                break
    return found


def lacks_room_only(partition: Partition, shape: Shape) -> bool:
    """Whether asks of the shape, of which no node takes any now, could be placed if there were more nodes of the kind
    that will do for them."""
    if not shape.parked or shape.required_node:
        return False
    if shape.constraint is None:
        return not shape.turned_down or partition.node_order.first_fit(shape) is None
    return partition.constraints.lacks_room_only(shape)


def _place(leaf: Queue) -> tuple[Key, ...]:
    return tuple(queue.key() for queue in reversed(leaf.lineage[:-1]))


def _applications(leaf: Queue, shape: Shape) -> Iterator[Application]:
    """Those with asks of the shape that are looked at, in order."""
    return (one for one in leaf.lines.in_order(shape) if isinstance(one, Application))


def _groups(application: Application, shapes: Collection[Shape]) -> list[AskGroup]:
    """Those of its asks of these shapes that are looked at, in order."""
    return sorted((one for one in application.groups.values() if one.counted and one.kind in shapes), key=AskGroup.key)


def _ranked(leaf: Queue, shapes: list[Shape]) -> list[Shape]:
    """In the order of the first asks of them in the leaf."""

    def place(shape: Shape) -> tuple[Key, Key]:
        key, contender = leaf.lines.first_of(shape)
        return key, contender.lines.first_of(shape)[0] if isinstance(contender, Application) else ()

    return sorted(shapes, key=place) if len(shapes) > 1 else shapes


def _starts(leaf: Queue, shape: Shape) -> bool:
    """Whether it matters that an application, or its gang, would start with the first ask of the shape."""
    return shape.starts or (bool(shape.gate) and any(queue.max for queue in leaf.lineage))


def _speaks_for_one(trial: Trial) -> bool:
    """Whether one pending allocation of an ask has room if the verdict is yes, which no reservation shows."""
    return trial.takes_one and (trial.reservation is None or not trial.reservation.is_firm)


class _Count:
    """One look: what was found so far, and what is left of quotas and limits after that."""

    def __init__(self, partition: Partition) -> None:
        self.found: list[Outstanding] = []
        self._headroom = Headroom(partition.usages)
        self._swaps: dict[AskGroup, int] = {}
        """How many of the group have a placeholder to take."""
        self._served: dict[AskGroup, int] = {}
        """How many have that, or have others end for them."""
        self._served_in: dict[tuple[Queue, Shape], int] = {}
        """The same by leaf and shape."""
        self._served_by: dict[Queue, dict[Application, Shape]] = {}
        """Whose they are, by leaf, with the first shape that they are of."""
        self._started: dict[Queue, dict[Application, None]] = {}
        """Those that are supposed to start, by leaf."""
        self._run_anyhow: dict[Application, None] = {}
        """Those that are supposed to run, and need no free place for it."""
        self._promised: dict[tuple[Queue, Shape], Resources] = {}
        """What is promised to gangs that have started, of what they wait for there (SEMANTICS G2)."""
        for application in partition.swaps:
            self._note_swaps(application)
        for reservation in partition.reservations:
            if reservation.is_firm:
                self._serve(reservation.application, reservation.ask.group, 1)
        for trial in partition.callbacks.open_trials.values():
            if trial.application.partition is partition and _speaks_for_one(trial):
                self._serve(trial.application, trial.ask.group, 1)
        if partition.root.promised:
            for application in partition.open_gangs:
                self._note_promises(application)

    def count(self, shapes: Iterable[Shape]) -> None:
        """Goes on with what waits for these."""
        by_leaf: dict[Queue, list[Shape]] = {}
        for shape in shapes:
            for leaf in shape.waiting:
                by_leaf.setdefault(leaf, []).append(shape)
        for leaf in sorted(by_leaf, key=_place):
            self._count_in(leaf, by_leaf[leaf])

    def _count_in(self, leaf: Queue, shapes: Iterable[Shape]) -> None:
        """Those that run anyhow come before those with which something would start."""
        running: list[Shape] = []
        starting: list[Shape] = []
        for shape in shapes:
            (starting if _starts(leaf, shape) else running).append(shape)
        for shape in running if self._have_room(leaf, running) else _ranked(leaf, running):
            taken = self._take(leaf, shape, None, self._pending(leaf, shape))
            self._run_again(leaf, shape, taken)
            self._headroom.keep_promise(leaf, self._promised.get((leaf, shape), Resources()))
        self._count_starting(leaf, dict.fromkeys(starting))

    def _count_starting(self, leaf: Queue, shapes: Collection[Shape]) -> None:
        """Those that have started with other shapes, and those for which there is room already, come first. One that
        would get nothing takes no place from the next."""
        seen = dict(self._started.get(leaf, {}))
        for application in seen:
            self._take_all(leaf, application, shapes)
        for application, shape in self._served_by.get(leaf, {}).items():
            if application not in seen and shape in shapes and self._headroom.lets_start(leaf, shape):
                seen[application] = None
                self._start(leaf, shape, application, shapes)
        for shape in _ranked(leaf, list(shapes)):
            for application in _applications(leaf, shape):
                if application in seen:
                    continue
                if not (self._headroom.lets_start(leaf, shape) and self._headroom.room_for(leaf, shape, 1)):
                    break
                seen[application] = None
                self._start(leaf, shape, application, shapes)

    def _run_again(self, leaf: Queue, shape: Shape, taken: int) -> None:
        """Applications that were about to complete run again whether as many run or not, but count from then on."""
        if shape.party is None and not any(queue.max_applications for queue in leaf.lineage):
            return
        for application in _applications(leaf, shape):
            if taken <= 0:
                return
            if application.needs_place and not application.usage_ledgers and application not in self._run_anyhow:
                self._run_anyhow[application] = None
                self._headroom.run(leaf, shape)
            taken -= sum(group.pending - self._served.get(group, 0) for group in _groups(application, (shape,)))

    def _have_room(self, leaf: Queue, shapes: Iterable[Shape]) -> bool:
        """Whether quotas and limits have room for all that waits for these: then it does not matter who is first."""
        taken: list[tuple[Shape, int]] = []
        fits = True
        for shape in shapes:
            count = self._pending(leaf, shape)
            fits = self._headroom.room_for(leaf, shape, count) == count
            if not fits:
                break
            self._headroom.take(leaf, shape, count)
            taken.append((shape, count))
        for shape, count in taken:
            self._headroom.take(leaf, shape, -count)
        return fits

    def _pending(self, leaf: Queue, shape: Shape) -> int:
        return max(0, shape.waiting[leaf] - self._served_in.get((leaf, shape), 0))

    def asks(self, application: Application, shape: Shape) -> Iterator[tuple[Ask, int]]:
        """The asks of the application that may be outstanding, in order, with how many allocations of each."""
        for group in _groups(application, (shape,)):
            swaps = self._swaps.get(group, 0)
            for ask in group.in_order():
                trials = ask.hearing.trials if ask.hearing is not None else ()
                firm = sum(one.is_firm for one in ask.reservations.values())
                pending = ask.pending - firm - sum(map(_speaks_for_one, trials))
                taken = min(swaps, pending)
                swaps -= taken
                if pending > taken:
                    yield ask, pending - taken

    def _start(self, leaf: Queue, shape: Shape, application: Application, shapes: Collection[Shape]) -> None:
        """The application is supposed to start with this shape, and then gets all that it asks for of these shapes."""
        self._started.setdefault(leaf, {})[application] = None
        placed = self._take_all(leaf, application, shapes)
        rest = Resources({name: amount - placed[name] for name, amount in shape.gate if amount > placed[name]})
        self._headroom.start(leaf, shape, rest)

    def _take_all(self, leaf: Queue, application: Application, shapes: Collection[Shape]) -> Resources:
        """What the application asks for of these shapes, as far as there is room; how much that is."""
        pending: dict[Shape, int] = {}
        for group in _groups(application, shapes):
            pending[group.kind] = pending.get(group.kind, 0) + group.pending - self._served.get(group, 0)
        placed = Resources()
        for kind, count in pending.items():
            placed.add(kind.items, self._take(leaf, kind, application, count))
        return placed

    def _take(self, leaf: Queue, shape: Shape, application: Application | None, count: int) -> int:
        count = self._headroom.room_for(leaf, shape, max(0, count))
        if count:
            self._headroom.take(leaf, shape, count)
            self.found.append(Outstanding(leaf, shape, application, count))
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
                wanted = group.kind.resources.times(group.pending)
                kept = Resources({name: min(amount, rest[name]) for name, amount in wanted.items()})
                rest.subtract(kept.items())
                self._promised.setdefault((leaf, group.kind), Resources()).add(kept.items())

    def _serve(self, application: Application, group: AskGroup | None, count: int) -> None:
        if group is not None and group.counted and application.queue is not None:
            place = application.queue, group.kind
            self._served[group] = self._served.get(group, 0) + count
            self._served_in[place] = self._served_in.get(place, 0) + count
            self._served_by.setdefault(application.queue, {}).setdefault(application, group.kind)
