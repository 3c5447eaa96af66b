"""The counters of all constraints in use, and the pods they count.

Pods with the same namespace and labels are one group: a new counter is filled from groups, not from pods, and a pod
that comes or goes changes the counters of its group. Counters with the same filters have one selection of groups: a pod
with many affinity terms has as many counters, and the groups are compared with its filters once. A counter is in use
while a waiting pod has it. Up to `_IDLE_COUNTERS_MAX` more are kept, as pods of one template come in waves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schedulerd.kubernetes.predicates.node_state import NodeFacts, NodeState, change
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.predicates.selector_index import SelectorIndex
from schedulerd.kubernetes.predicates.terms import Eligibility, PodFilters
from schedulerd.kubernetes.predicates.topology_counts import CounterKey, Domains, SpreadCounter, TopologyCounter

_IDLE_COUNTERS_MAX = 256

_GroupKey = frozenset[tuple[str, str]]


class PodGroup:
    """Pods on nodes with the same namespace and labels."""

    __slots__ = ("key", "labels", "live", "namespace", "selections", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], key: _GroupKey) -> None:
        self.namespace = namespace
        self.labels = labels
        self.key = key
        self.live: dict[str, int] = {}
        """Pods by node name."""
        self.terminating: dict[str, int] = {}
        """Pods that are being deleted, by node name."""
        self.selections: dict[Selection, None] = {}
        """Those that have the group."""

    def counted_by(self, counter: TopologyCounter) -> Iterator[tuple[str, int]]:
        """Node names with the pods of the group that the counter counts there."""
        yield from self.live.items()
        if counter.eligibility is None:
            yield from self.terminating.items()


class Selection:
    """The groups whose pods match some filters, and all counters of these pods."""

    __slots__ = ("counters", "filters", "groups")

    def __init__(self, filters: PodFilters) -> None:
        self.filters = filters
        self.groups: dict[PodGroup, None] = {}
        self.counters: dict[TopologyCounter, None] = {}

    def add(self, group: PodGroup) -> None:
        self.groups[group] = None
        group.selections[self] = None

    def remove(self, group: PodGroup) -> None:
        del self.groups[group]
        del group.selections[self]


class Counters:
    def __init__(self, nodes: Mapping[str, NodeState], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.work = 0
        """Groups that were compared with filters or counted so far: what makes a counter cost time."""
        self._nodes = nodes
        self._namespaces = namespaces
        self._counters: dict[CounterKey, TopologyCounter] = {}
        self._users: dict[CounterKey, int] = {}
        self._idle: dict[CounterKey, None] = {}
        """Counters without users, those idle for longest first."""
        self._selections: dict[PodFilters, Selection] = {}
        """Each has a counter."""
        self._index: SelectorIndex[Selection] = SelectorIndex()
        self._groups: dict[str, dict[_GroupKey, PodGroup]] = {}
        """By namespace and labels."""
        self._domains: dict[Eligibility, Domains] = {}

    @property
    def in_use(self) -> int:
        """Counters that a waiting pod has; more are kept."""
        return len(self._users)

    @property
    def groups(self) -> int:
        """Namespaces and label sets that pods on nodes have."""
        return sum(map(len, self._groups.values()))

    def all(self) -> Iterable[TopologyCounter]:
        return self._counters.values()

    def acquire(self, key: CounterKey) -> TopologyCounter:
        """The counter for this, made now if nobody has it. Every `acquire` needs a `release`."""
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._made(key)
        self._users[key] = self._users.get(key, 0) + 1
        self._idle.pop(key, None)
        return counter

    def acquire_spread(self, key: CounterKey) -> SpreadCounter:
        """As `acquire`, for a key that says which nodes count."""
        counter = self.acquire(key)
        assert isinstance(counter, SpreadCounter)
        return counter

    def release(self, key: CounterKey) -> None:
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            self._idle[key] = None
            if len(self._idle) > _IDLE_COUNTERS_MAX:
                self._drop(next(iter(self._idle)))

    def pod_changed(self, pod: PodInfo, node: NodeState, by: int) -> None:
        """The pod came to the node (1) or left it (-1)."""
        group = self._group(pod)
        change(group.terminating if pod.is_terminating else group.live, node.name, by)
        for selection in group.selections:
            for counter in selection.counters:
                if not pod.is_terminating or counter.eligibility is None:
                    counter.pods_changed(node.name, node.facts, by)
        if not group.live and not group.terminating:
            self._forget(group)

    def node_changed(self, name: str, old: NodeFacts | None, new: NodeFacts | None) -> None:
        for domains in self._domains.values():
            domains.node_changed(old, new)
        for counter in self._counters.values():
            counter.node_changed(name, old, new)
            if counter.on_change is not None and isinstance(counter, SpreadCounter):
                counter.on_change(counter, "", 0)  # its values may be others, though no pod has moved

    def namespace_changed(self, namespace: str) -> None:
        """The labels of the namespace are others now: selectors for namespaces may find its pods, or no longer."""
        for group in self._groups.get(namespace, {}).values():
            after = self._matching(group)
            for selection in [one for one in group.selections if one not in after]:
                self._fill(selection.counters, group, -1)
                selection.remove(group)
            for selection in after:
                if selection not in group.selections:
                    self._fill(selection.counters, group, 1)
                    selection.add(group)

    def selects(self, filters: PodFilters, pod: PodInfo) -> bool:
        return self._selects(filters, pod.namespace, pod.labels)

    def _selects(self, filters: PodFilters, namespace: str, labels: Mapping[str, str]) -> bool:
        of_namespace = self._namespaces.get(namespace, {})
        for one in filters:  # noqa: SIM110 (a generator doubles the time)
            if not one.matches(namespace, of_namespace, labels):
                return False
        return True

    def _made(self, key: CounterKey) -> TopologyCounter:
        counter = self._new(key)
        selection = self._selections.get(key.filters)
        if selection is None:
            selection = self._selections[key.filters] = self._selected(key.filters)
        selection.counters[counter] = None
        for group in selection.groups:
            self._fill((counter,), group, 1)
        return counter

    def _selected(self, filters: PodFilters) -> Selection:
        selection = Selection(filters)
        self._index.add(selection, filters)
        for group in self._groups_of(filters):
            self.work += 1
            if self._selects(filters, group.namespace, group.labels):
                selection.add(group)
        return selection

    def _new(self, key: CounterKey) -> TopologyCounter:
        if key.eligibility is None:
            return TopologyCounter(key.topology_key, None, key)
        domains = self._domains.get(key.eligibility)
        if domains is None:
            domains = self._domains[key.eligibility] = Domains(key.eligibility)
            for node in self._nodes.values():
                self.work += 1
                domains.node_changed(None, node.facts)
        domains.users += 1
        return SpreadCounter(key, domains)

    def _drop(self, key: CounterKey) -> None:
        counter = self._counters.pop(key)
        del self._idle[key]
        selection = self._selections[key.filters]
        del selection.counters[counter]
        if not selection.counters:
            del self._selections[key.filters]
            self._index.remove(selection, key.filters)
            for group in list(selection.groups):
                selection.remove(group)
        if isinstance(counter, SpreadCounter):
            domains = counter.domains
            domains.users -= 1
            if domains.users == 0:
                del self._domains[domains.eligibility]

    def _groups_of(self, filters: PodFilters) -> Iterator[PodGroup]:
        """Groups that may match: those of the named namespaces, if no namespace is selected by labels."""
        namespaces: Iterable[str] = self._groups
        for one in filters:
            if one.scope.selector is None:
                namespaces = one.scope.names
        for namespace in namespaces:
            yield from self._groups.get(namespace, {}).values()

    def _fill(self, counters: Iterable[TopologyCounter], group: PodGroup, sign: int) -> None:
        for counter in counters:
            for name, pods in group.counted_by(counter):
                self.work += 1
                counter.pods_changed(name, self._nodes[name].facts, sign * pods)

    def _matching(self, group: PodGroup) -> dict[Selection, None]:
        return {
            selection: None
            for selection in self._index.candidates(group.namespace, group.labels)
            if self._selects(selection.filters, group.namespace, group.labels)
        }

    def _group(self, pod: PodInfo) -> PodGroup:
        groups = self._groups.get(pod.namespace)
        if groups is None:
            groups = self._groups[pod.namespace] = {}
        key = frozenset(pod.labels.items())
        group = groups.get(key)
        if group is None:
            group = groups[key] = PodGroup(pod.namespace, pod.labels, key)
            for selection in self._matching(group):
                selection.add(group)
        return group

    def _forget(self, group: PodGroup) -> None:
        groups = self._groups[group.namespace]
        del groups[group.key]
        for selection in list(group.selections):
            selection.remove(group)
        if not groups:
            del self._groups[group.namespace]
