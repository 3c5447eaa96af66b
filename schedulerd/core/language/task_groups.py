"""The task groups of a gang without placeholders, as the tag `schedulerd.io/task-groups` of an application declares
them.

    [{"name": "workers", "min": 4, "max": 8, "resources": {"vcore": 1000, "memory": 1073741824},
      "topology": {"required": "rack"}, "hostPorts": [8080]}]

Amounts are those of one member, in the units of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from schedulerd.core.language import checks, reading
from schedulerd.core.language.reading import Unreadable
from schedulerd.core.language.resources import Resources

TASK_GROUPS_TAG = "schedulerd.io/task-groups"
TASK_GROUPS_MAX = 100
MEMBERS_MAX = 100_000
"""Most members that a task group may need, or have."""
NEEDED_MAX = 10_000
"""Most members that all task groups of a gang may need together: room for all is looked for in one step."""
HOST_PORTS_MAX = 100
SLOT_KEY_PREFIX = "slot of "
"""Keys of slots begin with it; what follows is the name of the task group, or the key of the member."""
_BRACKETS_MAX = 4 * TASK_GROUPS_MAX + 1
_KEYS = {"name", "min", "max", "resources", "topology", "hostPorts", "begun"}


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

    @property
    def level(self) -> str:
        """The level of its topology, required or preferred; '' for none."""
        return self.required_topology or self.preferred_topology


def differ_in_counts_only(old: Sequence[DeclaredGroup], new: Sequence[DeclaredGroup]) -> bool:
    """Whether both declare the same task groups, but for min, max and begun, which may change on a living application
    (SEMANTICS I26)."""
    return _without_counts(old) == _without_counts(new)


def _without_counts(groups: Sequence[DeclaredGroup]) -> list[tuple[DeclaredGroup, Resources | None]]:
    same = (replace(one, min=0, max=None, begun=False) for one in sorted(groups, key=lambda one: one.name))
    return [(one, one.resources) for one in same]


def declared(tags: Mapping[str, str]) -> tuple[DeclaredGroup, ...]:
    """The task groups that the tag declares; empty without the tag. Raises Unreadable."""
    text = tags.get(TASK_GROUPS_TAG)
    return _read(text) if text else ()


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[DeclaredGroup, ...]:
    value = reading.json_value(text, _BRACKETS_MAX)
    if not isinstance(value, list) or not 0 < len(value) <= TASK_GROUPS_MAX:
        raise Unreadable(f"must be a JSON list of 1 to {TASK_GROUPS_MAX} task groups")
    groups = tuple(_group(one, at) for at, one in enumerate(value))
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
    begun = found.get("begun", False)
    if not isinstance(begun, bool):
        raise Unreadable(f"{where} must have true or false as begun")
    ports = _ports(found.get("hostPorts", []), where)
    return DeclaredGroup(name, least, most, _resources(found, where), required, preferred, begun, ports)


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


def _ports(value: object, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > HOST_PORTS_MAX:
        raise Unreadable(f"hostPorts of {where} must be a list of at most {HOST_PORTS_MAX} ports")
    for port in value:
        if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65_535:
            raise Unreadable(f"hostPorts of {where} must be whole numbers from 1 to 65535")
    return tuple(value)
