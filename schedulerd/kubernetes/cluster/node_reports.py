"""Nodes as the daemon knows them: what they have, what others use of it, labels and classes as attributes.

Changes are collected, and reported once per node at the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schedulerd.kubernetes.cluster.effects import UpdateNode
from schedulerd.kubernetes.cluster.node_classes_in_use import NodeClassesInUse
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.predicates.node_classes import HOST_NAME_ATTRIBUTE
from schedulerd.kubernetes.predicates.node_state import NodeFacts
from schedulerd.kubernetes.resources import scheduler_names

RESERVED_LABELS = frozenset({"ready", "hostname"})
"""Attributes that mean something else to the daemon."""
_RESERVED_PREFIX = "si/"


@dataclass(slots=True)
class NodeReport:
    """A node that exists."""

    name: str
    uid: str
    facts: NodeFacts
    is_created: bool = False
    """The daemon was told of it, and has not rejected it."""
    failures: int = 0
    """In a row: rejections."""
    resources: dict[str, int] = field(default_factory=dict)
    """As reported last; so are the next two."""
    occupied: dict[str, int] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)


class NodeReports:
    def __init__(self, classes_max: int) -> None:
        self.classes = NodeClassesInUse(classes_max)
        self.known: dict[str, NodeReport] = {}
        self.changed: dict[str, None] = {}
        """Names of nodes with something to report."""
        self.unanswered: set[str] = set()
        """Names of nodes that the daemon was told of, and has not answered: they are left alone until it has."""
        self.to_remove: set[str] = set()
        """Of these, those that were deleted meanwhile."""
        self._users: dict[str, tuple[str, dict[str, int]]] = {}
        """By uid of a pod that has no allocation: its node and what it uses there."""
        self._used: dict[str, dict[str, int]] = {}
        """By node: sums of `_users`; nodes need not be known."""

    def put(self, node: Node, facts: NodeFacts) -> NodeReport:
        name, uid = node.metadata.name, node.metadata.uid
        report = self.known.get(name)
        if report is None:
            report = self.known[name] = NodeReport(name, uid, facts)
            self.changed[name] = None
        elif report.facts != facts:
            report.facts = facts
            self.changed[name] = None
        report.uid = uid
        return report

    def remove(self, name: str) -> NodeReport | None:
        self.changed.pop(name, None)
        return self.known.pop(name, None)

    def is_created(self, name: str) -> bool:
        report = self.known.get(name)
        return report is not None and report.is_created

    def occupy(self, uid: str, node: str, amounts: dict[str, int]) -> None:
        """The pod uses so much of the node, and has no allocation there."""
        if self._users.get(uid) == (node, amounts):
            return
        self.vacate(uid)
        self._users[uid] = (node, amounts)
        self._count(node, amounts, 1)

    def vacate(self, uid: str) -> None:
        """The pod is gone, or has an allocation now."""
        found = self._users.pop(uid, None)
        if found is not None:
            self._count(*found, -1)

    def all_changed(self) -> None:
        """A class has come or gone: every node may have other attributes."""
        self.changed.update(dict.fromkeys(self.known))

    def current(self, report: NodeReport) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
        """Resources, occupied and attributes as they are now."""
        facts = report.facts
        attributes = {
            key: value
            for key, value in facts.labels.items()
            if key not in RESERVED_LABELS and not key.startswith(_RESERVED_PREFIX)
        }
        attributes.update(self.classes.attributes(facts))
        attributes[HOST_NAME_ATTRIBUTE] = facts.name
        used = {name: amount for name, amount in self._used.get(facts.name, {}).items() if amount}
        return scheduler_names(facts.allocatable), used, attributes

    def update(self, report: NodeReport) -> UpdateNode | None:
        """What the daemon has to be told of a node that it knows; None if nothing."""
        resources, occupied, attributes = self.current(report)
        change = UpdateNode(
            report.name,
            resources if resources != report.resources else None,
            occupied if occupied != report.occupied else None,
            attributes if attributes != report.attributes else None,
        )
        if change == UpdateNode(report.name):
            return None
        report.resources, report.occupied, report.attributes = resources, occupied, attributes
        return change

    def _count(self, node: str, amounts: dict[str, int], by: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + by * amount
            if not used[name]:
                del used[name]
        if not used:
            del self._used[node]
        if node in self.known:
            self.changed[node] = None
