"""Random histories of a small cluster, dense enough that every rule refuses often; the same ones for a seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes import builders
from tests.kubernetes.builders import JSON

NODES = ("n1", "n2", "n3", "n4", "n5")
NAMESPACES = ("a", "b")
UIDS = tuple(f"p{number}" for number in range(14))

Move = tuple[object, ...]
"""What happens, and to what: see `moves`."""


class Story:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def moves(self, number: int) -> Iterator[Move]:
        """All nodes first, most of the time; then anything."""
        for name in NODES:
            yield ("node", self.node(name))
        for _ in range(number):
            yield self._move()

    def _move(self) -> Move:
        chance = self.random
        kind = chance.choices(
            (
                "bound",
                "pending",
                "terminating",
                "assume",
                "forget",
                "remove",
                "ended",
                "node",
                "remove node",
                "namespace",
            ),
            (30, 6, 5, 8, 3, 8, 3, 8, 2, 4),
        )[0]
        match kind:
            case "node":
                return (kind, self.node(chance.choice(NODES)))
            case "remove node":
                return (kind, chance.choice(NODES))
            case "namespace":
                return (kind, chance.choice(NAMESPACES), chance.choice(("red", "blue")))
            case "remove" | "forget":
                return (kind, chance.choice(UIDS))
            case "pending" | "ended":
                return (kind, self.pod())
            case _:
                return (kind, self.pod(), chance.choice(NODES))

    def node(self, name: str) -> Node:
        chance = self.random
        labels = {"host": name}
        if chance.random() < 0.85:
            labels["zone"] = chance.choice(("z1", "z2", "z3"))
        if chance.random() < 0.6:
            labels["rack"] = chance.choice(("r1", "r2"))
        taints: list[JSON] = [{"key": "t", "effect": "NoSchedule"}] if chance.random() < 0.25 else []
        return builders.node(name, labels, taints)

    def pod(self) -> Pod:
        chance = self.random
        spec: JSON = {}
        if chance.random() < 0.45:
            spec["topologySpreadConstraints"] = [self._spread() for _ in range(chance.choice((1, 1, 2)))]
        if chance.random() < 0.35:
            wanted = [self._term() for _ in range(chance.choice((0, 1, 1, 2)))]
            unwanted = [self._term() for _ in range(chance.choice((0, 0, 1, 2)))]
            spec["affinity"] = {**builders.affinity(*wanted), **builders.anti_affinity(*unwanted)}
        if chance.random() < 0.2:
            port = {"hostPort": chance.choice((80, 81)), "hostIP": chance.choice(("", "10.0.0.1", "10.0.0.2"))}
            spec["containers"] = builders.ports(port)
        if chance.random() < 0.2:
            spec["nodeSelector"] = {"zone": chance.choice(("z1", "z2"))}
        if chance.random() < 0.3:
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
        labels = {"app": chance.choice("xy")} if chance.random() < 0.9 else {}
        if chance.random() < 0.5:
            labels["tier"] = chance.choice("de")
        return builders.pod(chance.choice(UIDS), chance.choice(NAMESPACES), labels, **spec)

    def _spread(self) -> JSON:
        chance = self.random
        more: JSON = {}
        if chance.random() < 0.2:
            more["minDomains"] = chance.randint(1, 4)
        if chance.random() < 0.3:
            more["nodeAffinityPolicy"] = chance.choice(("Honor", "Ignore"))
        if chance.random() < 0.4:
            more["nodeTaintsPolicy"] = chance.choice(("Honor", "Ignore"))
        if chance.random() < 0.2:
            more["matchLabelKeys"] = ["tier"]
        if chance.random() < 0.1:
            more["whenUnsatisfiable"] = "ScheduleAnyway"
        return builders.spread(chance.choice(("zone", "zone", "host", "rack")), self._selector(), 1, **more)

    def _term(self) -> JSON:
        chance = self.random
        more: JSON = {}
        if chance.random() < 0.3:
            more["namespaces"] = chance.sample(NAMESPACES, chance.randint(0, 2))
        if chance.random() < 0.4:
            more["namespaceSelector"] = chance.choice((None, {}, builders.selector(team="red")))
        return builders.term(chance.choice(("zone", "zone", "host", "rack")), self._selector(), **more)

    def _selector(self) -> JSON | None:
        chance = self.random
        kind = chance.random()
        if kind < 0.05:
            return None
        if kind < 0.15:
            return {}
        if kind < 0.65:
            return builders.selector(app=chance.choice("xy"))
        one = chance.choice(
            (
                builders.expression("app", "In", "x", "y"),
                builders.expression("app", "NotIn", "x"),
                builders.expression("tier", "Exists"),
                builders.expression("tier", "DoesNotExist"),
            )
        )
        return {"matchExpressions": [one], "matchLabels": {"app": "x"} if chance.random() < 0.3 else None}
