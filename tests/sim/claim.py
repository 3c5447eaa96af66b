"""The slow and obvious way to tell who may be ended for an ask, to hold the fast way against.

It is written from the rules alone: rights and guarantees queue by queue, priorities as the queues show them, and every
set of victims there is, as long as there are few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from schedulerd.core.facts import Allocated
from schedulerd.core.handlers.existing import ALLOW_PREEMPTION_TAG
from schedulerd.core.model.partition import REQUIRED_NODE_TAG
from schedulerd.core.resources import Resources
from schedulerd.core.specs import OptOut, PreemptionPolicy, PriorityPolicy, QueueProperties
from schedulerd.core.views import AskView, NodeView, PartitionView, QueueView
from tests.sim import own_room_invariants
from tests.sim.room_books import Place, RoomBook, RoomBooks, is_below

CANDIDATES_MAX = 9
"""With more of them, only the sets of up to `FEW` are looked at."""
FEW = 2
INT32 = 2**31

Cost = tuple[tuple[tuple[int, int], int], ...]
"""Weight by rank, the most protected first."""


class Claim:
    """One pending allocation of an ask at a moment: what it has a right to, and what that takes.

    `own` is what is kept for it already; it does not count against it.
    """

    def __init__(
        self, books: RoomBooks, book: RoomBook, partition: PartitionView, ask: AskView, leaf: str, own: Place | None
    ) -> None:
        self.ask = ask
        self.book = book
        self._books = books
        self._partition = partition
        self._own = own
        self._size = {name: amount for name, amount in ask.resources.items() if amount}
        queues = [queue for queue in partition.queues if is_below(leaf, queue.path)]
        self.way: list[QueueView] = sorted(queues, key=lambda queue: -len(queue.path))
        """From the leaf to the root."""
        self.lacking, self.roof = self._short_of_quota()
        only = (node.capacity for node in partition.nodes if node.node_id == ask.required_node)
        self._whole = next(only, partition.total)
        self.rights = [self._rights(level) for level in range(len(self.way))]
        """Against what runs below each queue of the way."""

    # rights ---------------------------------------------------------------------------------------------------------

    def _in_use(self, path: str) -> Resources:
        return self.book.staying(path).plus(self.book.claimed(path, but=self._own))

    def _short_of_quota(self) -> tuple[dict[str, int], int | None]:
        """What the maxima lack for it, and the level of the lowest that does."""
        lacking: dict[str, int] = {}
        roof = None
        for level, queue in enumerate(self.way):
            used = self._in_use(queue.path)
            for name, amount in self._size.items():
                if name in queue.max and used[name] + amount > queue.max[name]:
                    lacking[name] = max(lacking.get(name, 0), used[name] + amount - queue.max[name])
                    roof = level if roof is None else roof
        return lacking, roof

    def _rights(self, level: int) -> set[str]:
        below = self.way[:level]
        if any(queue.preemption_policy == PreemptionPolicy.FENCE for queue in below):
            return set()
        if self.roof is not None and level > self.roof:
            return set()
        rights = set()
        for name, amount in self._size.items():
            guaranteeing = [queue for queue in below if queue.guaranteed.get(name)]
            within = [self._in_use(queue.path)[name] + amount <= queue.guaranteed[name] for queue in guaranteeing]
            if within and all(within):
                rights.add(name)
        return rights

    @property
    def is_entitled(self) -> bool:
        """Whether others end for it at all, as far as its own queues go; for a daemon never for the sake of a quota."""
        if self.ask.required_node:
            return not self.lacking
        return any(self.rights) and self.roof != 0

    # one victim -----------------------------------------------------------------------------------------------------

    def objection(self, victim: Allocated, need: Iterable[str]) -> str | None:
        """What is against this one, whoever else ends; `need` is of what room is lacking."""
        if self.ask.required_node:
            return self._objection_by_force(victim)
        text = self._objection_to_any(victim)
        if text is not None:
            return text
        if victim.queue == self.way[0].path:
            return "runs in the same leaf"
        level = self._level(victim)
        if not set(need) <= self.rights[level]:
            return f"of {sorted(need)}, its queue has a right to {sorted(self.rights[level])} only"
        theirs = self._shown(victim.priority, [queue.path for queue in self._below(victim)])
        mine = self._shown(self.ask.priority, [queue.path for queue in self.way[:level]])
        return f"its priority is {theirs} there, that of the ask {mine}" if theirs > mine else None

    def _objection_to_any(self, victim: Allocated) -> str | None:
        leaf = self._queue(victim.queue)
        if self.is_protected(victim, certainly=True):
            return "is opted out of preemption"
        if victim.uuid in self.book.leaving:
            return "is on its way out already"
        if victim.tags.get(REQUIRED_NODE_TAG):
            return "may run on this node only"
        if victim.application_id == self.ask.application_id:
            return "is of the same application"
        return "may not be ended" if leaf.preemption_policy == PreemptionPolicy.DISABLED else None

    def is_protected(self, victim: Allocated, *, certainly: bool) -> bool:
        """Whether it is opted out of preemption: certainly, or as one of the asks that it may be of says."""
        assert self.book.spec is not None
        return self.book.spec.preemption_optout is OptOut.NEVER and is_opted_out(
            self._books, victim, certainly=certainly
        )

    def _objection_by_force(self, victim: Allocated) -> str | None:
        text = self._objection_to_any(victim)
        if text is None and victim.priority > self.ask.priority:
            return f"its priority is {victim.priority}, that of the ask {self.ask.priority}"
        return text

    def _level(self, victim: Allocated) -> int:
        return next(level for level, queue in enumerate(self.way) if is_below(victim.queue, queue.path))

    def _below(self, victim: Allocated) -> list[QueueView]:
        """The victim's way up to where it meets that of the ask, the leaf first."""
        top = self.way[self._level(victim)].path
        queues = [one for one in self._partition.queues if is_below(victim.queue, one.path) and one.path != top]
        return sorted((one for one in queues if is_below(one.path, top)), key=lambda queue: -len(queue.path))

    def _shown(self, priority: int, paths: Iterable[str]) -> int:
        for path in paths:
            properties = self.book.properties.get(path, QueueProperties())
            if properties.priority_policy is PriorityPolicy.FENCE:
                priority = properties.priority_offset
            else:
                priority = max(-INT32, min(INT32 - 1, priority + properties.priority_offset))
        return priority

    def _queue(self, path: str) -> QueueView:
        return next(queue for queue in self._partition.queues if queue.path == path)

    # sets of victims ------------------------------------------------------------------------------------------------

    def short(self, node_id: str) -> dict[str, int]:
        """What the node lacks when all has gone that was asked to."""
        book = self.book
        room = book.available(node_id).plus(book.leaving_from(node_id))
        if self.ask.required_node and self._own is not None:
            room = room.minus(book.before(self._own))
        else:
            room = room.minus(book.kept_on(node_id, but=self._own, firm_only=True))
        return {name: amount - room[name] for name, amount in self._size.items() if amount > room[name]}

    def need(self, node_id: str) -> dict[str, int]:
        """What victims have to free: on the node, and of the quotas on its way."""
        need = self.short(node_id)
        if not self.ask.required_node:
            for name, amount in self.lacking.items():
                need[name] = max(need.get(name, 0), amount)
        return need

    def objections(self, node_id: str, victims: Sequence[Allocated]) -> Iterator[str]:
        """Everything that is against ending these, all of them, for this node."""
        need = self.need(node_id)
        is_node_short = bool(self.short(node_id))
        for victim in victims:
            text = self.objection(victim, need)
            if text is None and (is_node_short or self.ask.required_node) and victim.node_id != node_id:
                text = f"runs on {victim.node_id}"
            if text is not None:
                yield f"{victim.uuid} {text}"
        if not frees(victims, need):
            yield f"they free {[dict(one.resources) for one in victims]} of the {need} that is needed"
        for victim in victims:
            if frees([one for one in victims if one is not victim], need):
                yield f"{victim.uuid} is not needed for {need}"
        if not self.ask.required_node:
            yield from self._broken_guarantees(victims)

    def _broken_guarantees(self, victims: Sequence[Allocated]) -> Iterator[str]:
        for victim in victims:
            for queue in self._below(victim):
                yield from broken_guarantee(self.book, queue, victim, victims)

    # all sets -------------------------------------------------------------------------------------------------------

    def best(self, nodes: Iterable[NodeView]) -> tuple[Cost, int] | None:
        """cost and number of victims of the best legal set on any of the nodes; None if none was found."""
        found = [one for node in nodes if self._may_take(node) for one in self._legal(node)]
        return min(found, default=None)

    def _may_take(self, node: NodeView) -> bool:
        room = Resources(node.capacity).minus(node.occupied)
        if not node.ready or room.lacks(self._size.items()) is not None:
            return False
        if self.ask.required_node:
            return node.node_id == self.ask.required_node
        other = self.book.reservations.get(Place(self.ask.application_id, self.ask.allocation_key, node.node_id))
        is_claimed = other is not None and other.fact.entitled and Place.of(other.fact) != self._own
        beside_own = own_room_invariants.room(self.book, node.node_id, self.ask.application_id)
        return node.schedulable and not is_claimed and beside_own.lacks(self._size.items()) is None

    def _legal(self, node: NodeView) -> Iterator[tuple[Cost, int]]:
        need = self.need(node.node_id)
        anywhere = not self.short(node.node_id) and not self.ask.required_node
        candidates = [
            one
            for one in self.book.allocations.values()
            if (anywhere or one.node_id == node.node_id)
            and self.objection(one, need) is None
            and any(one.resources[name] for name in need)
            and not self.is_protected(one, certainly=False)
        ]
        most = len(candidates) if len(candidates) <= CANDIDATES_MAX else FEW
        for size in range(most + 1):
            for victims in combinations(candidates, size):
                if frees(victims, need) and (self.ask.required_node or not any(self._broken_guarantees(victims))):
                    yield self.cost(victims), size

    def cost(self, victims: Iterable[Allocated]) -> Cost:
        """As a tuple that is smaller for the lesser cost; weighed by what there is of each resource."""
        unit = {name: 10**12 // amount for name, amount in self._whole.items() if amount > 0}
        weights: dict[tuple[int, int], int] = {}
        for victim in victims:
            rank = min(kinds(self._books, victim)), victim.priority
            weight = sum(amount * unit.get(name, 0) for name, amount in victim.resources.items())
            weights[rank] = weights.get(rank, 0) + weight
        return tuple(sorted(weights.items(), reverse=True))


def broken_guarantee(
    book: RoomBook, queue: QueueView, victim: Allocated, victims: Sequence[Allocated]
) -> Iterator[str]:
    """What a queue above the victim would be short of, if all of them ended, that the victim uses."""
    left = book.staying(queue.path)
    for one in victims:
        if is_below(one.queue, queue.path):
            left.subtract(one.resources.items())
    for name, amount in victim.resources.items():
        guaranteed = queue.guaranteed.get(name, 0)
        if amount and guaranteed > left[name]:
            yield f"{victim.uuid} leaves {name} {left[name]} to {queue.path}, which is guaranteed {guaranteed}"


def frees(victims: Iterable[Allocated], need: Mapping[str, int]) -> bool:
    """Whether they use at least so much."""
    return all(sum(one.resources[name] for one in victims) >= amount for name, amount in need.items())


def kinds(books: RoomBooks, victim: Allocated) -> set[int]:
    """2 for an originator, 1 for what would rather be spared, 0 for everything else; all that it may be, as the same
    ask may have come with other wishes."""
    asked = books.asked(victim.rm_id, victim.application_id, victim.allocation_key, victim.resources, victim.priority)
    if victim.recovered or not asked:
        return {int(is_opted_out(books, victim, certainly=True))}
    return {2 if one.originator else 0 if one.allow_preempt_self else 1 for one in asked}


def is_opted_out(books: RoomBooks, victim: Allocated, *, certainly: bool) -> bool:
    """Whether all asks, or any, that it may be of say so; of one that was reported, its tag (SEMANTICS I1)."""
    asked = books.asked(victim.rm_id, victim.application_id, victim.allocation_key, victim.resources, victim.priority)
    if victim.recovered or not asked:
        return victim.tags.get(ALLOW_PREEMPTION_TAG) == "false"
    say_so = [not one.allow_preempt_self for one in asked]
    return all(say_so) if certainly else any(say_so)
