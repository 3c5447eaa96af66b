"""The state of the cluster: its own pods and their applications, nodes as they were reported, and what is still to do.

Handlers change the model and append to `effects`. Nothing here looks at the clock or does I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from schedulerd.kubernetes.cluster.effects import (
    AddApplication,
    Amounts,
    Ask,
    Effect,
    FailPod,
    ObjectName,
    PodName,
    RecordEvent,
    ReleaseAllocation,
)
from schedulerd.kubernetes.cluster.ended_pods import EndedPods
from schedulerd.kubernetes.cluster.events import Cause
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangAge, GangSource, GroupKey, KeptRoom, KnownGroup, Slot
from schedulerd.kubernetes.cluster.node_reports import NodeReports
from schedulerd.kubernetes.cluster.pod_lifecycle import AllocatedBy, PodState, PodTrigger, Told, move
from schedulerd.kubernetes.cluster.pod_volumes import PodVolumes
from schedulerd.kubernetes.cluster.settings import SECOND_NS, ClusterSettings
from schedulerd.kubernetes.cluster.timers import Due, Timers
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.namespaces import NamespaceTags
from schedulerd.kubernetes.metadata.pods import PodMetadata, User
from schedulerd.kubernetes.objects.cluster import PriorityClass
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.daemon_sets import DaemonSets
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.storage import ClaimKey
from schedulerd.kubernetes.reasons.pod_reason import PodReason, PodReasons
from schedulerd.kubernetes.reasons.waiting import Waiting

_IDLE_CHECK_NS = 301 * SECOND_NS


class OwnPod(msgspec.Struct, eq=False):
    """A pod that this scheduler places. The key of its ask and allocation is its uid."""

    uid: str
    pod: Pod
    """As it is now."""
    metadata: PodMetadata
    state: PodState = PodState.NEW
    application: Application | None = None
    node: str = ""
    """Of its allocation, or of its spec."""
    uuid: str = ""
    """Of its allocation."""
    amounts: Amounts = msgspec.field(default_factory=dict)
    """Of its allocation."""
    allocated_by: AllocatedBy = AllocatedBy.DAEMON
    ask: Ask | None = None
    """As it was sent last."""
    asks_sent: int = 0
    amounts_asked: Amounts = msgspec.field(default_factory=dict)
    """Of the last ask that was sent, which may still be under way."""
    class_attribute: str = ""
    """The class that it keeps in use."""
    is_ask_rejected: bool = False
    """The last ask was: an allocation may have the amounts of an earlier one."""
    is_release_wanted: bool = False
    """The daemon waits for the end of the pod."""
    keeps_age: bool = False
    """Its ask is not the first one: its age counts from that."""
    asked_at_ns: int = 0
    """Wall time of its first ask; 0 before that."""
    needs_callback: bool = False
    """A node refused it after it was allocated: the daemon has to ask about every node."""
    avoided_nodes: dict[str, int] = msgspec.field(default_factory=dict)
    """Nodes that could not be bound to, with the time until which they are avoided."""
    times_avoided: int = 0
    """How often a node was to be avoided since the pod was last bound."""
    failures: int = 0
    """In a row: rejections of its ask, or of its node because of it."""
    adoptions: int = 0
    """How often it was reported as running."""
    group: GroupKey | None = None
    """Its PodGroup, if it has one that counts."""
    declares_gang: bool = False
    """It has task groups, usable or not."""
    told: Told = Told.NOTHING
    is_placeholder: bool = False
    """Holds room for a member of a gang, or is the pattern of those that do."""
    task_group: str = ""
    """Of a placeholder; of any other pod as the daemon was told last."""
    hold_id: str = ""
    """Of room that the daemon holds for it: it counts on that node."""
    slot: Slot | None = None
    """Of a placeholder that its gang wants."""
    counted_as: Pod | None = None
    """Of a placeholder: as which pod its room counts."""
    is_unwanted: bool = False
    """A placeholder pod that is being deleted because nobody wants it."""
    cause: Cause | None = None
    """Why the daemon wants its end."""
    failure: FailPod | None = None
    """It fails before it runs: what is written of that."""
    volumes: PodVolumes | None = None
    """Once it was allocated with claims that were not bound."""
    reason: PodReason = msgspec.field(default_factory=PodReason)
    """Why it waits."""

    def enter(self, trigger: PodTrigger) -> None:
        """Moves the pod to its next state. Raises IllegalMove if the table has no such move."""
        self.state = move(self.state, trigger)

    def stop_asking(self, trigger: PodTrigger) -> None:
        """The pod is moved, and what was asked last does not count any longer."""
        self.enter(trigger)
        self.ask = None

    def lose_allocation(self) -> None:
        """The daemon has no allocation of it any longer; it may be on its node."""
        if self.uuid:
            self.uuid = ""
            self.enter(PodTrigger.LOSE)

    def update_answered(self) -> None:
        """Whatever update of its node has reported the pod, the daemon has answered it."""
        if self.allocated_by is AllocatedBy.NODE_UPDATE:
            self.allocated_by = AllocatedBy.NODE_REPORT

    @property
    def earlier_uuids(self) -> list[str]:
        """Under which it was reported as running before."""
        return [uuid for number in range(self.adoptions) if (uuid := self.uuid_of_report(number + 1)) != self.uuid]

    def uuid_of_report(self, number: int) -> str:
        """Of its allocation, when it is reported as running for the so many-th time."""
        return self.uid if number == 1 else f"{self.uid}-{number}"

    @property
    def gang(self) -> Gang | None:
        """Of its application."""
        return self.application.gang if self.application is not None else None

    @property
    def judged(self) -> Pod:
        """As what predicates know it: a placeholder is judged as the member that it stands for."""
        return self.counted_as or self.pod

    @property
    def name(self) -> PodName:
        metadata = self.pod.metadata
        return PodName(metadata.namespace, metadata.name, metadata.uid)


class ApplicationState(Enum):
    FORMING = "forming"
    """Of a gang: it is not submitted before enough of its pods exist."""
    SUBMITTED = "submitted"
    ACCEPTED = "accepted"
    WAITING = "waiting"
    """Was rejected or has failed, and is added again later."""


@dataclass(slots=True, eq=False)
class Application:
    """An application of the daemon: pods of one namespace with one application id. Queue and user are those of the
    first pod."""

    id: ApplicationId
    namespace: str
    queue: str
    user: User
    state: ApplicationState = ApplicationState.SUBMITTED
    has_started: bool = False
    """The daemon has said of it that it does more than wait for its first ask."""
    pods: dict[str, OwnPod] = field(default_factory=dict)
    """By uid: asked for, allocated, or waiting for the application."""
    others: dict[str, OwnPod] = field(default_factory=dict)
    """Pods of other namespaces and users that carry its id, and wait for its end."""
    running: dict[str, str] = field(default_factory=dict)
    """Names by uid of its pods with a node that are not being deleted."""
    ending: dict[str, str] = field(default_factory=dict)
    """Names by uid of its pods with a node that are being deleted."""
    next_run: dict[str, OwnPod] = field(default_factory=dict)
    """Pods of a gang that wait until those that are there have ended."""
    was_ending: bool = False
    """`is_ending` at the last check of these pods."""
    next_run_said_ns: int = 0
    """When these were told last for which pods they wait."""
    next_run_due_ns: int = -1
    """When they are told next, if a timer is set."""
    failures: int = 0
    """In a row."""
    corrections: int = 0
    """In a row: how often it was begun anew while it waited, as its first pod had left."""
    submitted_ns: int = 0
    """When the daemon was told of it last."""
    again_ns: int = 0
    """While WAITING: when it is submitted again."""
    gang: Gang | None = None
    problem: Waiting | None = None
    """While WAITING: why."""
    problem_ns: int = 0
    """And since when."""
    failing: str = ""
    """Why the daemon ends it, as it has said when it began to."""
    added: AddApplication | None = None
    """As the daemon was told last."""
    taken: AddApplication | None = None
    """As the daemon has it: it may have rejected what it was told last."""
    problems_told: tuple[str, ...] = ()
    """Of annotations of its namespace, as its pods were told last."""
    problems_due_ns: int = 0
    """From when on the next pod that joins is told them."""
    is_changing: bool = False
    """It was told again with other tags of its namespace, and has not answered that."""

    @property
    def is_ending(self) -> bool:
        """Its pods are being deleted, as far as they have a node."""
        return bool(self.ending) and not self.running

    @property
    def has_real_pods(self) -> bool:
        return any(not own.is_placeholder for own in self.pods.values())


@dataclass(slots=True)
class WakeTimes:
    """When pods that nodes have refused, and that were woken, are asked for again."""

    due_ns: int | None = None
    """When the next of them are; None: no timer is set."""
    not_before_ns: int = 0
    """The earliest time of that, as some were asked for again before."""


class Model:
    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.cache = ClusterCache(DaemonSets(settings.daemon_set_namespaces))
        self.predicates = Predicates(self.cache)
        self.nodes = NodeReports(settings.classes_max)
        self.pods: dict[str, OwnPod] = {}
        """By uid."""
        self.ended_pods = EndedPods()
        self.applications: dict[ApplicationId, Application] = {}
        self.unanswered: dict[ApplicationId, int] = {}
        """By application id: how many submissions the daemon has not answered; only the answer to the last counts."""
        self.namespaces: dict[str, NamespaceTags] = {}
        """By name what their annotations say, which may be large and is read once."""
        self.priority_classes: dict[str, PriorityClass] = {}
        self.wake_times = WakeTimes()
        self.waiting_for_claims: dict[ClaimKey, dict[str, None]] = {}
        """Uids of pods by a claim that keeps them, or may keep them, from being asked for."""
        self.awaiting_volumes: dict[ClaimKey, dict[str, None]] = {}
        """Uids of assumed pods by a claim that is being bound."""
        self.patterns: dict[str, OwnPod] = {}
        """Patterns of task groups for whose members the daemon holds room, by the key of its questions."""
        self.holds: dict[str, str] = {}
        """By hold id: as which uid the room that the daemon holds counts."""
        self.placeholders: dict[ApplicationId, dict[str, None]] = {}
        """Uids of placeholder pods by application id."""
        self.is_gang_check_due = False
        """A timer is set for the next check of gangs that exclude each other."""
        self.gang_checked: GangAge | None = None
        """The last of these that was checked."""
        self.promised: dict[str, int] = {}
        """By uid of a pod that counts on the node that the daemon was told suits it: until when."""
        self.promised_like: dict[tuple[str, str], list[str]] = {}
        """By pattern and node: uids as which the pattern counts there, oldest first, some of which no longer do."""
        self.promises = 0
        """Number of these so far."""
        self.kept_rooms: dict[str, KeptRoom] = {}
        """By uid of a placeholder that is gone: its room counts until a member has it."""
        self.unwanted: dict[str, None] = {}
        """Uids of placeholder pods that no gang wants, to be deleted in this step."""
        self.gangs_removed: dict[ApplicationId, int] = {}
        """By id of an application with a gang that was removed just now, oldest first: from when on another one of that
        id may be added."""
        self.gangs_due: dict[ApplicationId, None] = {}
        """Ids of applications whose gangs are checked in this step."""
        self.gang_sources: set[GangSource] = set()
        """Kinds of objects by which pods become gangs."""
        self.gang_groups: dict[GroupKey, dict[str, KnownGroup]] = {}
        """By object its groups; a PodGroup has one, without a name."""
        self.unreadable_groups: dict[GroupKey, str] = {}
        """Why a PodGroup cannot be read; it is none of `gang_groups`."""
        self.oldest_at_start: dict[ApplicationId, int] = {}
        """During the start: when the oldest pod of each application was created, in seconds since the epoch."""
        self.declaring: dict[ApplicationId, dict[str, None]] = {}
        """Uids of pods with task groups that can be used, by application id."""
        self.undeclared_for: dict[ApplicationId, set[tuple[str, User]]] = {}
        """By application id: namespaces and users of pods for which none of these declares a gang."""
        self.waiting_for_declaration: dict[ApplicationId, dict[str, int]] = {}
        """By application id: uids of pods that wait for the one that declares their task group, and until when; -1 is
        a wait that is over."""
        self.waiting_for_daemon_sets: dict[str, dict[str, int]] = {}
        """By uid of a DaemonSet that was not seen: uids of pods that name it, and until when they wait for it."""
        self.waiting_for_groups: dict[GroupKey, dict[str, None]] = {}
        """Uids of pods by the object that they wait for."""
        self.unconfirmed: dict[str, tuple[ReleaseAllocation, int]] = {}
        """By UUID: releases of allocations that updates of nodes have reported, and how often they may be repeated."""
        self.timers = Timers()
        self.reasons = PodReasons(self.predicates, settings.reason_writes_per_s)
        """Why pods wait, and what of that is to be written."""
        self.effects: list[Effect] = []
        self.now_ns = 0
        self.epoch_ns = 0
        """Wall time at which `now_ns` was 0; known from the start on."""
        self.is_started = False

    def stop_asking(self, own: OwnPod, trigger: PodTrigger) -> None:
        """The pod is asked for no longer, and counts on no node because of the ask."""
        own.stop_asking(trigger)
        if own.hold_id or own.uid in self.promised:
            own.hold_id = ""
            self.promised.pop(own.uid, None)
            self.cache.forget_assumed(own.uid)

    def stop_using_class(self, own: OwnPod) -> None:
        """The pod needs no class of nodes any longer, nor what nodes have said of it."""
        attribute, own.class_attribute = own.class_attribute, ""
        self.cache.refused.forget(own.uid)
        if attribute and self.nodes.classes.release(attribute, self.now_ns):
            self.timers.set(self.now_ns + _IDLE_CHECK_NS, Due.IDLE_CLASSES)

    def record(
        self,
        own: OwnPod,
        reason: str,
        action: str,
        note: str,
        *,
        is_warning: bool = False,
        happens_once: bool = False,
    ) -> None:
        """An event about a pod."""
        pod = own.name
        regarding = ObjectName("Pod", pod.name, pod.uid, pod.namespace)
        self.effects.append(RecordEvent(regarding, reason, action, note, is_warning, happens_once))
