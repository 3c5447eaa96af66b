"""What is so, whoever may have died: pods, the nodes they are bound to, and when a gang is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

POD_MEMORY, POD_VCORE = 10, 1
"""Raw integers as in messages."""


@dataclass(frozen=True, slots=True)
class Plan:
    """So many gangs, all alike, on nodes that have room for a number of pods each."""

    gangs: int
    members: int
    nodes: int
    slots: int

    @property
    def pods(self) -> int:
        """Real ones; there are as many placeholders."""
        return self.gangs * self.members

    @property
    def changes(self) -> int:
        """Every placeholder is bound and goes, every real pod is bound."""
        return 3 * self.pods

    @property
    def gang_names(self) -> list[str]:
        return [f"gang-{number:03d}" for number in range(self.gangs)]

    @property
    def node_names(self) -> list[str]:
        return [f"node-{number:05d}" for number in range(self.nodes)]


@dataclass(slots=True)
class Pod:
    name: str
    gang: str
    placeholder: bool
    uid: str
    node: str = ""
    """Where it is bound; '' while it is not."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: every placeholder is created, bound and gone, every real pod created and bound."""

    placeholders_bound: int
    """So far, gone or not."""
    placeholders_gone: int
    reals_created: int
    reals_bound: int

    @property
    def changes(self) -> int:
        """How many of `Plan.changes` have happened."""
        return self.placeholders_bound + self.placeholders_gone + self.reals_bound

    def __str__(self) -> str:
        return (
            f"{self.placeholders_bound} placeholders bound, {self.placeholders_gone} of them gone, "
            f"{self.reals_bound} of {self.reals_created} real pods bound"
        )


class Truth:
    """Takes what a resource manager does, as an API server does: whatever contradicts what is so is a problem.

    The real pods of a gang are created when the last of its placeholders is bound.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pods: dict[str, Pod] = {}
        """Those that there are: created and not gone."""
        self.problems: list[str] = []
        self._created: set[str] = set()
        self._on_node = Counter(dict.fromkeys(plan.node_names, 0))
        self._placeholders_bound: Counter[str] = Counter()
        """By gang."""
        self._placeholders_gone = 0
        self._reals_bound = 0
        for gang in plan.gang_names:
            self._create(gang, placeholder=True)

    def progress(self) -> Progress:
        return Progress(
            self._placeholders_bound.total(),
            self._placeholders_gone,
            len(self._created) - self.plan.pods,
            self._reals_bound,
        )

    def is_done(self) -> bool:
        """True if every gang has all its real pods bound, and no placeholder is left."""
        return self._reals_bound == self._placeholders_gone == self.plan.pods

    def bind(self, name: str, node: str) -> list[Pod]:
        """Binds a pod. Returns the pods that are created for that."""
        pod = self.pods.get(name)
        if pod is None:
            was = "is gone" if name in self._created else "was never created"
            self.problems.append(f"pod {name} was to be bound to {node}, and {was}")
            return []
        if pod.node:
            self.problems.append(f"pod {name} is bound to {pod.node}, and was to be bound to {node} once more")
            return []
        if node not in self._on_node or self._on_node[node] == self.plan.slots:
            self.problems.append(f"pod {name} was to be bound to {node}, which has no room for it")
            return []
        pod.node = node
        self._on_node[node] += 1
        if not pod.placeholder:
            self._reals_bound += 1
            return []
        self._placeholders_bound[pod.gang] += 1
        if self._placeholders_bound[pod.gang] < self.plan.members:
            return []
        return self._create(pod.gang, placeholder=False)

    def delete(self, name: str) -> None:
        """Ends a placeholder that is bound."""
        pod = self.pods.get(name)
        if pod is None or not pod.placeholder or not pod.node:
            self.problems.append(f"pod {name} was to be deleted, and is no placeholder that runs")
            return
        del self.pods[name]
        self._on_node[pod.node] -= 1
        self._placeholders_gone += 1

    def bound(self) -> Iterable[Pod]:
        return (pod for pod in self.pods.values() if pod.node)

    def _create(self, gang: str, *, placeholder: bool) -> list[Pod]:
        kind = "held" if placeholder else "real"
        names = [f"{gang}-{kind}-{number:03d}" for number in range(self.plan.members)]
        created = [Pod(name, gang, placeholder, f"uid-of-{name}") for name in names]
        self.pods.update((pod.name, pod) for pod in created)
        self._created.update(pod.name for pod in created)
        return created
