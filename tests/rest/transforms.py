"""What is known of a story, and the rules for whole answers.

Such a rule puts both answers in a form in which a difference that is right does not show, if its condition holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.rest.compare import Json

_CLOSED = frozenset({"Completed", "Failed", "Rejected", "Expired"})


@dataclass
class Facts:
    """What is known of a story beside its answers, so far as it is played."""

    several: dict[str, int] = field(default_factory=dict)
    """Asks for several allocations, with their number."""
    members: dict[str, str] = field(default_factory=dict)
    """Members of gangs by key, with what they share with those that could stand in their place."""
    renamed_nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Attributes of the last UPDATE of a node that had some, by node."""
    foreign: Counter[str] = field(default_factory=Counter)
    """Number of foreign allocations by node in the steps of head."""
    duplicates: Counter[str] = field(default_factory=Counter)
    """Applications that were submitted again while they lived, so far."""
    rejected: set[str] = field(default_factory=set)
    """Applications that were rejected so far."""
    active: set[str] = field(default_factory=set)
    """Applications that live now."""
    moved: bool = False
    """Whether, in this phase, the same allocations are on other nodes than recorded."""
    switches_off_events: bool = False
    """Whether the resource manager has switched event tracking off."""
    of_head: bool = True
    """Whether the recording is of head, and not of 1.4."""
    reports: int = 0
    """Reports of nodes, and queue files."""
    submitted: Counter[str] = field(default_factory=Counter)
    """Applications, with how often they were submitted."""
    nodes: set[str] = field(default_factory=set)
    ghosts: int = 0
    """Allocations that were reported as existing, of applications that nobody has submitted, or on unknown nodes."""
    partitions: set[str] = field(default_factory=set)
    """Partitions that exist now."""
    kept_nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Capacities of the nodes that came with unclaimed allocations and are registered here, by node."""
    failures: Counter[str] = field(default_factory=Counter)
    """What was rejected here: items of the kinds `ask` and `node`."""
    asked: set[str] = field(default_factory=set)
    """Resources that asks name, and so on."""
    offered: set[str] = field(default_factory=set)
    limited: set[str] = field(default_factory=set)
    limits_partition: bool = False
    """Whether a queue file has limits of a partition, and not only of queues."""

    @property
    def diverges(self) -> bool:
        """Whether 1.4 has done something that is known to be wrong, so that its state is another one."""
        return bool(self.asked - self.offered) or bool(self.limited and self.asked - self.limited)


@dataclass(slots=True)
class Pair:
    """A recorded answer and ours."""

    name: str
    """Of the request in the recording."""
    path: str
    expected: Json
    actual: Json
    status: int = 200
    """Of ours."""
    sent: str = ""
    """The body of the request."""


class Transform(NamedTuple):
    """A rule for whole answers: changes the pair, and returns whether it did."""

    name: str
    sentence: str
    apply: Callable[[Pair, Facts], bool]


def each_object(value: Json) -> Iterator[dict[str, Any]]:
    """All objects in a value."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from each_object(one)


# transforms ---------------------------------------------------------------------------------------------------------


def _several(pair: Pair, facts: Facts) -> bool:
    """`K-0` to `K-2` of head become `K`, and our one ask of three becomes three."""
    before = _copy(pair)
    names = {f"{key}-{number}": key for key, count in facts.several.items() for number in range(count)}
    pair.expected = _renamed(pair.expected, names)
    for one in each_object(pair.actual):
        if isinstance(one.get("requests"), list):
            one["requests"] = [copy for ask in one["requests"] for copy in _copies(ask)]
        if one.get("allocationKey") in facts.several:
            one.pop("uuid", None)
    return _copy(pair) != before


def _copies(ask: dict[str, Any]) -> list[dict[str, Any]]:
    count = ask.get("pendingCount", 1)
    return [{key: value for key, value in ask.items() if key != "pendingCount"} for _ in range(count)]


