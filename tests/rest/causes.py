"""Why answers may differ: what is read from a story before it is played, and from the nodes at each dump."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.rest.body import of_yaml
from tests.rest.compare import Json
from tests.rest.story import read_story
from tests.rest.transforms import Facts, each_object


def note(facts: Facts, step: Json) -> None:
    """Adds what a step of the story is the cause of."""
    message = step.get("message", {})
    for node in message.get("nodes", ()):
        facts.reports += 1
        facts.nodes.add(node.get("nodeID", ""))
        if node.get("action") == "UPDATE" and node.get("attributes"):
            facts.renamed_nodes[node["nodeID"]] = node["attributes"]
        facts.offered |= node.get("schedulableResource", {}).get("resources", {}).keys()
    for one in message.get("new", ()):
        facts.submitted[one.get("applicationID", "")] += 1
    for one in _asks(message):
        if int(one.get("maxAllocations", 1)) > 1:
            facts.several[one["allocationKey"]] = int(one["maxAllocations"])
        if one.get("taskGroupName"):
            facts.members[one["allocationKey"]] = _member(one)
        facts.asked |= _size(one).keys()
    for one in _existing(message):
        is_known = one.get("applicationID", "") in facts.submitted and one.get("nodeID", "") in facts.nodes
        facts.ghosts += not is_known
    if step["op"] in ("register", "config"):
        facts.reports += 1
        read = of_yaml(message.get("config", "") or "{}")
        for one in _limits(read):
            facts.limited |= one.get("maxresources", {}).keys()
        partitions = read.get("partitions") if isinstance(read, dict) else None
        facts.limits_partition |= any(one.get("limits") for one in partitions or () if isinstance(one, dict))
    if step["op"] == "register":
        switch = message.get("extraConfig", {}).get("event.trackingEnabled", "true")
        facts.switches_off_events |= switch.lower() == "false"


def _existing(message: Json) -> Iterator[Json]:
    """The allocations that exist already, in the words of 2023-06 and of head."""
    for node in message.get("nodes", ()):
        yield from node.get("existingAllocations", ())
    for one in message.get("allocations", ()):
        if one.get("nodeID") and "foreign" not in one.get("allocationTags", {}):
            yield one


def _asks(message: Json) -> Iterator[Json]:
    """The asks in the words of 2023-06 and of head."""
    yield from message.get("asks", ())
    yield from (one for one in message.get("allocations", ()) if not one.get("nodeID"))


def _size(ask: Json) -> dict[str, Json]:
    size: dict[str, Json] = ask.get("resourceAsk", ask.get("resourcePerAlloc", {})).get("resources", {})
    return size


def _member(ask: Json) -> str:
    """What a member of a gang shares with those that could stand in its place: placeholders their task group, and real
    asks their size and priority too."""
    group = f"{ask['applicationID']}/{ask['taskGroupName']}"
    if ask.get("placeholder"):
        return f"a placeholder of {group}"
    return f"a member of {group} of {json.dumps(_size(ask), sort_keys=True)}, priority {ask.get('priority', 0)}"


def _limits(config: Json) -> Iterator[Json]:
    """The limits of a queue file."""
    for one in each_object(config):
        yield from (limit for limit in one.get("limits") or () if isinstance(limit, dict))


def foreign_of(path: Path) -> Counter[str]:
    """Foreign allocations by node in the steps of head; it has them where the steps of 1.4 say `occupied`."""
    found: Counter[str] = Counter()
    if path.exists():
        for one in each_object(read_story(path)["steps"]):
            if "foreign" in (one.get("allocationTags") or {}):
                found[one.get("nodeID", "")] += 1
    return found


def moved(recorded: Json, ours: Json, facts: Facts) -> bool:
    """Whether the same allocations and reservations, of the same sum, are on other nodes."""
    if not isinstance(recorded, list) or not isinstance(ours, list):
        return False
    names = {f"{key}-{number}": key for key, count in facts.several.items() for number in range(count)} | facts.members
    there, here = ({node["nodeID"]: _held(node, names) for node in nodes} for nodes in (recorded, ours))
    if there == here or there.keys() != here.keys():
        return False
    return _sum(there.values()) == _sum(here.values()) and _allocated(recorded) == _allocated(ours)


def _held(node: Json, names: dict[str, str]) -> Counter[str]:
    """What a node holds, by what could stand in its place."""
    keys = [one["allocationKey"] for one in node.get("allocations", ())]
    reserved = [one.rpartition("|")[2] for one in node.get("reservations", ())]
    return Counter([names.get(key, key) for key in keys] + [f"reserved: {names.get(key, key)}" for key in reserved])


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counters:
        total += one
    return total


def _allocated(nodes: list[Json]) -> Counter[str]:
    total: Counter[str] = Counter()
    for node in nodes:
        total.update({name: amount for name, amount in node.get("allocated", {}).items() if amount})
    return total
