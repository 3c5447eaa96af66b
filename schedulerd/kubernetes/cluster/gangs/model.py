"""A gang, its task groups, and a slot for each of its placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.kubernetes.cluster.gangs.lifecycle import GangProgress, GangStage, GangTrigger, move
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import GangStyle, PlaceholderKind, TaskGroup
from schedulerd.kubernetes.reasons.waiting import Waiting

if TYPE_CHECKING:
    from schedulerd.kubernetes.cluster.model import OwnPod


TASK_GROUPS_TAG = "schedulerd.io/task-groups"
"""Of an application: the task groups of its gang, for which the daemon holds room."""
ALL_MEMBERS = "members"
"""The task group of all pods of a PodGroup."""


class GangSource(Enum):
    """How it was declared."""

    ANNOTATIONS = "task-groups"
    COSCHEDULING = "podgroup"
    KUBERNETES = "schedulinggroup"


class GroupKey(NamedTuple):
    """A PodGroup, or a group of a Workload."""

    source: GangSource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """What a PodGroup says."""

    min_member: int
    """0: no gang, each pod for itself."""
    timeout_s: int = 0
    wishes: Mapping[str, str] = field(default_factory=dict)
    """Its topology, and how it is preempted; as tags of its application."""
    priority: int | None = None
    """Of all its pods; None: each has its own."""
    uid: str = field(default="", compare=False)
    """Of a PodGroup of Kubernetes; empty of others."""
    generation: int = field(default=0, compare=False)
    is_scheduled: bool = field(default=False, compare=False)
    """Its condition says so already."""


class GangAge(NamedTuple):
    """The order of gangs by age."""

    created_s: int
    """Of its originator, in seconds since the epoch; then comes that one's name."""
    name: str
    application_id: ApplicationId


class GangTime(NamedTuple):
    """When the time of a gang has begun that is not complete."""

    whole_s: float
    began_ns: int | None
    """By the clock of the cluster; None if it began before the start."""
    began_s: int
    """As wall time."""


class SlotState(Enum):
    WANTED = "wanted"
    """To be created or asked for, from `not_before_ns` on."""
    CREATING = "creating"
    """Its pod was sent to the API server, and the watch has not told it."""
    THERE = "there"
    """Its pod exists, or it was asked for."""
    SPENT = "spent"
    """It was replaced, or is no longer needed: no other one is made."""


class KeptRoom(NamedTuple):
    """The room of a placeholder that is gone, until a member has it."""

    gang: Gang
    group: str
    node: str


class Slot:
    """One placeholder of the gang; over time it may be several pods or asks."""

    __slots__ = (
        "_gang",
        "_stand_in",
        "_state",
        "failures",
        "group",
        "index",
        "name",
        "not_before_ns",
        "own",
        "problem",
    )

    def __init__(self, gang: Gang, group: str, index: int, name: str) -> None:
        self._gang = gang
        self._stand_in = ""
        self.group = group
        self.index = index
        self.name = name
        """Of its pod."""
        self.own: OwnPod | None = None
        self.failures = 0
        """In a row."""
        self.not_before_ns = 0
        self.problem = ""
        """Why its pod could not be created."""
        self._state = SlotState.SPENT
        self.state = SlotState.WANTED

    @property
    def state(self) -> SlotState:
        return self._state

    @state.setter
    def state(self, state: SlotState) -> None:
        was_spent, is_spent = self._state is SlotState.SPENT, state is SlotState.SPENT
        self._gang.groups[self.group].left += was_spent - is_spent
        self._state = state
        if self.is_to_come:
            self._gang.to_come[self] = None
        else:
            self._gang.to_come.pop(self, None)

    @property
    def is_to_come(self) -> bool:
        return self._state in (SlotState.WANTED, SlotState.CREATING)

    @property
    def is_missing(self) -> bool:
        """The daemon has neither an ask nor an allocation of its placeholder, and will have one."""
        own = self.own if self._state is SlotState.THERE else None
        # An earlier ask may have been allocated, whatever the daemon has said of the last one.
        is_rejected = own is not None and own.is_ask_rejected and not own.uuid
        return self.is_to_come or is_rejected

    @property
    def stand_in(self) -> str:
        """Key of an ask that no node can take: it makes real pods wait until the placeholder is made again."""
        return self._stand_in

    @stand_in.setter
    def stand_in(self, key: str) -> None:
        self._stand_in = key
        if key:
            self._gang.standing_in[self] = None
        else:
            self._gang.standing_in.pop(self, None)


