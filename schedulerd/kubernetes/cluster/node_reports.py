"""Nodes as the daemon knows them: what they have, what others use of it, labels and classes as attributes.

Changes are collected, and reported once per node at the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schedulerd.kubernetes.cluster.effects import Amounts, ExistingAllocation, UpdateNode
from schedulerd.kubernetes.cluster.node_class_attributes import NodeClassAttributes
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.predicates.node_class import HOST_NAME_ATTRIBUTE, is_attribute
from schedulerd.kubernetes.predicates.node_state import NodeFacts
from schedulerd.kubernetes.resources import scheduler_names


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
    is_doubtful: bool = False
    """An update was rejected: what the daemon knows may not be what was reported last."""
    arrived: dict[str, None] = field(default_factory=dict)
    """Uids of pods that are to be reported as running there, with the next update."""


class NodeReports:
    def __init__(self, classes_max: int) -> None:
        self.classes = NodeClassAttributes(classes_max)
        self.known: dict[str, NodeReport] = {}
        self.changed: dict[str, None] = {}
        """Names of nodes with something to report."""
        self.unanswered: set[str] = set()
        """Names of nodes that the daemon was told of, and has not answered: they are left alone until it has."""
        self.to_remove: set[str] = set()
        """Of these, those that were deleted meanwhile."""
        self._users: dict[str, tuple[str, Amounts]] = {}
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

    def is_there(self, name: str) -> bool:
        """The daemon has the node, and can be told of changes."""
        report = self.known.get(name)
        return report is not None and report.is_created and name not in self.unanswered

    def occupy(self, uid: str, node: str, amounts: Amounts) -> None:
        """The pod uses so much of the node, and has no allocation there."""
        if self._users.get(uid) == (node, amounts):
            return
        self.vacate(uid)
        self._users[uid] = (node, amounts)
        self._count(node, amounts, 1)

    def recount(self, uid: str, amounts: Amounts) -> None:
        """The pod uses so much now, if it is one that is counted as occupied."""
        found = self._users.get(uid)
        if found is not None:
            self.occupy(uid, found[0], amounts)

    def vacate(self, uid: str) -> None:
        """The pod is gone, or has an allocation now."""
        found = self._users.pop(uid, None)
        if found is not None:
            self._count(*found, -1)

    def arrive(self, uid: str, node: str) -> None:
        """The pod runs on the node, and the daemon does not know it there, or not with these amounts."""
        report = self.known.get(node)
        if report is not None and report.is_created:
            report.arrived[uid] = None
            self.changed[node] = None

    def all_changed(self) -> None:
        """A class has come or gone: every node may have other attributes."""
        self.changed.update(dict.fromkeys(self.known))

    def current(self, report: NodeReport) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
        """Resources, occupied and attributes as they are now."""
        facts = report.facts
        attributes = {key: value for key, value in facts.labels.items() if is_attribute(key)}
        attributes.update(self.classes.attributes(facts))
        attributes[HOST_NAME_ATTRIBUTE] = facts.name
        used = {name: amount for name, amount in self._used.get(facts.name, {}).items() if amount}
        return scheduler_names(facts.allocatable), used, attributes

    def update(self, report: NodeReport, existing: tuple[ExistingAllocation, ...]) -> UpdateNode | None:
        """What the daemon has to be told of a node that it knows; None if nothing."""
        resources, occupied, attributes = self.current(report)
        is_doubtful, report.is_doubtful = report.is_doubtful, False
        change = UpdateNode(
            report.name,
            resources if is_doubtful or resources != report.resources else None,
            occupied if is_doubtful or occupied != report.occupied else None,
            attributes if is_doubtful or attributes != report.attributes else None,
            existing,
        )
        if change == UpdateNode(report.name):
            return None
        report.resources, report.occupied, report.attributes = resources, occupied, attributes
        return change

    def _count(self, node: str, amounts: Amounts, by: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + by * amount
            if not used[name]:
                del used[name]
        if not used:
            del self._used[node]
        if node in self.known:
            self.changed[node] = None
