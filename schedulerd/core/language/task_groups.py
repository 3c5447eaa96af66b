"""The task groups of a gang without placeholders, as the tag `schedulerd.io/task-groups` of an application declares
them.

    [{"name": "workers", "min": 4, "max": 8, "resources": {"vcore": 1000, "memory": 1073741824},
      "topology": {"required": "rack"}, "tags": {"schedulerd.io/node-selector": "zone in (a)"}}]

Amounts are those of one member, in the units of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from schedulerd.core.language import ask_tags, checks, reading
from schedulerd.core.language.reading import Unreadable
from schedulerd.core.language.resources import Resources

TASK_GROUPS_TAG = "schedulerd.io/task-groups"
TOPOLOGY_REQUIRED_TAG = "schedulerd.io/topology-required"
"""Of an application that declares task groups: the level of which one domain must have all of them."""
TOPOLOGY_PREFERRED_TAG = "schedulerd.io/topology-preferred"
"""Of an application that declares task groups: the level of which one domain should have all of them. Without effect
beside `TOPOLOGY_REQUIRED_TAG`."""
TASK_GROUPS_MAX = 100
MEMBERS_MAX = 100_000
"""Most members that a task group may need, or have."""
NEEDED_MAX = 10_000
"""Most members that all task groups of a gang may need together."""
TOGETHER_MAX = 1_024
"""Most members of a gang that are allocated in one step; those of a larger one are, step by step, once all have
room."""
HOST_PORTS_MAX = 100
MEMBER_SLOT = "slot of "
"""The key of a slot for one member begins with it; the key of the member follows."""
GROUP_SLOT = "slots of "
"""The key of slots for any members of a task group begins with it; the name of the group follows."""
SLOT_KEYS = (MEMBER_SLOT, GROUP_SLOT)
_BRACKETS_MAX = 5 * TASK_GROUPS_MAX + 1
_KEYS = {
    "name",
    "min",
    "max",
    "resources",
    "topology",
    "hostPorts",
    "begun",
    "tags",
    "priority",
    "allowPreemptSelf",
    "allowPreemptOther",
}


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """One task group."""

    name: str
    min: int
    """How many members the gang needs before any of them is allocated."""
    max: int | None = None
    """How many may be allocated at a time; None: any number."""
    resources: Resources | None = field(default=None, compare=False)
    """Of one member. None: members are known only when they are asked for."""
    required_topology: str = ""
    """The level of which one domain must have all members; '' for none."""
    preferred_topology: str = ""
    """The level of which one domain should have all members, if one has room; '' for none."""
    begun: bool = False
    """Whether members of the gang were allocated already, as far as the RM knows: the gang is complete or short."""
    host_ports: tuple[int, ...] = ()
    """Ports that each member takes of its node. They matter to the resource manager only."""
    tags: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Of the slots of a group with `resources`, as an ask for one of its members would have them; so are the next
    three."""
    priority: int = 0
    allow_preempt_self: bool = True
    allow_preempt_other: bool = False
    whole_required: str = ""
    """The level of which one domain must have the members of all task groups; '' for none."""
    whole_preferred: str = ""
    """The level of which one domain should have the members of all task groups, if one has room; '' for none."""

    @property
    def level(self) -> str:
        """The level of its topology, required or preferred; '' for none."""
        return self.required_topology or self.preferred_topology

    @property
    def whole_level(self) -> str:
        """The level that all task groups have in common, required or preferred; '' for none."""
        return self.whole_required or self.whole_preferred


def differ_in_counts_only(old: Sequence[DeclaredGroup], new: Sequence[DeclaredGroup]) -> bool:
    """Whether both declare the same task groups, but for min, max and begun, which may change on a living application
    (SEMANTICS I26)."""
    return _without_counts(old) == _without_counts(new)


def _without_counts(groups: Sequence[DeclaredGroup]) -> list[tuple[DeclaredGroup, Resources | None]]:
    same = (replace(one, min=0, max=None, begun=False) for one in sorted(groups, key=lambda one: one.name))
    return [(one, one.resources) for one in same]


def declared(tags: Mapping[str, str]) -> tuple[DeclaredGroup, ...]:
    """The task groups that the tag declares, with what the tags say of all of them; empty without it. Raises
    Unreadable."""
    text = tags.get(TASK_GROUPS_TAG)
    if not text:
        return ()
    return _read(text, tags.get(TOPOLOGY_REQUIRED_TAG, ""), tags.get(TOPOLOGY_PREFERRED_TAG, ""))