@dataclass(slots=True, eq=False)
class Group:
    """A task group of a gang that was formed."""

    name: str
    members: int
    resources: Mapping[str, int]
    """Of one member, with annotations."""
    declared: TaskGroup | None = None
    """With annotations."""
    pattern: OwnPod | None = None
    """As which pod room for any of its members is judged, if the daemon holds that without placeholder pods."""
    oldest: OwnPod | None = None
    """The oldest of its pods that exist, as which its placeholders count."""
    has_lost_oldest: bool = False
    """It has left while nothing was held for the group: the next one is not looked for yet."""
    slots: int = 0
    """How many its gang was formed with."""
    left: int = 0
    """Slots that are not SPENT."""
    placed: int = 0
    """Members that have got a node since the gang was formed, each of which needs one slot less."""


@dataclass(slots=True, eq=False)
class Gang:
    source: GangSource
    kind: PlaceholderKind
    """NONE of a PodGroup."""
    style: GangStyle
    timeout_s: int = 0
    """0: the daemon's default."""
    key: GroupKey | None = None
    """Of the object that declares it."""
    declared: tuple[TaskGroup, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """About the gang, as they were written."""
    wishes: Mapping[str, str] = field(default_factory=dict)
    """Its topology, and how it is preempted; as tags of its application."""
    stage: GangStage = GangStage.FORMING
    has_placeholders: bool = False
    """Placeholder pods hold its room; otherwise the daemon does, which is told the task groups."""
    tag: str = ""
    """What it declares to the daemon, as the value of the tag; empty with placeholders, or before it is formed."""
    originator: OwnPod | None = None
    groups: dict[str, Group] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    """By name."""
    to_come: dict[Slot, None] = field(default_factory=dict)
    """Slots that are WANTED or CREATING."""
    standing_in: dict[Slot, None] = field(default_factory=dict)
    """Slots with an ask that stands in for them."""
    placed: dict[str, None] = field(default_factory=dict)
    """Uids of members that count as placed already, or had a node when the gang was formed."""
    kept_rooms: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """By task group and node: uids of placeholders that are gone, and whose members are not placed yet."""
    shown: Waiting | None = None
    """What all its pods show that have no node."""
    progress: GangProgress = GangProgress.WAITS
    has_failed_pods: bool = False
    """Hard: happens once."""
    group_told_ns: int | None = None
    """When the condition of its PodGroup was written last, that it finds no node."""
    group_waits_since_ns: int = 0
    """Wall time since when that says so."""
    group_is_told: bool = False
    """The condition of its PodGroup was written, that it is scheduled."""
    refusal_told: str = ""
    """Why a placeholder could not be created, as the last event about that says."""
    short_since_ns: int | None = None
    """Since when a placeholder could not be created."""
    first_placed_ns: int | None = None
    """When the daemon has placed its first placeholder: its time begins."""
    first_placed_s: int = 0
    """The same as wall time, in seconds since the epoch, of a placeholder that was found bound at a start."""
    said: str = ""
    """Why it is not formed, as the last event says."""
    shortfall: str | None = None
    """When its time was over: how many placeholders had no node, and what they waited for."""
    not_before_ns: int = 0
    """When it may be formed."""

    def clear_slots(self) -> None:
        self.slots, self.to_come, self.standing_in = {}, {}, {}
        self.placed.clear()
        self.shortfall = None

    def add_slot(self, group: str, index: int, name: str) -> None:
        self.slots[name] = Slot(self, group, index, name)
        self.groups[group].slots += 1

    @property
    def declaration(self) -> tuple[object, ...]:
        """Equal for gangs that were declared alike."""
        return self.source, self.kind, self.style, self.timeout_s, self.declared, self.wishes

    def enter(self, trigger: GangTrigger) -> None:
        """Moves the gang to its next stage. Raises IllegalMove if the table has no such move."""
        self.stage = move(self.stage, trigger)
        if trigger is GangTrigger.START_OVER:
            self.progress = GangProgress.WAITS

    def reach(self, progress: GangProgress) -> None:
        """It has come as far as this, or further."""
        self.progress = max(self.progress, progress)

    @property
    def has_run(self) -> bool:
        return self.progress is not GangProgress.WAITS

    @property
    def was_complete(self) -> bool:
        return self.progress is GangProgress.WAS_COMPLETE

    @property
    def is_past(self) -> bool:
        """No placeholder is made for it any longer."""
        return self.stage in (GangStage.OVER, GangStage.ABANDONED)
