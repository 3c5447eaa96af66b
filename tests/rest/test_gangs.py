"""What a peer may choose in a story with a gang: which placeholders real asks take, and so on which nodes they are.

The answers of a peer that chose otherwise are our own ones, with that choice changed everywhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from tests.rest import replay
from tests.rest.asgi import ask
from tests.rest.story import Player
from tests.rest.world import World

Json = Any
P = "/ws/v1/partition/default"
EVENTS = "/ws/v1/events/batch"
GETS = [
    *("/ws/v1/partitions", f"{P}/queues", f"{P}/nodes", f"{P}/node/n-1", f"{P}/node/n-2", f"{P}/applications/active"),
    *(f"{P}/application/gang", f"{P}/usage/users", EVENTS, "/ws/v1/scheduler/node-utilizations"),
]
QUEUES = """
partitions:
  - name: default
    nodesortpolicy: {type: fair}
    queues: [{name: root, submitacl: '*', queues: [{name: g}]}]
"""


def _size(amount: int) -> Json:
    return {"resources": {"vcore": {"value": str(amount)}, "memory": {"value": str(amount)}}}


def _ask(key: str, **fields: Json) -> Json:
    gang = {"applicationID": "gang", "partitionName": "default", "taskGroupName": "tg", "maxAllocations": 1}
    return {"allocationKey": key, "resourceAsk": _size(1000), **gang, **fields}


def _node(name: str) -> Json:
    return {"nodeID": name, "action": "CREATE", "schedulableResource": _size(4000)}


def _step(op: str, **message: Json) -> Json:
    return {"op": op, "message": {"rmID": "rm", **message}}


def _story(confirmed: int) -> Json:
    """Four placeholders on two nodes, and two real asks, of whose replacements so many are confirmed (0 for all)."""
    application = {"applicationID": "gang", "queueName": "root.g", "partitionName": "default", "ugi": {"user": "ann"}}
    gang = {"placeholderAsk": _size(4000), "gangSchedulingStyle": "Soft", "executionTimeoutMilliSeconds": "60000"}
    steps = [
        _step("register", config=QUEUES),
        _step("node", nodes=[_node("n-1"), _node("n-2")]),
        _step("application", new=[application | gang]),
        _step("allocation", asks=[_ask(f"ph-{number}", placeholder=True) for number in range(4)]),
        {"op": "wait", "until": {"newAllocs": 4}, "ms": 3000},
        _step("allocation", asks=[_ask("real-0"), _ask("real-1")]),
        {"op": "sleep", "ms": 500},
        {"op": "confirm", "types": ["PLACEHOLDER_REPLACED"], "limit": confirmed},
        {"op": "dump", "label": "replaced"},
    ]
    return {"steps": steps}


@cache
def _recorded(confirmed: int) -> list[Json]:
    found: list[Json] = []
    world = World()

    async def dump(label: str) -> None:
        for path in GETS:
            answer = await ask(world.app, "GET", path, "", {}, b"")
            request = {"method": "GET", "path": path, "query": "", "headers": {}, "body": ""}
            headers = {"Content-Type": answer.headers["content-type"]}
            response = {"status": answer.status, "headers": headers, "body": answer.json}
            found.append({"phase": label, "name": path, "request": request, "response": response})

    asyncio.run(Player(world, dump).play(_story(confirmed)))
    return found


def _judged(answers: list[Json], confirmed: int = 0) -> list[str]:
    """The answers that are not equal."""
    story = replay._Replay(_story(confirmed), answers, "head", Counter())
    return [one.path for one in asyncio.run(story.run("gang")).judgements if one.left]


def _renamed(value: Json, names: dict[str, str]) -> Json:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def _on_nodes(nodes: dict[str, str], names: dict[str, str]) -> list[Json]:
    """The recorded answers with allocations on other nodes, and under other names."""
    answers: list[Json] = _renamed(_recorded(0), names)
    (all_nodes,) = (one["response"]["body"] for one in answers if one["name"] == f"{P}/nodes")
    held = [one | {"nodeId": nodes[one["allocationKey"]]} for node in all_nodes for one in node["allocations"]]
    for answer in answers:
        body = answer["response"]["body"]
        for one in body if isinstance(body, list) else [body]:
            if "nodeID" in one:
                one["allocations"] = [item for item in held if item["nodeId"] == one["nodeID"]]
            for item in one.get("allocations", ()):
                item["nodeId"] = nodes[item["allocationKey"]]
        if "EventRecords" in body:
            joined = [one for one in body["EventRecords"] if one.get("eventChangeDetail") == 303]
            for one in joined:  # at the end all four are where they are said to be
                one["objectID"] = nodes.get(one["referenceID"], one["objectID"])
    return answers


OTHERS = {"ph-0": "ph-2", "ph-2": "ph-0", "ph-1": "ph-3", "ph-3": "ph-1"}
SWAPPED = {"real-0": "real-1", "real-1": "real-0"}


def test_an_answer_of_its_own_is_equal() -> None:
    assert _judged(_recorded(0)) == []


@pytest.mark.parametrize("names", [OTHERS, SWAPPED, OTHERS | SWAPPED])
def test_other_placeholders_may_be_replaced(names: dict[str, str]) -> None:
    assert _judged(_renamed(_recorded(0), names)) == []


def test_placeholders_of_another_node_may_be_replaced() -> None:
    one_node = {"real-0": "n-1", "real-1": "n-1", "ph-0": "n-2", "ph-1": "n-2"}
    assert _judged(_on_nodes(one_node, OTHERS)) == []
    two_nodes = {"real-0": "n-2", "real-1": "n-1", "ph-0": "n-1", "ph-1": "n-2"}
    assert _judged(_on_nodes(two_nodes, OTHERS)) == []


def test_another_real_ask_of_the_same_size_may_come_first() -> None:
    assert _judged(_renamed(_recorded(1), SWAPPED), confirmed=1) == []


def _body(answers: list[Json], path: str) -> Json:
    (found,) = (one["response"]["body"] for one in answers if one["name"] == path)
    return found


def test_the_number_of_placeholders_is_compared() -> None:
    answers = _on_nodes({"real-0": "n-1", "real-1": "n-1", "ph-0": "n-2", "ph-1": "n-2"}, OTHERS)
    _body(answers, f"{P}/application/gang")["allocations"].pop()
    assert _judged(answers) == [f"{P}/application/gang"]


def test_allocations_are_moved_only_if_all_are_there() -> None:
    answers = _on_nodes({"real-0": "n-1", "real-1": "n-1", "ph-0": "n-2", "ph-1": "n-2"}, OTHERS)
    nodes = _body(answers, f"{P}/nodes")
    nodes[0]["allocations"].pop()
    assert f"{P}/nodes" in _judged(answers)


def test_the_size_of_a_real_allocation_is_compared() -> None:
    answers = deepcopy(_renamed(_recorded(0), SWAPPED))
    _body(answers, f"{P}/application/gang")["allocations"][0]["resource"]["vcore"] += 1
    assert _judged(answers) == [f"{P}/application/gang"]


def test_a_replacement_is_no_event_of_its_node_to_the_peer() -> None:
    answers = deepcopy(_recorded(0))
    records = _body(answers, EVENTS)["EventRecords"]
    joined = [one for one in records if one.get("eventChangeDetail") == 303]
    assert [one["eventChangeType"] for one in joined] == [2, 2, 2, 2, 3, 2, 3, 2]
    for one in joined[4:]:
        records.remove(one)
    assert _judged(answers) == []
    records.remove(joined[0])
    assert _judged(answers) == [EVENTS]
