"""The queue file as pydantic models: which keys there are, and what each value on its own may be.

Field names are the keys of the file. Unknown keys are errors. What can be said only by looking at several values (a
sum of guarantees, a name used twice) is in `hierarchy`, `limits` and `placement`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, model_validator

from schedulerd.config import acl
from schedulerd.config.choices import one_of
from schedulerd.core.language import reading, specs
from schedulerd.core.language.specs import Acl, NodeOrder, OptOut, RuleKind

QUEUE_NAME = re.compile(rf"(?!@recovery@$){specs.QUEUE_NAME.pattern}", re.IGNORECASE | re.ASCII)
"""`@recovery@` is created when it is needed, and cannot be configured."""
PARTITION_NAME = re.compile(r"[^\s\[\]]{1,64}")
LEVEL_TEXT = re.compile(r"[^\s,()=!<>]{1,253}")
TOPOLOGY_LEVELS_MAX = 8
CHECKSUM = re.compile(r"[0-9a-fA-F]{64}")

_Parsed = TypeVar("_Parsed")


def _from_text(parse: Callable[[str], _Parsed]) -> BeforeValidator:
    """A validator that applies `parse` to texts; other values are left to the check of the type."""

    def validate(value: Any) -> Any:
        return parse(value) if isinstance(value, str) else value

    return BeforeValidator(validate)


def _matching(form: re.Pattern[str], rule: str) -> BeforeValidator:
    def parse(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(rule)
        return text

    return _from_text(parse)


def _parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


Amount = Annotated[int, _from_text(reading.amount)]
Count = Annotated[int, _from_text(reading.count)]
Flag = Annotated[bool, _from_text(_parse_flag)]
AccessList = Annotated[InstanceOf[Acl], _from_text(acl.parse_acl)]
QueueName = Annotated[
    str,
    _matching(
        QUEUE_NAME,
        f"a queue name is {specs.QUEUE_NAME_FORM}, without a dot or a space, and not @recovery@",
    ),
]


class FilterType(StrEnum):
    """Whether the rule applies to the users and groups of its filter (`allow`), or to all others (`deny`)."""

    ALLOW = "allow"
    DENY = "deny"


class ResolverType(StrEnum):
    """How the groups of a user are found if the resource manager does not send them."""

    NONE = "none"
    OS = "os"
    LDAP = "ldap"
    TEST = "test"


class _Mapping(BaseModel):
    """A mapping with known keys. A key without a value, or with an empty text, is as if it were not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value not in (None, "") or key not in cls.model_fields}


class Amounts(BaseModel):
    """Amounts per resource name, in the units of the wire; any name is a resource."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Amount] = Field(init=False)
    vcore: Annotated[int, _from_text(reading.vcore)] = 0

    def items(self) -> dict[str, int]:
        """The amounts that were written, zeros too: in a quota a 0 is none and a missing name is unlimited."""
        written = {reading.VCORE: self.vcore} if reading.VCORE in self.model_fields_set else {}
        return written | self.__pydantic_extra__

    def __eq__(self, other: object) -> bool:
        """A written 0 is not a missing name."""
        return isinstance(other, Amounts) and self.items() == other.items()

    def __hash__(self) -> int:
        return hash(frozenset(self.items().items()))


class QueueResources(_Mapping):
    """Guarantee and maximum of a queue."""

    guaranteed: Amounts = Amounts()
    max: Amounts = Amounts()


class Limit(_Mapping):
    """A limit for each of the named users and groups, in a queue and all below it."""

    limit: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    maxapplications: Count = 0
    maxresources: Amounts = Amounts()


class ChildTemplate(_Mapping):
    """Initial values of a queue that a placement rule creates below this one."""

    maxapplications: Count = 0
    properties: dict[str, str] = Field(default_factory=dict)
    resources: QueueResources = QueueResources()


class Queue(_Mapping):
    """A queue and all below it."""

    name: QueueName = ""
    parent: Flag = False
    resources: QueueResources = QueueResources()
    maxapplications: Count = 0
    adminacl: AccessList = Acl()
    submitacl: AccessList = Acl()
    properties: dict[str, str] = Field(default_factory=dict)
    childtemplate: ChildTemplate = ChildTemplate()
    limits: tuple[Limit, ...] = ()
    queues: tuple[Queue, ...] = ()

    @property
    def is_parent(self) -> bool:
        return self.parent or bool(self.queues)


class Filter(_Mapping):
    """For which users and groups a placement rule is used."""

    type: Annotated[FilterType, _from_text(one_of(FilterType))] = FilterType.ALLOW
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class PlacementRule(_Mapping):
    """One way to find the queue of an application."""

    name: Annotated[RuleKind, _from_text(one_of(RuleKind))] | None = None
    create: Flag = False
    filter: Filter = Filter()
    parent: PlacementRule | None = None
    value: str = ""


class NodeSortPolicy(_Mapping):
    """Which node is tried first, and how much each resource counts for that."""

    type: Annotated[NodeOrder, _from_text(one_of(NodeOrder))] = NodeOrder.FAIR
    resourceweights: dict[str, Annotated[float, _from_text(reading.weight)]] = Field(default_factory=dict)


class Preemption(_Mapping):
    """Whether running work may be stopped for the sake of other work."""

    enabled: Flag = True
    quotapreemptionenabled: Flag = False
    optout: Annotated[OptOut, _from_text(one_of(OptOut))] = OptOut.NEVER


TopologyKey: TypeAlias = Annotated[str, _matching(LEVEL_TEXT, "a node attribute has 1 to 253 characters without space")]


class TopologyLevel(_Mapping):
    """A level of the topology of the nodes: nodes with the same value of the attribute are one domain of it."""

    name: Annotated[str, _matching(LEVEL_TEXT, "a level has a name of 1 to 253 characters without space")] = ""
    attribute: TopologyKey = ""


class UserGroupResolver(_Mapping):
    """How the groups of a user are found."""

    type: Annotated[ResolverType, _from_text(one_of(ResolverType))] = ResolverType.NONE


class Partition(_Mapping):
    """A set of nodes with the queues that share them."""

    name: Annotated[str, _matching(PARTITION_NAME, "a partition name is 1 to 64 characters without space or []")] = ""
    queues: tuple[Queue, ...] | None = None
    placementrules: tuple[PlacementRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    preemption: Preemption = Preemption()
    nodesortpolicy: NodeSortPolicy = NodeSortPolicy()
    topology: Annotated[tuple[TopologyLevel, ...], Field(max_length=TOPOLOGY_LEVELS_MAX)] = ()
    topologykeys: Annotated[tuple[TopologyKey, ...], Field(max_length=TOPOLOGY_LEVELS_MAX)] = ()
    usergroupresolver: UserGroupResolver = UserGroupResolver()


class QueueConfiguration(_Mapping):
    """The whole file."""

    partitions: tuple[Partition, ...] = ()
    checksum: Annotated[str, _matching(CHECKSUM, "a checksum is the 64 hexadecimal digits of a SHA-256")] = ""
