"""Objects of the peer's shape, field by field where the recorded stories have no example."""

from __future__ import annotations

from typing import Any

from schedulerd.config import load_queue_file
from schedulerd.core.language.commands import (
    AllocationRelease,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, ConfigurationText
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import RM, get

P = "/ws/v1/partition/default"

QUEUES = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    preemption: {enabled: true, quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: "*"
        properties: {application.sort.policy: fair, priority.offset: "7", preemption.policy: fence}
        queues:
          - name: high
            properties: {application.sort.policy: fifo, priority.offset: "5", preemption.policy: disabled}
            resources: {guaranteed: {vcore: 4}}
            queues: [{name: leaf, properties: {custom.name: x}}]
          - name: fenced
            properties: {priority.policy: fence, priority.offset: "2", application.sort.priority: disabled}
          - name: dyn
            parent: true
            childtemplate: {maxapplications: 3, properties: {preemption.delay: 90s}, resources: {max: {vcore: 2}}}
"""


def world_of(nodes: int = 1, vcore: int = 4_000, config: str = QUEUES) -> World:
    world = World()
    world.register(config, RM)
    new = [NodeUpdate(f"node-{number}", NodeAction.CREATE, capacity=Resources(vcore=vcore)) for number in range(nodes)]
    world.step(UpdateNodes(RM, new))
    return world


def submit(world: World, name: str, queue: str, **fields: Any) -> None:
    world.step(UpdateApplications(RM, new=[NewApplication(name, queue, user="ann", **fields)]))


def ask(world: World, app: str, key: str, vcore: int, **fields: Any) -> list[Any]:
    return world.step(UpdateAllocations(RM, asks=[NewAsk(app, key, Resources(vcore=vcore), **fields)]))


def queue(world: World, path: str) -> dict[str, Any]:
    found: dict[str, Any] = get(world, f"{P}/queue/{path}").json
    return found


def test_properties_as_they_are_inherited() -> None:
    world = world_of()
    assert queue(world, "root")["properties"] == {
        "application.sort.policy": "fair",
        "preemption.policy": "fence",
        "priority.offset": "7",
    }
    assert queue(world, "root.high.leaf")["properties"] == {
        "application.sort.policy": "fifo",
        "custom.name": "x",
        "preemption.policy": "disabled",
        "priority.offset": "0",
    }
    assert queue(world, "root.fenced")["properties"]["preemption.policy"] == "default"


def test_settings_of_a_queue() -> None:
    world = world_of()
    fenced = queue(world, "root.fenced")
    assert (fenced["isPriorityFence"], fenced["priorityOffset"], fenced["prioritySorting"]) == (True, 2, False)
    assert (fenced["isPreemptionFence"], fenced["preemptionEnabled"]) == (False, True)
    assert queue(world, "root")["isPreemptionFence"] is True
    leaf = queue(world, "root.high.leaf")
    assert (leaf["preemptionEnabled"], leaf["sortingPolicy"]) == (False, "fifo")
    (partition,) = get(world, "/ws/v1/partitions").json
    assert partition["quotaPreemptionEnabled"] is True


def test_a_queue_that_a_rule_created() -> None:
    world = world_of()
    submit(world, "app-1", "root.dyn.Team")
    found = queue(world, "root.dyn.team")
    assert (found["isManaged"], found["maxRunningApps"], found["maxResource"]) == (False, 3, {"vcore": 2_000})
    assert found["properties"] == {"preemption.delay": "90s"}
    assert found["preemptionDelay"] == "1m30s"
    assert queue(world, "root.dyn")["template"] == {
        "maxApplications": 3,
        "maxResource": {"vcore": 2_000},
        "properties": {"preemption.delay": "90s"},
    }


def test_the_highest_priority_that_waits_with_the_offsets_of_the_queues() -> None:
    world = world_of()
    submit(world, "app-1", "root.high.leaf")
    ask(world, "app-1", "a", 9_000, priority=3)
    submit(world, "app-2", "root.fenced")
    ask(world, "app-2", "b", 9_000, priority=100)
    shown = {path: queue(world, path)["currentPriority"] for path in ("root.high.leaf", "root.high", "root.fenced")}
    assert shown == {"root.high.leaf": 3, "root.high": 8, "root.fenced": 2}
    assert queue(world, "root")["currentPriority"] == 15
    assert queue(world, "root.dyn")["currentPriority"] == -(2**31)


def test_what_is_left_for_a_queue() -> None:
    world = world_of()
    assert queue(world, "root.high.leaf")["headroom"] == {"vcore": 4_000}
    submit(world, "app-1", "root.fenced")
    ask(world, "app-1", "a", 1_000)
    assert queue(world, "root.high.leaf")["headroom"] == {"vcore": 3_000}
    submit(world, "app-2", "root.dyn.team")
    ask(world, "app-2", "b", 500)
    assert queue(world, "root.dyn.team")["headroom"] == {"vcore": 1_500}
    assert queue(world, "root.dyn.team")["absUsedCapacity"] == {"vcore": 25}


def test_a_queue_that_the_file_no_longer_names_drains() -> None:
    world = world_of()
    submit(world, "app-1", "root.fenced")
    ask(world, "app-1", "a", 1_000)
    text = QUEUES.replace("          - name: fenced\n", "          - name: other\n")
    read = load_queue_file(text)
    world.step(UpdateConfiguration(RM, read.partitions, ConfigurationText(text, "new", read.checksum)))
    assert queue(world, "root.fenced")["status"] == "Draining"
    assert queue(world, "root.other")["status"] == "Active"


def gang(world: World, placeholders: int = 2, vcore: int = 1_000) -> None:
    submit(world, "gang", "root.high.leaf", placeholder_ask=Resources(vcore=vcore * placeholders), gang_style="Soft")
    asks = [
        NewAsk("gang", f"ph-{number}", Resources(vcore=vcore), task_group="tg", placeholder=True)
        for number in range(placeholders)
    ]
    world.step(UpdateAllocations(RM, asks=asks))


def test_a_gang_that_is_not_complete_does_not_run() -> None:
    world = world_of()
    gang(world, vcore=3_000)
    assert get(world, f"{P}/application/gang").json["applicationState"] == "Accepted"
    leaf = queue(world, "root.high.leaf")
    assert (leaf["allocatingAcceptedApps"], leaf.get("runningApps")) == (["gang"], None)
    assert queue(world, "root")["allocatingAcceptedApps"] == ["gang"]


def test_a_gang_before_and_after_a_placeholder_is_replaced() -> None:
    world = world_of()
    gang(world)
    found = get(world, f"{P}/application/gang").json
    assert found["applicationState"] == "Running"
    assert found["placeholderData"] == [{"taskGroupName": "tg", "count": 2, "minResource": {"vcore": 1_000}}]
    assert "usedResource" not in found
    assert found["maxUsedResource"] == {"vcore": 2_000}
    leaf = queue(world, "root.high.leaf")
    assert (leaf.get("allocatingAcceptedApps"), leaf["runningApps"]) == (None, 1)
    world.sleep(5 * SECOND_NS)
    facts = ask(world, "gang", "real", 1_000, task_group="tg")
    (told,) = [fact for fact in facts if isinstance(fact, ReleaseRequested)]
    confirmed = AllocationRelease("gang", "", told.uuid, told.allocation_key, TerminationType.PLACEHOLDER_REPLACED)
    world.step(UpdateAllocations(RM, releases=[confirmed]))
    found = get(world, f"{P}/application/gang").json
    assert found["placeholderData"] == [
        {"taskGroupName": "tg", "count": 2, "minResource": {"vcore": 1_000}, "replaced": 1}
    ]
    (real,) = [one for one in found["allocations"] if one["allocationKey"] == "real"]
    assert real["placeholderUsed"] is True
    assert real["allocationDelay"] == real["allocationTime"] - real["requestTime"] == 5 * SECOND_NS
    (rest,) = [one for one in found["allocations"] if one.get("placeholder")]
    assert rest["taskGroupName"] == "tg"
    assert "placeholderUsed" not in rest
    assert found["resourceHistory"] == {"placeholderResource": {"UNKNOWN": {"vcore": 5_000}}}
    assert queue(world, "root.high.leaf")["runningApps"] == 1


def test_an_ask_for_several_allocations() -> None:
    world = world_of()
    submit(world, "app-1", "root.fenced")
    ask(world, "app-1", "many", 1_500, max_allocations=5)
    found = get(world, f"{P}/application/app-1").json
    assert len({one["uuid"] for one in found["allocations"]}) == 2
    (waits,) = found["requests"]
    assert waits["pendingCount"] == 3
    assert waits["schedulingAttempted"] is waits["triggeredScaleUp"] is True


def test_the_time_of_the_pod_stands_for_that_of_its_ask() -> None:
    world = world_of()
    submit(world, "app-1", "root.fenced")
    for key, text in (("good", "1767323045"), ("bad", "yesterday"), ("huge", "9" * 30)):
        ask(world, "app-1", key, 100, tags={"creationTime": text})
    times = {
        one["allocationKey"]: one["requestTime"] for one in get(world, f"{P}/application/app-1").json["allocations"]
    }
    assert times["good"] == 1_767_323_045 * SECOND_NS
    assert times["bad"] == times["huge"] > times["good"]


def test_a_reservation() -> None:
    world = world_of()
    submit(world, "app-1", "root.fenced")
    ask(world, "app-1", "small", 3_000)
    submit(world, "app-2", "root.dyn.team2")
    submit(world, "app-3", "root.high.leaf")
    ask(world, "app-3", "large", 4_000)
    world.sleep(3 * SECOND_NS)
    found = get(world, f"{P}/application/app-3").json
    assert (found["hasReserved"], found["reservations"]) == (True, ["large"])
    node = get(world, f"{P}/node/node-0").json
    assert (node["isReserved"], node["reservations"]) == (True, ["large"])


def test_what_is_being_preempted() -> None:
    world = world_of(
        config=QUEUES.replace("preemption.policy: fence", "preemption.policy: default").replace(
            ", preemption.policy: disabled", ""
        )
    )
    submit(world, "app-1", "root.fenced")
    for number in range(4):
        ask(world, "app-1", f"victim-{number}", 1_000)
    submit(world, "app-2", "root.high.leaf")
    ask(world, "app-2", "entitled", 2_000, allow_preempt_other=True)
    world.sleep(60 * SECOND_NS)
    assert queue(world, "root.fenced")["preemptingResource"] == {"vcore": 2_000}
    assert queue(world, "root")["preemptingResource"] == {"vcore": 2_000}
    found = get(world, f"{P}/application/app-1").json
    assert sum(one.get("preempted", False) for one in found["allocations"]) == 2
    (waits,) = get(world, f"{P}/application/app-2").json["requests"]
    assert waits["triggeredPreemption"] is True