def _renamed(value: Json, names: dict[str, str]) -> Json:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def _foreign(pair: Pair, facts: Facts) -> bool:
    """Foreign allocations become what they are here: a part of `occupied`, as far as the story played reports it."""
    found = False
    ours = {one["nodeID"]: one for one in each_object(pair.actual) if "nodeID" in one}
    for node in each_object(pair.expected):
        if "foreignAllocations" not in node or "nodeID" not in node:
            continue
        del node["foreignAllocations"]
        found = True
        own = ours.get(node["nodeID"], {})
        if "occupied" not in own and "occupied" in node:
            for name, amount in node.pop("occupied").items():
                if isinstance(node.get("available"), dict) and name in node["available"]:
                    node["available"][name] += amount
    return found


def _placement(pair: Pair, facts: Facts) -> bool:
    """On which node an allocation is does not count, if the sums over all nodes are as recorded."""
    if not facts.moved:
        return False
    before = _copy(pair)
    for value in (pair.expected, pair.actual):
        nodes = [one for one in each_object(value) if "nodeID" in one]
        for node in nodes:
            for key in ("allocated", "allocations", "available", "utilized", "reservations", "isReserved"):
                node.pop(key, None)
        for one in each_object(value):
            if "allocationKey" in one:
                one.pop("nodeId", None)
            if isinstance(one.get("utilization"), list):
                one["utilization"] = sum(bucket.get("numOfNodes", 0) for bucket in one["utilization"])
    return _copy(pair) != before


def _members(pair: Pair, facts: Facts) -> bool:
    """Which of its equal placeholders a real ask takes is chance, and so where it is: those that could stand in each
    other's place have one name."""
    if not facts.members or _places(pair.expected, facts) == _places(pair.actual, facts):
        return False
    for value in (pair.expected, pair.actual):
        for one in each_object(value):
            if one.get("allocationKey") in facts.members:
                for key in ("nodeId", "allocationTags"):
                    one.pop(key, None)
            if isinstance(one.get("EventRecords"), dict):
                one["EventRecords"] = _events_of_members(one["EventRecords"], facts)
    pair.expected = _renamed(pair.expected, facts.members)
    pair.actual = _renamed(pair.actual, facts.members)
    return True


def _places(value: Json, facts: Facts) -> Counter[tuple[str, str]]:
    """The members of gangs in an answer, with their nodes."""
    found: Counter[tuple[str, str]] = Counter()
    for one in each_object(value):
        if one.get("allocationKey") in facts.members:
            found[one["allocationKey"], one.get("nodeId", "")] += 1
        found.update((key, "reserved") for key in one.get("reservations", ()) if key in facts.members)
        if isinstance(one.get("EventRecords"), dict):
            events = one["EventRecords"].items()
            found.update({(name, "event"): count for name, count in events if _object_of(name) in facts.members})
    return found


def _events_of_members(events: dict[str, int], facts: Facts) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, count in events.items():
        member = _object_of(name)
        counts[name.removesuffix(member) + facts.members.get(member, member)] += count
    return dict(counts)


def _object_of(event: str) -> str:
    """The object of an event in a multiset: `TYPE:CHANGE:DETAIL:OBJECT`."""
    return event.split(":", 3)[3]


def _copy(pair: Pair) -> str:
    return repr((pair.expected, pair.actual))


TRANSFORMS = (
    Transform(
        "several",
        "an ask of 2023-06 may be for several allocations, which share its key; head has an ask for each",
        _several,
    ),
    Transform(
        "foreign",
        "2023-06 knows no foreign allocations: what others use on a node is occupied, as far as the story reports it",
        _foreign,
    ),
    Transform(
        "placement",
        "which of several nodes is taken is not compared, if the same allocations exist and have the same sum",
        _placement,
    ),
    Transform(
        "placeholder",
        "which of its equal placeholders a real ask takes is not compared, only how many there are of each",
        _members,
    ),
)
