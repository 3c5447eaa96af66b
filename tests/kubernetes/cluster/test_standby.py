"""A standby follows the cluster for as long as it takes; what it reports when it leads is what a fresh start would."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import Recovery
from schedulerd.kubernetes.cluster.events import Event, GangSourceServed, Gone, Put, Started
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes import builders
from tests.kubernetes.builders import JSON, containers, pod
from tests.kubernetes.cluster.play import EPOCH_NS, own
from tests.loops import each_seed

TURNS = 400
TASK_GROUPS = '[{"name": "g", "minMember": 3, "minResource": {"cpu": "1"}}]'


class History:
    """Nodes, pods, claims and namespaces that come, change and go; `things` are those that exist."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.things: dict[tuple[str, str], Any] = {}
        self.made = 0

    def turn(self) -> Event:
        kinds = ("new", "bind", "end", "node", "gone node", "space")
        match self.random.choices(kinds, (8, 6, 4, 3, 1, 1))[0]:
            case "new":
                return self.put("pod", self.pod())
            case "bind" if waiting := [one for one in self.pods() if not one.spec.node_name]:
                one = self.random.choice(waiting)
                return self.put("pod", self.changed(one, node_name=f"n{self.random.randrange(5)}"))
            case "end" if there := self.pods():
                one = self.random.choice(there)
                del self.things["pod", one.metadata.uid]
                if self.random.random() < 0.5:
                    return Gone(one)
                return Put(msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, phase="Succeeded")))
            case "gone node" if names := [name for kind, name in self.things if kind == "node"]:
                return Gone(self.things.pop(("node", self.random.choice(names))))
            case "space":
                return self.put("namespace", builders.namespace("ns", team=self.random.choice(("red", "blue"))))
            case _:
                zone = self.random.choice(("a", "b"))
                return self.put("node", builders.node(f"n{self.random.randrange(5)}", {"zone": zone}))

    def put(self, kind: str, thing: Any) -> Event:
        self.things[kind, thing.metadata.uid if kind == "pod" else thing.metadata.name] = thing
        return Put(thing)

    def pods(self) -> list[Pod]:
        return [thing for (kind, _), thing in self.things.items() if kind == "pod"]

    def changed(self, one: Pod, **spec: Any) -> Pod:
        return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, **spec))

    def pod(self) -> Pod:
        name, chance = f"p{self.made}", self.random.random()
        self.made += 1
        cpu, created = self.random.choice("123"), f"2026-01-01T00:{self.random.randrange(60):02}:00Z"
        labels: JSON = {"queue": "root.q", "applicationId": f"app{self.random.randrange(3)}"}
        meta: JSON = {"creationTimestamp": created, "labels": labels}
        if chance < 0.2:
            node = f"n{self.random.randrange(5)}"
            return pod(name, nodeName=node, meta=meta, containers=containers({"cpu": cpu}))  # of another scheduler
        if chance < 0.4:
            labels["applicationId"] = f"gang{self.random.randrange(2)}"
            meta["annotations"] = {"yunikorn.apache.org/task-groups": TASK_GROUPS}
            if self.random.random() < 0.5:
                meta["annotations"]["yunikorn.apache.org/task-group-name"] = "g"
        spec: JSON = {"nodeSelector": {"zone": "a"}} if chance > 0.8 else {}
        return own(name, cpu, meta, **spec)


def report(cluster: Cluster, now_ns: int) -> dict[str, Any]:
    """What is told, without the order in which nodes have come."""
    told, *others = cluster.step(now_ns, [Started(EPOCH_NS)])
    assert isinstance(told, Recovery)
    existing = {node.name: sorted(node.existing, key=lambda one: one.key) for node in told.nodes}
    nodes = {node.name: replace(node, existing=()) for node in told.nodes}
    return {
        "applications": {one.application_id: one for one in told.applications},
        "nodes": nodes,
        "existing": existing,
        "asks": told.asks,
        "others": told.others,
        "effects": others,
    }


@each_seed(range(30))
def test_it_reports_what_a_fresh_start_would(seed: int) -> None:
    history, cluster = History(seed), Cluster()
    assert cluster.step(0, [GangSourceServed(GangSource.COSCHEDULING)]) == []
    for turn in range(1, TURNS):
        assert cluster.step(turn * SECOND_NS, [history.turn()]) == [], "a standby wants nothing"
        assert cluster.next_due_ns is None, "nothing is due at a standby"
    fresh = Cluster()
    fresh.step(0, [GangSourceServed(GangSource.COSCHEDULING)])
    fresh.step(TURNS * SECOND_NS, [Put(thing) for thing in history.things.values()])
    found = report(cluster, TURNS * SECOND_NS)
    assert found == report(fresh, TURNS * SECOND_NS)
    assert found["applications"]
    assert any(found["existing"].values())
