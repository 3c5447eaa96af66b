"""What the nodes say of waiting pods, counted once for all pods of a class and size, and again when something changed.

Pods of one template ask for the same and are admitted by the same nodes, so one count stands for all of them. The rate
at which nodes are judged is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.node_resources_fit import is_counted
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal, Refusals
from schedulerd.kubernetes.predicates.words import Words, reasons, todays_words
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.reasons.sentences import Counts
from schedulerd.kubernetes.resources import CPU, PODS, VCORE, pod_requests

SECOND_NS = 1_000_000_000
AGAIN_NS = 10 * SECOND_NS
"""Between two counts for one class, if something changed."""
NODE_NS = 40_000
"""One node is judged in such a time on average: 25,000 in a second, which is a seventh of a processor."""
BURST_NS = SECOND_NS // 20
"""So much may be judged at once."""
SLICE = 500
"""Nodes judged before others may run: fewer if the pod says much of nodes, as each of them then costs more."""

_OTHER_NODE = Refusal("NodeAffinity", Kind.UNRESOLVABLE, Code.NODE_AFFINITY)


@dataclass(slots=True, eq=False)
class _Class:
    pods: dict[str, Pod] = field(default_factory=dict)
    """By uid."""
    counts: Counts | None = None
    counted_ns: int = 0
    version: int = -1
    """Of the cluster that was counted."""


class NodeCounts:
    def __init__(self, predicates: Predicates, words: Words = todays_words) -> None:
        self.version = 0
        """To be increased when nodes, or pods on them, have changed."""
        self.nodes_judged = 0
        """Nodes judged so far."""
        self._predicates = predicates
        self._words = words
        self._classes: dict[Hashable, _Class] = {}
        """Counted ones, the one that was counted first at the front."""
        self._new: dict[Hashable, _Class] = {}
        self._of: dict[str, Hashable] = {}
        """Class by uid of a pod."""
        self._free_ns = 0
        self._running: _Count | None = None

    def __len__(self) -> int:
        return len(self._classes) + len(self._new)

    def get(self, pod: Pod, uid: str = "") -> Counts | None:
        """What the nodes say; None if they are not counted yet: `count_due` tells when they are. With `uid` it is
        another pod that wants to know."""
        uid = uid or pod.metadata.uid
        known = self._known(self._of.get(uid))
        if known is not None and known.pods.get(uid) is pod:
            return known.counts
        key = class_and_size(self._predicates, pod)
        if self._of.get(uid, key) != key:
            self.forget(uid)
        known = self._known(key)
        if known is None:
            known = self._new[key] = _Class()
        known.pods[uid] = pod
        self._of[uid] = key
        return known.counts

    def _known(self, key: Hashable) -> _Class | None:
        return self._classes.get(key) or self._new.get(key)

    def forget(self, uid: str) -> None:
        key = self._of.pop(uid, None)
        if key is None:
            return
        for classes in (self._classes, self._new):
            known = classes.get(key)
            if known is not None:
                known.pods.pop(uid, None)
                if not known.pods:
                    del classes[key]

    def count_due(self, now_ns: int, waits: Callable[[str], bool]) -> list[str]:
        """Counts what is due, as far as the rate allows; the uids of pods of which the nodes say something else now."""
        changed: list[str] = []
        while self._free_ns < now_ns + BURST_NS:
            if self._running is None and not self._begin(now_ns, waits):
                break
            running = self._running
            assert running is not None
            cost = self._predicates.work(running.pod)
            judged = running.advance(max(1, SLICE // cost))
            self.nodes_judged += judged
            self._free_ns = max(self._free_ns, now_ns) + NODE_NS * max(1, judged) * cost
            if running.is_over:
                self._running = None
                changed += self._end(running, now_ns)
        return changed

    def _begin(self, now_ns: int, waits: Callable[[str], bool]) -> bool:
        """Starts a count; False if none is due."""
        while (key := self._first_due(now_ns)) is not None:
            classes = self._new if key in self._new else self._classes
            known = classes[key]
            for uid in [uid for uid in known.pods if not waits(uid)]:
                del known.pods[uid]
                del self._of[uid]
            if known.pods:
                self._running = _Count(
                    key, next(iter(known.pods.values())), self.version, self._predicates, self._words
                )
                return True
            del classes[key]
        return False

    def _end(self, count: _Count, now_ns: int) -> list[str]:
        """The pods of which the nodes say something else now."""
        known = self._new.pop(count.key, None) or self._classes.pop(count.key, None)
        if known is None:
            return []  # nobody waits for it any longer
        self._classes[count.key] = known  # at the end
        known.counted_ns, known.version = now_ns, count.version
        counts = count.result()
        if counts == known.counts:
            return []
        known.counts = counts
        return list(known.pods)

    def next_due_ns(self) -> int | None:
        """When something is to be counted; None if not before something changes."""
        if self._new or self._running is not None:
            return self._free_ns - BURST_NS + 1
        first = next(iter(self._classes.values()), None)
        if first is None or first.version == self.version:
            return None
        return max(first.counted_ns + AGAIN_NS, self._free_ns - BURST_NS + 1)

    def _first_due(self, now_ns: int) -> Hashable | None:
        for key in self._new:
            return key
        for key, known in self._classes.items():
            return key if known.version != self.version and known.counted_ns + AGAIN_NS <= now_ns else None
        return None


class _Count:
    """A count that is under way."""

    def __init__(self, key: Hashable, pod: Pod, version: int, predicates: Predicates, words: Words) -> None:
        self.key = key
        self.version = version
        """Of the cluster when it began."""
        self.pod = pod
        self._predicates = predicates
        self._words = words
        names = predicates.cache.node_names
        only = predicates.cache.daemon_sets.required_node(pod)
        self._nodes = len(names)
        self._names = [name for name in names if name == only] if only else names
        self._judged = self._refused = 0
        self._largest = {} if only else dict.fromkeys(_requests(pod), 0)
        """The most that a node has of what the pod asks for."""
        self._said: dict[Refusals, list[str]] = {}
        self._found: Counter[str] = Counter()
        if only:
            self._found.update(dict.fromkeys(reasons((_OTHER_NODE,), words), self._nodes - len(self._names)))

    @property
    def is_over(self) -> bool:
        return self._judged >= len(self._names)

    def advance(self, nodes: int) -> int:
        """Judges so many further nodes, if there are; how many it has."""
        names = self._names[self._judged : self._judged + nodes]
        self._note_largest(names)
        self._judged += len(names)
        refused = self._predicates.judge_all(self.pod, names=names)
        self._refused += len(refused)
        for refusals in refused.values():
            words = self._said.get(refusals)
            if words is None:
                words = self._said[refusals] = reasons(refusals, self._words)
            for word in words:
                self._found[word] += 1
        return len(names)

    def result(self) -> Counts:
        found = tuple(sorted((reason, count) for reason, count in self._found.items() if count))
        return Counts(self._nodes, found, len(self._names) - self._refused, self._too_large() if self._names else None)

    def _note_largest(self, names: Sequence[str]) -> None:
        largest = self._largest
        for facts in (self._predicates.cache.state.nodes[name].facts for name in names):
            if facts is not None:
                for name in largest:
                    largest[name] = max(largest[name], facts.allocatable.get(name, 0))

    def _too_large(self) -> tuple[str, int, int] | None:
        for name, amount in _requests(self.pod).items() if self._largest else ():
            if amount > self._largest[name]:
                return VCORE if name == CPU else name, amount, self._largest[name]
        return None


def _requests(pod: Pod) -> Mapping[str, int]:
    """What nodes compare of what the pod asks for; nothing if it cannot be read."""
    try:
        return {name: amount for name, amount in pod_requests(pod).items() if is_counted(name) and name != PODS}
    except MalformedQuantity:
        return {}


def class_and_size(predicates: Predicates, pod: Pod) -> Hashable:
    """Equal for pods of which every node says the same."""
    try:
        size = tuple(sorted(pod_requests(pod).items()))
    except MalformedQuantity:
        size = ()
    spec = pod.spec
    more = ""
    if predicates.callback_plugins(pod):
        ports = [one.ports for one in (*(spec.containers or ()), *(spec.init_containers or ())) if one.ports]
        metadata = pod.metadata
        own = (metadata.namespace, metadata.labels, spec.affinity, spec.topology_spread_constraints)
        more = repr((own, ports, spec.volumes, metadata.name if spec.volumes else ""))
    return predicates.node_class(pod), size, predicates.cache.daemon_sets.required_node(pod), more
