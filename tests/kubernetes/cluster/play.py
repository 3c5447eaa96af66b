"""A cluster with short ways to tell it things, and to see what it wants."""

from __future__ import annotations

from typing import Any, TypeVar

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Bind,
    CreateNode,
    Effect,
    PatchPodCondition,
    RecordEvent,
    Recovery,
)
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    BindEnded,
    BindResult,
    Event,
    Gone,
    NodeAccepted,
    Put,
    Started,
    Tick,
)
from schedulerd.kubernetes.cluster.settings import SECOND_NS, ClusterSettings
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import JSON, containers, pod
from tests.kubernetes.cluster.invariants import violations

EffectT = TypeVar("EffectT")
EPOCH_NS = 1_767_225_600 * SECOND_NS
"""2026-01-01, when the pods are created and the plays begin."""


def own(name: str = "p", cpu: str = "1", meta: JSON | None = None, **spec: Any) -> Pod:
    """A pod for this scheduler, in the queue root.q; its uid is its name."""
    metadata = {"labels": {"queue": "root.q"}, "creationTimestamp": "2026-01-01T00:00:00Z", **(meta or {})}
    spec.setdefault("containers", containers({"cpu": cpu}))
    return pod(name, meta=metadata, schedulerName="schedulerd", **spec)


class Play:
    def __init__(self, **settings: Any) -> None:
        self.cluster = Cluster(ClusterSettings(**settings))
        self.now_ns = 0
        self.accepts_nodes = True

    def tell(self, *events: Event) -> list[Effect]:
        """What is wanted, without what is for people. The daemon accepts every node."""
        effects = [effect for effect in self.all(*events) if not is_for_people(effect)]
        told = [effect for one in effects if isinstance(one, Recovery) for effect in one.nodes]
        if self.accepts_nodes and (created := [*told, *of(effects, CreateNode)]):
            accepted = self.all(*(NodeAccepted(node.name) for node in created))
            assert [effect for effect in accepted if not is_for_people(effect)] == []
        return effects

    def all(self, *events: Event) -> list[Effect]:
        effects = self.cluster.step(self.now_ns, events)
        assert violations(self.cluster.model) == []
        return effects

    def put(self, *things: object) -> list[Effect]:
        return self.tell(*(Put(thing) for thing in things))

    def all_put(self, *things: object) -> list[Effect]:
        """With events for people."""
        return self.all(*(Put(thing) for thing in things))

    def gone(self, *things: object) -> list[Effect]:
        return self.tell(*(Gone(thing) for thing in things))

    def start(self, *things: object) -> Recovery:
        assert self.put(*things) == []
        (report,) = self.tell(Started(EPOCH_NS))
        assert isinstance(report, Recovery)
        return report

    def wait(self, seconds: float) -> list[Effect]:
        """Time passes; what becomes due is done when it is."""
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        effects: list[Effect] = []
        while (due_ns := self.cluster.next_due_ns) is not None and due_ns <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            effects += self.tell(Tick())
        self.now_ns = end_ns
        return effects

    def allocate(self, key: str, node: str, uuid: str = "") -> list[Effect]:
        application = self.cluster.model.pods[key].application
        assert application is not None
        return self.tell(Allocated(application.id, key, uuid or f"u-{key}", node))

    def bind(self, key: str, node: str) -> None:
        """The pod is allocated and bound."""
        (effect,) = of(self.allocate(key, node), Bind)
        assert effect.node == node
        assert self.tell(BindEnded(key, node, BindResult.DONE)) == []


def is_for_people(effect: Effect) -> bool:
    return isinstance(effect, RecordEvent) or (isinstance(effect, PatchPodCondition) and effect.type == "PodScheduled")


def of(effects: list[Effect] | tuple[Any, ...], kind: type[EffectT]) -> list[EffectT]:
    return [effect for effect in effects if isinstance(effect, kind)]


def the_ask(effects: list[Effect] | tuple[Any, ...]) -> Ask:
    (ask,) = of(effects, Ask)
    return ask


def the_node(effects: list[Effect] | tuple[Any, ...]) -> CreateNode:
    (created,) = of(effects, CreateNode)
    return created
