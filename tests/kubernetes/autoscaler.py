"""What a cluster autoscaler does, of the kind that simulates: it packs the pods that are unschedulable on the room
that it sees free, adds nodes for the rest, and removes those that are empty.

It acts on nothing but pods without a node whose condition PodScheduled is False with the reason Unschedulable. It knows
nothing of a scheduler's quotas, gangs or held room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schedulerd.kubernetes.objects.pod import Pod, is_terminal
from schedulerd.kubernetes.resources import pod_requests

Amounts = Mapping[str, int]


@dataclass
class Autoscaler:
    """`template` is what a new node has: cpu in thousandths, all else in whole units."""

    template: Amounts
    added: list[str] = field(default_factory=list)
    """Names of the nodes that it has added and not removed."""
    grown: int = 0
    """How many it has added so far."""
    looks_that_added: int = 0

    def look(self, pods: Iterable[Pod], nodes: Mapping[str, Amounts]) -> tuple[list[str], list[str]]:
        """Names of nodes to add, and of nodes to remove."""
        living = [pod for pod in pods if not is_terminal(pod)]
        free = {name: dict(amounts) for name, amounts in nodes.items()}
        for pod in living:
            if pod.spec.node_name in free:
                _take(free[pod.spec.node_name], pod_requests(pod))
        new: list[str] = []
        for pod in sorted((pod for pod in living if is_unschedulable(pod)), key=lambda pod: pod.metadata.uid):
            needed = pod_requests(pod)
            if not _fits(self.template, needed):
                continue
            room = next((one for one in free.values() if _fits(one, needed)), None)
            if room is None:
                self.grown += 1
                new.append(f"grown-{self.grown}")
                room = free[new[-1]] = dict(self.template)
            _take(room, needed)
        used = {pod.spec.node_name for pod in living}
        gone = [] if new else [name for name in self.added if name in nodes and name not in used]
        gone = [name for name in gone if free[name] == dict(nodes[name])]
        self.added = [name for name in self.added if name not in gone] + new
        self.looks_that_added += bool(new)
        return new, gone


def is_unschedulable(pod: Pod) -> bool:
    """Whether an autoscaler acts on the pod."""
    return not pod.spec.node_name and any(
        (one.type, one.status, one.reason) == ("PodScheduled", "False", "Unschedulable")
        for one in pod.status.conditions or ()
    )


def _fits(room: Amounts, needed: Amounts) -> bool:
    return all(room.get(name, 0) >= amount for name, amount in needed.items())


def _take(room: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        room[name] = room.get(name, 0) - amount
