"""Nodes for all slots of a gang at once, in the domains that its topology requires or prefers.

A required level: of the domains that have room, the one that has least left. A preferred level: the same, else as few
domains as possible, the largest room first. Task groups are placed one after the other, those that require a level
first; a choice is not changed for a later group. So for task groups of one request class and one level a plan is found
whenever there is one, and no other plan has fewer domains; otherwise within these limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.model.gang import GangPlan
from schedulerd.core.state.nodes.packing import Bin, packed, ranked
from schedulerd.core.state.nodes.room_index import INDEXES_MAX

if TYPE_CHECKING:
    from schedulerd.core.language.resources import Resources
    from schedulerd.core.language.task_groups import DeclaredGroup
    from schedulerd.core.state.model.gang import Gang
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.nodes.placing import Placing
    from schedulerd.core.state.nodes.room_index import RoomIndex
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.ask_group import AskGroup
    from schedulerd.core.state.pending.request_class import RequestClass

DOMAINS_TRIED_MAX = 8
"""Domains with enough room for each request class alone that are tried for all of them together."""
DOMAINS_COMPARED_MAX = 16
"""Domains that are compared for the next part of a task group of several request classes, if none has room for all."""
COUNTED_MAX = 1_500
"""Most nodes that are counted for an index in one step."""

Where: TypeAlias = "tuple[tuple[str, str], ...]"
"""Attributes, and the value that the nodes must have of each."""


class Planner:
    """Finds a plan for the slots of one gang that have no room."""

    __slots__ = ("_counts", "_gang", "_groups", "_partition", "_placing", "_plan", "found", "short", "visits")

    def __init__(self, partition: Partition, gang: Gang, slots: Iterable[AskGroup], placing: Placing) -> None:
        self._partition = partition
        self._gang = gang
        self._placing = placing
        self._groups: dict[str, list[AskGroup]] = {}
        for group in ranked(partition, slots, lambda one: one.request_class):
            self._groups.setdefault(group.task_group, []).append(group)
        self._counts = {group: group.pending for groups in self._groups.values() for group in groups}
        """Once, because a placing that allocates lowers `AskGroup.pending`."""
        self._plan = GangPlan([], {})
        self.visits = 0
        """Domains and nodes visited."""
        self.short: AskGroup | None = None
        """Without a plan: the slots that had no node in the try that found most."""
        self.found = 0
        """How many had one there."""

    def is_ready(self, *, if_empty: bool = False) -> bool:
        """Whether all that the plan needs to know is counted; if not, a part was counted by this call. A gang of so
        many sizes that it needs more indexes than are kept is counted at once."""
        needed = {
            (attribute, group.request_class): None
            for name, groups in self._groups.items()
            for attribute in self._attributes(name)
            for group in groups
        }
        rooms, nodes = self._partition.rooms, self._partition.nodes.values()
        is_sliced = len(needed) <= INDEXES_MAX // 2
        for attribute, request_class in needed:
            index = rooms.of(nodes, attribute, request_class, if_empty=if_empty)
            self.visits += index.refresh(COUNTED_MAX if is_sliced else len(index.changed))
            if index.changed:
                return False
        return True

    def plan(self) -> GangPlan | None:
        """None: there is no room."""
        names = sorted(self._groups, key=lambda name: not self._gang.declared[name].required_topology)
        first = self._gang.declared[names[0]] if names else None
        if first is not None and first.whole_level and not self._is_bound(names[0], first.whole_level):
            return self._plan if self._place_whole(names, first) else None
        return self._plan if all(self._place(name, ()) for name in names) else None

    def _place_whole(self, names: Sequence[str], first: DeclaredGroup) -> bool:
        """All task groups have one level in common."""
        attribute = self._partition.spec.topology_attribute(first.whole_level)
        if attribute is not None:
            groups = [group for name in names for group in self._groups[name]]
            for value in self._with_room(groups, attribute, ()):
                if self._try(names, ((attribute, value),)):
                    if first.whole_required:
                        for name in names:
                            self._bind(name, attribute, value)
                    return True
        return not first.whole_required and all(self._place(name, ()) for name in names)

    def _try(self, names: Sequence[str], where: Where) -> bool:
        mark, planned, bound = self._placing.mark(), len(self._plan.nodes), dict(self._plan.domains)
        if all(self._place(name, where) for name in names):
            return True
        self._placing.back_to(mark)
        del self._plan.nodes[planned:]
        self._plan.domains.clear()
        self._plan.domains.update(bound)
        return False

    def _place(self, name: str, where: Where) -> bool:
        """Finds nodes for the slots of a task group, all of them among those of `where`."""
        group, groups = self._gang.declared[name], self._groups[name]
        attribute = self._partition.spec.topology_attribute(group.level) if group.level else None
        if group.level and self._is_bound(name, group.level):
            return self._fill(groups, where)
        if attribute is None:  # without a level, or a new queue file does not have it
            return not group.required_topology and self._fill(groups, where)
        for value in self._with_room(groups, attribute, where):
            if self._fill(groups, (*where, (attribute, value))):
                if group.required_topology:
                    self._bind(name, attribute, value)
                return True
        return not group.required_topology and self._spread(groups, attribute, where)

    def _bind(self, name: str, attribute: str, value: str) -> None:
        known = self._plan.domains.get(name) or self._bound_to(name)
        self._plan.domains[name] = (*known, Expression(attribute, Operator.IN, (value,)))

    def _bound_to(self, name: str) -> tuple[Expression, ...]:
        domain = self._gang.domains.get(name)
        return () if domain is None else domain.node

    def _is_bound(self, name: str, level: str) -> bool:
        """Whether the domain of this level is decided for the task group."""
        attribute, bound = self._partition.spec.topology_attribute(level), self._bound_to(name)
        return bool(bound) and (attribute is None or any(one.key == attribute for one in bound))

    def _fill(self, groups: Sequence[AskGroup], where: Where) -> bool:
        """Finds nodes for all slots of these groups; if there is no room for all, for none. Of several sizes, a second
        try packs them tightly."""
        return self._fill_by(groups, where, is_tight=False) or (
            bool(where) and len(groups) > 1 and self._fill_by(groups, where, is_tight=True)
        )

    def _fill_by(self, groups: Sequence[AskGroup], where: Where, *, is_tight: bool) -> bool:
        mark, planned = self._placing.mark(), len(self._plan.nodes)
        for group in groups:
            count = self._counts[group]
            nodes = self._placing.take(group, count, self._nodes(group.request_class, where), is_tight=is_tight)
            self._plan.nodes.append((group, nodes))
            if len(nodes) < count:
                self._note_short(group, self._plan.size)
                self._placing.back_to(mark)
                del self._plan.nodes[planned:]
                return False
        return True

    def _spread(self, groups: Sequence[AskGroup], attribute: str, where: Where) -> bool:
        """As `_fill`, in as few domains as possible; what has room in none of them, on any nodes."""
        left = {group: self._counts[group] for group in groups}
        found: dict[AskGroup, list[Node]] = {group: [] for group in groups}
        rooms = {group: self._rooms(group.request_class, attribute, where) for group in groups}

        def gain(value: str) -> int:
            return sum(min(count, rooms[group].get(value, 0)) for group, count in left.items())

        values = dict.fromkeys(value for room in rooms.values() for value in room)
        largest = sorted(values, key=lambda value: (-gain(value), value))
        while largest and any(left.values()):
            window = largest[: DOMAINS_COMPARED_MAX if len(groups) > 1 else 1]
            value = max(window, key=gain)
            if gain(value) == sum(left.values()):  # the last one: that which has least room left then
                enough = [one for one in largest if gain(one) == gain(value)]
                value = min(enough, key=lambda one: (sum(room.get(one, 0) for room in rooms.values()), one))
            self.visits += len(window)
            largest.remove(value)
            for group, count in left.items():
                nodes = self._nodes(group.request_class, (*where, (attribute, value)))
                got = self._placing.take(group, count, nodes) if count else []
                found[group] += got
                left[group] -= len(got)
        for group, count in left.items():
            got = self._placing.take(group, count, self._nodes(group.request_class, where)) if count else []
            if len(got) < count:
                self._note_short(group, self._plan.size + sum(map(len, found.values())) + len(got))
                return False
            self._plan.nodes.append((group, found[group] + got))
        return True

    def _note_short(self, group: AskGroup, found: int) -> None:
        if self.short is None or found > self.found:
            self.short, self.found = group, found

    def _with_room(self, groups: Sequence[AskGroup], attribute: str, where: Where) -> list[str]:
        """The domains that have room for each request class of the groups alone: those first that would have least
        left."""
        wanted = self._wanted(groups)
        rooms = {one: self._rooms(one, attribute, where) for one in wanted}
        slack = _slack(wanted, rooms)
        if not slack:
            for group in groups:
                self._note_short(
                    group, min(self._counts[group] - 1, max(rooms[group.request_class].values(), default=0))
                )
        return [value for _, value in nsmallest(DOMAINS_TRIED_MAX, ((more, value) for value, more in slack.items()))]

    def _wanted(self, groups: Iterable[AskGroup]) -> dict[RequestClass, int]:
        """How many allocations of each request class the groups need."""
        wanted: dict[RequestClass, int] = {}
        for group in groups:
            wanted[group.request_class] = wanted.get(group.request_class, 0) + self._counts[group]
        return wanted

    def _rooms(self, request_class: RequestClass, attribute: str, where: Where) -> dict[str, int]:
        """How many allocations each domain has room for, beside what was chosen."""
        index = self._index(attribute, request_class)
        if where:
            rooms: dict[str, int] = {}
            nodes = self._nodes(request_class, where) or {}
            for node, room in nodes.items():
                value = index.value_on(node)
                if value is not None:
                    rooms[value] = rooms.get(value, 0) + room
            self.visits += len(nodes)
        else:
            nodes = None
            rooms = {value: domain.room for value, domain in index.domains.items()}
            self.visits += len(rooms)
        for node, left in self._placing.left.items():
            value = index.value_on(node)
            room = index.room_on(node) if nodes is None else nodes.get(node, 0)
            if room and value is not None:
                rooms[value] -= room - min(
                    room, min((left[name] // amount for name, amount in request_class.items), default=room)
                )
        return rooms

    def _nodes(self, request_class: RequestClass, where: Where) -> Mapping[Node, int] | None:
        """The nodes there that have room, with how much each has; None for all nodes."""
        if not where:
            return None
        (attribute, value), *others = reversed(where)
        index = self._index(attribute, request_class)
        domain = index.domains.get(value)
        nodes: Mapping[Node, int] = domain.nodes if domain is not None else {}
        if others:
            self.visits += len(nodes)
            nodes = {
                node: room for node, room in nodes.items() if all(node.attribute(key) == one for key, one in others)
            }
        return nodes

    def _index(self, attribute: str, request_class: RequestClass, *, if_empty: bool = False) -> RoomIndex:
        """The index, up to date: what changed since `is_ready` is what was chosen meanwhile."""
        index = self._partition.rooms.of(self._partition.nodes.values(), attribute, request_class, if_empty=if_empty)
        self.visits += index.refresh(len(index.changed))
        return index

    def _attributes(self, name: str) -> list[str]:
        """The attributes of the levels for which the task group has no domain yet."""
        group = self._gang.declared[name]
        levels = [one for one in (group.whole_level, group.level) if one and not self._is_bound(name, one)]
        found = [self._partition.spec.topology_attribute(level) for level in levels]
        return [one for one in found if one is not None]

    def domains_if_empty(self) -> dict[str, tuple[Expression, ...]] | None:
        """For each task group with a required level and no domain yet, the domain to hold its slots one by one in: one
        that could have all of them if nothing ran there, and has room for most of them now. None if there is none."""
        found: dict[str, tuple[Expression, ...]] = {}
        left: dict[Node, Resources] = {}
        names = [*self._groups]
        whole = self._gang.declared[names[0]].whole_required if names else ""
        if whole and not self._is_bound(names[0], whole):
            chosen = self._if_empty([group for name in names for group in self._groups[name]], whole, (), {})
            if chosen is None:
                return None
            found = dict.fromkeys(names, (chosen,))
        for name in names:
            level, within = self._gang.declared[name].required_topology, found.get(name) or self._bound_to(name)
            if level and not self._is_bound(name, level):
                chosen = self._if_empty(self._groups[name], level, within, left)
                if chosen is None:
                    return None
                found[name] = (*within, chosen)
        return found

    def _if_empty(
        self, groups: Sequence[AskGroup], level: str, within: Sequence[Expression], left: dict[Node, Resources]
    ) -> Expression | None:
        """`left` is what the nodes would have, if not all, for these groups, and what they would have after them."""
        attribute = self._partition.spec.topology_attribute(level)
        if attribute is None:
            return None
        wanted = self._wanted(groups)
        indexes = {one: self._index(attribute, one, if_empty=True) for one in wanted}
        slack = _slack(wanted, {one: {v: d.room for v, d in index.domains.items()} for one, index in indexes.items()})
        now = {one: self._rooms(one, attribute, ()) for one in wanted}
        self.visits += len(slack)

        def order(value: str) -> tuple[int, int, str]:
            return -sum(min(count, now[one].get(value, 0)) for one, count in wanted.items()), slack[value], value

        first = indexes[next(iter(wanted))]
        for value in nsmallest(DOMAINS_TRIED_MAX, slack, key=order):
            nodes = [
                node
                for node in first.domains[value].nodes
                if all(node.attribute(one.key) in one.values for one in within)
            ]
            self.visits += len(nodes)
            bins = [Bin(left[node] if node in left else node.capacity.minus(node.occupied), 1, node) for node in nodes]
            rest = packed(self._partition, wanted.items(), bins)
            if rest is not None:
                left.update((one.node, one.room) for one in rest if one.node is not None)
                return Expression(attribute, Operator.IN, (value,))
        return None


def _slack(wanted: Mapping[RequestClass, int], rooms: Mapping[RequestClass, Mapping[str, int]]) -> dict[str, int]:
    """Of the domains with room for each of the classes alone: how much more they have room for."""
    slack: dict[str, int] | None = None
    for request_class, count in wanted.items():
        more = {value: room - count for value, room in rooms[request_class].items() if room >= count}
        slack = more if slack is None else {value: one + more[value] for value, one in slack.items() if value in more}
    return slack or {}