@lru_cache(maxsize=64)
def _read(text: str, required: str, preferred: str) -> tuple[DeclaredGroup, ...]:
    value = reading.json_value(text, _BRACKETS_MAX)
    if not isinstance(value, list) or not 0 < len(value) <= TASK_GROUPS_MAX:
        raise Unreadable(f"must be a JSON list of 1 to {TASK_GROUPS_MAX} task groups")
    groups = tuple(
        replace(_group(one, at), whole_required=required, whole_preferred=preferred if not required else "")
        for at, one in enumerate(value)
    )
    if len({one.name for one in groups}) < len(groups):
        raise Unreadable("the names of task groups must differ")
    if (needed := sum(one.min for one in groups)) > NEEDED_MAX:
        raise Unreadable(f"the task groups need {needed} members together; at most {NEEDED_MAX} are allowed")
    return groups


def _group(value: object, at: int) -> DeclaredGroup:
    where = f"task group {at}"
    found = reading.fields(value, _KEYS, where)
    name = found.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= checks.ID_LENGTH_MAX:
        raise Unreadable(f"{where} must have a name of 1 to {checks.ID_LENGTH_MAX} characters")
    least = _count(found, "min", where)
    if least is None:
        raise Unreadable(f"{where} must have min, a whole number from 1 to {MEMBERS_MAX}")
    most = _count(found, "max", where)
    if most is not None and most < least:
        raise Unreadable(f"{where} has max {most}; it must be at least its min {least}")
    required, preferred = _topology(found.get("topology"), where)
    priority = found.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool) or not -(2**31) <= priority < 2**31:
        raise Unreadable(f"{where} must have as priority a whole number of 32 bits")
    return DeclaredGroup(
        name,
        least,
        most,
        _resources(found, where),
        required,
        preferred,
        _flag(found, "begun", where, default=False),
        _ports(found.get("hostPorts", []), where),
        _tags(found.get("tags", {}), where),
        priority,
        _flag(found, "allowPreemptSelf", where, default=True),
        _flag(found, "allowPreemptOther", where, default=False),
    )


def _flag(found: Mapping[str, object], key: str, where: str, *, default: bool) -> bool:
    value = found.get(key, default)
    if not isinstance(value, bool):
        raise Unreadable(f"{where} must have true or false as {key}")
    return value


def _count(found: Mapping[str, object], key: str, where: str) -> int | None:
    value = found.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MEMBERS_MAX:
        raise Unreadable(f"{where} must have as {key} a whole number from 1 to {MEMBERS_MAX}")
    return value


def _resources(found: Mapping[str, object], where: str) -> Resources | None:
    if "resources" not in found:
        return None
    amounts = reading.json_object(found["resources"], f"resources of {where}")
    for name, amount in amounts.items():
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise Unreadable(f"resources of {where} must have a whole number for {checks.shown(name)}")
    resources = Resources({name: int(str(amount)) for name, amount in amounts.items()})
    mistake = checks.request(f"resources of {where}", resources)
    if mistake is not None:
        raise Unreadable(mistake.reason)
    return resources


def _topology(value: object, where: str) -> tuple[str, str]:
    if value is None:
        return "", ""
    found = reading.fields(value, {"required", "preferred"}, f"topology of {where}")
    levels = list(found.values())
    if len(levels) != 1 or not isinstance(levels[0], str) or not 0 < len(levels[0]) <= checks.ID_LENGTH_MAX:
        raise Unreadable(f"topology of {where} must have either required or preferred, with the name of a level")
    return (levels[0], "") if "required" in found else ("", levels[0])


def _tags(value: object, where: str) -> dict[str, str]:
    found = reading.json_object(value, f"tags of {where}")
    tags = {name: text for name, text in found.items() if isinstance(text, str)}
    if len(tags) < len(found):
        raise Unreadable(f"tags of {where} must have texts")
    mistake = ask_tags.mistake(tags)
    if mistake is not None:
        raise Unreadable(f"{where}: {mistake.reason}")
    return tags


def _ports(value: object, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > HOST_PORTS_MAX:
        raise Unreadable(f"hostPorts of {where} must be a list of at most {HOST_PORTS_MAX} ports")
    for port in value:
        if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65_535:
            raise Unreadable(f"hostPorts of {where} must be whole numbers from 1 to 65535")
    return tuple(value)
