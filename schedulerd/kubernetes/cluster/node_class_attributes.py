"""Classes of pods that nodes carry attributes for: counted by use, few at a time, new ones at most once a second.

A node is judged anew for every class when its labels or taints change, and every node when a class comes. So classes
are bounded in number and in how often they come; pods of other classes are asked about one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.predicates.node_class import NodeClass, refusal_attribute
from schedulerd.kubernetes.predicates.node_state import NodeFacts

PASS_EVERY_NS = SECOND_NS
IDLE_NS = 300 * SECOND_NS
ALLOWED = "true"


@dataclass(slots=True)
class _Used:
    node_class: NodeClass
    pods: int = 0
    idle_since_ns: int = 0


class NodeClassAttributes:
    def __init__(self, classes_max: int) -> None:
        self._max = classes_max
        self._used: dict[str, _Used] = {}
        self._wanted: dict[str, NodeClass] = {}
        self._next_pass_ns: int | None = None

    @property
    def next_pass_ns(self) -> int | None:
        """When classes that are wanted may come; None if none is wanted."""
        return self._next_pass_ns if self._wanted else None

    def acquire(self, node_class: NodeClass, attribute: str, now_ns: int) -> tuple[str, bool]:
        """The attribute that stands for the class, and whether it is new; empty if nodes do not carry it (yet)."""
        used = self._used.get(attribute)
        is_new = used is None
        if used is None:
            if len(self._used) >= self._max:
                return "", False
            if self._next_pass_ns is not None and now_ns < self._next_pass_ns:
                self._wanted[attribute] = node_class
                return "", False
            used = self._used[attribute] = _Used(node_class)
        used.pods += 1
        return attribute, is_new

    def release(self, attribute: str, now_ns: int) -> bool:
        """A pod needs the class no longer; whether it was the last one."""
        used = self._used[attribute]
        used.pods -= 1
        used.idle_since_ns = now_ns
        return used.pods == 0

    def passed(self, now_ns: int) -> None:
        """All nodes are being judged for new classes."""
        self._next_pass_ns = now_ns + PASS_EVERY_NS

    def add_wanted(self, now_ns: int) -> bool:
        """Takes up the classes that were wanted; whether there are any."""
        added = False
        for attribute, node_class in self._wanted.items():
            if attribute not in self._used and len(self._used) < self._max:
                self._used[attribute] = _Used(node_class, idle_since_ns=now_ns)
                added = True
        self._wanted.clear()
        return added

    def drop_idle(self, now_ns: int) -> bool:
        """Forgets the classes that no pod has used for long; whether there were any."""
        idle = [
            attribute
            for attribute, used in self._used.items()
            if not used.pods and now_ns - used.idle_since_ns >= IDLE_NS
        ]
        for attribute in idle:
            del self._used[attribute]
        return bool(idle)

    def attributes(self, facts: NodeFacts) -> dict[str, str]:
        """Of a node: one per class, which says that it admits the class, or in words why it does not."""
        found = {}
        for attribute, used in self._used.items():
            if used.node_class.admits(facts):
                found[attribute] = ALLOWED
            else:
                found[refusal_attribute(attribute)] = used.node_class.why_not(facts)
        return found
