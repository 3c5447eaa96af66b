"""The reference of entitlement, asked about one ask with what the simulator's books say is used.

Of some allocations no fact tells which ask they are of, as the same ask may have come with other wishes; then the books
say what is certain and what is possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import OptOut, PreemptionPolicy, QueueProperties
from schedulerd.core.state.actions.taking_over import ALLOW_PREEMPTION_TAG
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.views.values import AskView, NodeView, PartitionView
from tests.reference.entitlement import (
    OPTED_OUT,
    ORDINARY,
    ORIGINATOR,
    Cost,
    Demand,
    Entitlement,
    Occupant,
    QueueRules,
    cost,
    frees,
)
from tests.sim import own_room_invariants
from tests.sim.room_books import Place, RoomBook, RoomBooks

CANDIDATES_MAX = 9
"""With more of them, only the sets of up to `FEW` are looked at."""
FEW = 2


class BookedEntitlement(Entitlement):
    """One pending allocation of an ask at a moment.

    `own` is what is reserved for it already; it does not count against it.
    """

    def __init__(
        self, books: RoomBooks, book: RoomBook, partition: PartitionView, ask: AskView, leaf: str, own: Place | None
    ) -> None:
        assert book.spec is not None
        self.ask = ask
        self.book = book
        self._books = books
        self._own = own
        self._queues = {queue.path: queue for queue in partition.queues}
        only = (node.capacity for node in partition.nodes if node.node_id == ask.required_node)
        self._whole = next(only, partition.total)
        item = next(one for one in partition.applications if one.application_id == ask.application_id)
        pending = sum(one.pending for one in item.asks if one.placeholder)
        is_part = ask.placeholder and pending > 1
        demand = Demand(ask.application_id, leaf, ask.priority, ask.resources, ask.required_node, is_part)
        super().__init__(demand, self._rules_of, self, book.spec.preemption_optout)

    def _rules_of(self, path: str) -> QueueRules:
        """As they are shown, but for priorities, of which the file tells."""
        queue = self._queues[path]
        properties = self.book.properties.get(path, QueueProperties())
        return QueueRules(
            queue.guaranteed,
            queue.max,
            PreemptionPolicy(queue.preemption_policy),
            properties.priority_policy,
            properties.priority_offset,
            properties.preemption_within_queue,
        )

    def staying(self, queue: str) -> Resources:
        return self.book.staying(queue)

    def reserved(self, queue: str) -> Resources:
        return self.book.quota_reserved(queue, but=self._own)

    # sets of victims ------------------------------------------------------------------------------------------------

    def short(self, node_id: str) -> dict[str, int]:
        """What the node lacks when all has gone that was asked to."""
        book = self.book
        room = book.available(node_id).plus(book.leaving_from(node_id))
        if self.ask.required_node and self._own is not None:
            room = room.minus(book.before(self._own))
        else:
            room = room.minus(book.kept_on(node_id, but=self._own, firm_only=True))
        return {name: amount - room[name] for name, amount in self.ask.resources.items() if amount > room[name]}

    def objections(self, node_id: str, victims: Sequence[Allocated]) -> Iterator[str]:
        """Everything that is against these victims, all of them, for this node."""
        short = self.short(node_id)
        need = self.need(short)
        occupants = self.occupants(victims)
        for one in occupants:
            text = self.objection(one, need)
            if text is None and (short or self.ask.required_node) and one.node_id != node_id:
                text = f"runs on {one.node_id}"
            if text is not None:
                yield f"{one.uuid} {text}"
        if not frees(occupants, need):
            yield f"they free {[dict(one.resources) for one in occupants]} of the {need} that is needed"
        for one in occupants:
            if frees([other for other in occupants if other is not one], need):
                yield f"{one.uuid} is not needed for {need}"
        yield from self.broken_guarantees(occupants, need)

    def best(self, nodes: Iterable[NodeView]) -> tuple[Cost, int] | None:
        """Cost and number of victims of the best legal set on any of the nodes; None if none was found, or if a node
        gets room and the ask has its priority only."""
        nodes = list(nodes)
        if not self.has_guarantee and not self.lacking and any(map(self._gets_room, filter(self._may_take, nodes))):
            return None
        found = [one for node in nodes if self._may_take(node) for one in self._legal(node)]
        return min(found, default=None)

    def _may_take(self, node: NodeView) -> bool:
        size = [(name, amount) for name, amount in self.ask.resources.items() if amount]
        room = Resources(node.capacity).minus(node.occupied)
        if not node.ready or room.lacks(size) is not None:
            return False
        if self.ask.required_node:
            return node.node_id == self.ask.required_node
        beside_own = own_room_invariants.room(self.book, node.node_id, self.ask.application_id)
        return node.schedulable and beside_own.lacks(size) is None

    def _gets_room(self, node: NodeView) -> bool:
        """Whether the node has room when all has gone that was asked to, beside all that is reserved for others."""
        room = self.book.available(node.node_id).plus(self.book.leaving_from(node.node_id))
        asks_own = self.book.places(self.ask.application_id, self.ask.allocation_key)
        aging = (
            one for one in asks_own if one.node_id == node.node_id and not self.book.reservations[one].fact.entitled
        )
        own = self._own or next(aging, None)
        return room.minus(self.book.kept_on(node.node_id, but=own)).lacks(self._size.items()) is None

    def _legal(self, node: NodeView) -> Iterator[tuple[Cost, int]]:
        short = self.short(node.node_id)
        need = self.need(short)
        anywhere = not short and not self.ask.required_node
        there = [one for one in self.book.allocations.values() if anywhere or one.node_id == node.node_id]
        candidates = [
            occupant
            for one, occupant in zip(there, self.occupants(there), strict=True)
            if self.objection(occupant, need) is None
            and any(occupant.resources[name] for name in need)
            and not self._may_be_protected(one)
        ]
        for victims in self.victim_sets(need, candidates, None if len(candidates) <= CANDIDATES_MAX else FEW):
            yield cost(victims, self._whole), len(victims)

    def _may_be_protected(self, one: Allocated) -> bool:
        return self._opt_out is OptOut.NEVER and is_opted_out(self._books, one, certainly=False)

    def cost(self, victims: Iterable[Allocated]) -> Cost:
        return cost(self.occupants(victims), self._whole)

    def occupants(self, allocations: Iterable[Allocated]) -> list[Occupant]:
        return [occupant(self._books, self.book, one) for one in allocations]


def occupant(books: RoomBooks, book: RoomBook, one: Allocated) -> Occupant:
    """The allocation as far as it is certain what it is."""
    return Occupant(
        one.uuid,
        one.application_id,
        one.queue,
        one.node_id,
        one.priority,
        one.resources,
        min(kinds(books, one)),
        is_opted_out(books, one, certainly=True),
        one.uuid in book.leaving,
        bool(one.tags.get(REQUIRED_NODE_TAG)),
    )


def kinds(books: RoomBooks, one: Allocated) -> set[int]:
    """All that it may be, as the same ask may have come with other wishes."""
    asked = books.asked_for(one)
    if one.recovered or not asked:
        return {OPTED_OUT if is_opted_out(books, one, certainly=True) else ORDINARY}
    return {ORIGINATOR if ask.originator else ORDINARY if ask.allow_preempt_self else OPTED_OUT for ask in asked}


def is_opted_out(books: RoomBooks, one: Allocated, *, certainly: bool) -> bool:
    """Whether all asks, or any, that it may be of say so; of one that was reported, its tag (SEMANTICS I1)."""
    asked = books.asked_for(one)
    if one.recovered or not asked:
        return one.tags.get(ALLOW_PREEMPTION_TAG) == "false"
    say_so = [not ask.allow_preempt_self for ask in asked]
    return all(say_so) if certainly else any(say_so)
