"""The health check: failures of the last minutes, and whether the numbers add up."""

from __future__ import annotations

from schedulerd.core.language.commands import NewAsk, NodeAction, NodeUpdate, UpdateAllocations, UpdateNodes
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.yunikorn.health import FAILURES_MAX, NAMED_MAX, WINDOW_SECONDS
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import RM, cluster, get

PATH = "/ws/v1/scheduler/healthcheck"


def reject(world: World, count: int = 1) -> None:
    """Asks that have to be rejected."""
    asks = [NewAsk("app-1", "", Resources(memory=1)) for _ in range(count)]
    world.step(UpdateAllocations(RM, asks=asks))


def failed(world: World) -> list[str]:
    found = get(world, PATH).json
    names = [one["Name"] for one in found["HealthChecks"] if not one["Succeeded"]]
    assert found["Healthy"] is not bool(names)
    return names


def test_a_healthy_scheduler() -> None:
    world = cluster()
    assert failed(world) == []
    assert len(get(world, PATH).json["HealthChecks"]) == 9
    assert get(world, PATH, "strict").status == 200


def test_a_rejected_ask_counts_for_ten_minutes() -> None:
    world = cluster()
    reject(world, 3)
    assert failed(world) == ["Scheduling errors"]
    answer = get(world, PATH)
    assert answer.json["HealthChecks"][0]["DiagnosisMessage"] == (
        "There were 3 scheduling errors logged in the metrics"
    )
    assert answer.status == 200
    strict = get(world, PATH, "strict")
    assert (strict.status, strict.json["message"]) == (503, "Scheduler is not healthy")
    world.sleep(int(WINDOW_SECONDS) * SECOND_NS)
    assert failed(world) == ["Scheduling errors"]
    world.sleep(1)
    assert failed(world) == []


def test_a_rejected_node_counts() -> None:
    world = cluster()
    world.step(UpdateNodes(RM, [NodeUpdate("", NodeAction.CREATE)]))
    assert failed(world) == ["Failed nodes"]


def test_so_many_failures_are_remembered() -> None:
    world = cluster()
    for _ in range(FAILURES_MAX // 200 + 2):
        reject(world, 200)
    assert world.rest.failures.scheduling_errors == FAILURES_MAX


def test_numbers_that_do_not_add_up() -> None:
    world = cluster()
    partition = world.scheduler.cluster.resource_managers[RM].partitions["default"]
    node = partition.nodes["node-1"]
    node.available = node.available.minus({"memory": 1})
    assert failed(world) == ["Consistency of data"]
    assert "Nodes with inconsistent data: [node-1]" in get(world, PATH).text
    node.capacity = node.capacity.minus({"memory": 1})
    assert failed(world) == ["Consistency of data"]
    assert "Partitions with inconsistent data: [[rm-1]default]" in get(world, PATH).text
    (allocation,) = partition.allocations.values()
    del allocation.application.allocations[allocation.uuid]
    assert "Orphan allocation on node check" in failed(world)
    del allocation.node.allocations[allocation.uuid]
    assert "Orphan allocation on app check" in failed(world)
    allocation.node.allocated = Resources(memory=-1)
    partition.root.allocated = Resources(memory=-1)
    assert failed(world).count("Negative resources") == 2


def test_a_message_names_so_many_things() -> None:
    world = cluster()
    nodes = [NodeUpdate(f"n-{n:02}", NodeAction.CREATE, capacity=Resources(memory=1)) for n in range(NAMED_MAX + 5)]
    world.step(UpdateNodes(RM, nodes))
    for node in world.scheduler.cluster.resource_managers[RM].partitions["default"].nodes.values():
        node.available = Resources(memory=7)
    message = get(world, PATH).json["HealthChecks"][5]["DiagnosisMessage"]
    assert message.endswith(" ...]")
    assert len(message.split()) == len(["Nodes", "with", "inconsistent", "data:"]) + NAMED_MAX + 1
