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


def facts_of(story: Json, foreign: Counter[str]) -> Facts:
    facts = Facts(foreign=foreign)
    asked: set[str] = set()
    offered: set[str] = set()
    limited: set[str] = set()
    for step in story["steps"]:
        message = step.get("message", {})
        if step["op"] == "node":
            for node in message.get("nodes", ()):
                if node.get("action") == "UPDATE" and node.get("attributes"):
                    facts.renamed_nodes[node["nodeID"]] = node["attributes"]
                offered |= node.get("schedulableResource", {}).get("resources", {}).keys()
        for one in _asks(message):
            if int(one.get("maxAllocations", 1)) > 1:
                facts.several[one["allocationKey"]] = int(one["maxAllocations"])
            if one.get("taskGroupName"):
                facts.members[one["allocationKey"]] = _member(one)
            asked |= _size(one).keys()
        if step["op"] in ("register", "config"):
            limited |= {name for one in _limits(message.get("config", "")) for name in one.get("maxresources", {})}
        if step["op"] == "register":
            switch = message.get("extraConfig", {}).get("event.trackingEnabled", "true")
            facts.switches_off_events |= switch.lower() == "false"
    facts.diverges = bool(asked - offered) or bool(limited and asked - limited)
    return facts


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


def _limits(config: str) -> Iterator[Json]:
    """The limits of a queue file."""
    for one in each_object(of_yaml(config) if config else {}):
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
