"""The states of pending asks: one table, and one function that finds the state.

States are counted per allocation still to come, so an ask for several can have some in each. No state is stored:
reservations, predicate checks and awaited placeholders are on the ask, blocks are stored once for a class at a queue,
and all other allocations have the state of their ask group. So a block costs the same however many asks it blocks, and
counting all states costs a walk over groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, TypeAlias

from schedulerd.core.language.facts.scheduling_states import SchedulingState
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import admits_group, gang_ahead
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.quotas.rules import Blocked, BlockedBy, blocked, highest_blocked


class PendingState(StrEnum):
    """What a pending allocation waits for."""

    READY = "ready"
    QUOTA_BLOCKED = "quota_blocked"
    USER_LIMIT_BLOCKED = "user_limit_blocked"
    MAX_APPLICATIONS_BLOCKED = "max_applications_blocked"
    UNSCHEDULABLE = "unschedulable"
    AWAITING_GANG = "awaiting_gang"
    AWAITING_PLACEHOLDER = "awaiting_placeholder"
    AWAITING_PREDICATE = "awaiting_predicate"
    PREDICATE_FAILED = "predicate_failed"
    RESERVED = "reserved"
    APPLICATION_INACTIVE = "application_inactive"


_S = PendingState
_SKIPPED, _UNSCHEDULABLE = "SchedulingSkipped", "Unschedulable"


class Meaning(NamedTuple):
    """What a state means: to people, to the RM and to Kubernetes."""

    waits_for: str
    ends_when: str
    """What ends the state."""
    cause: str
    """The type of `Waiting.cause`, in words."""
    scheduling_state: SchedulingState | None
    """What the resource manager is told (SI `UpdateContainerSchedulingState`); None: nothing.

    An unschedulable ask that quotas would not let in after the asks before it is told as SKIPPED.
    """
    pod_reason: str
    """Reason of the Kubernetes condition PodScheduled=False. `Unschedulable` makes an autoscaler add nodes."""


STATES: Mapping[PendingState, Meaning] = {
    _S.READY: Meaning("its turn", "the next cycles reach it", "None", None, _SKIPPED),
    _S.QUOTA_BLOCKED: Meaning(
        "a queue to have room within its quota",
        "less is used in that queue, or its quota is raised",
        "Blocked",
        SchedulingState.SKIPPED,
        _SKIPPED,
    ),
    _S.USER_LIMIT_BLOCKED: Meaning(
        "the limit of its user or group",
        "the user or group uses less in that queue, or the limit is raised",
        "Blocked",
        SchedulingState.SKIPPED,
        _SKIPPED,
    ),
    _S.MAX_APPLICATIONS_BLOCKED: Meaning(
        "fewer running applications",
        "an application of that queue, user or group completes, or the limit is raised",
        "Blocked",
        SchedulingState.SKIPPED,
        _SKIPPED,
    ),
    _S.UNSCHEDULABLE: Meaning(
        "any node to fit",
        "a node has more room, is added or changes",
        "None, or the Application whose gang has slots without room",
        SchedulingState.FAILED,
        _UNSCHEDULABLE,
    ),
    _S.AWAITING_GANG: Meaning(
        "the other members or the placeholders of its own gang, or an earlier gang that has priority",
        "the gang is formed and all of it has room, or the time of the gang is over",
        "Application whose gang is awaited",
        SchedulingState.SKIPPED,
        _SKIPPED,
    ),
    _S.AWAITING_PLACEHOLDER: Meaning(
        "a placeholder to be released, whose room it gets",
        "the resource manager confirms the release",
        "Allocation, the placeholder",
        None,
        _SKIPPED,
    ),
    _S.AWAITING_PREDICATE: Meaning(
        "the answer of the resource manager about a node",
        "it answers, or the time for the answer is over",
        "PredicateCheck",
        None,
        _SKIPPED,
    ),
    _S.PREDICATE_FAILED: Meaning(
        "a node that the resource manager does not refuse",
        "a node changes, or the retry time is over",
        "PredicateHistory, or the Application whose gang has slots that are refused",
        SchedulingState.FAILED,
        _UNSCHEDULABLE,
    ),
    _S.RESERVED: Meaning(
        "the node on which room is reserved for it",
        "it fits there, victims are gone, or the reservation ends",
        "Reservation",
        SchedulingState.RESERVED,
        _UNSCHEDULABLE,
    ),
    _S.APPLICATION_INACTIVE: Meaning(
        "its application or resource manager to be in a state that schedules",
        "that state changes",
        "ApplicationState or ResourceManagerState",
        SchedulingState.SKIPPED,
        _SKIPPED,
    ),
}


def pod_reason(state: PendingState, cause: object) -> str:
    """The reason of the Kubernetes condition; with victims that have to end first, more nodes are not what helps."""
    if isinstance(cause, Reservation) and cause.victims:
        return _SKIPPED
    return STATES[state].pod_reason


OF_RULE: Mapping[BlockedBy, PendingState] = {
    BlockedBy.QUOTA: _S.QUOTA_BLOCKED,
    BlockedBy.GANG_QUOTA: _S.QUOTA_BLOCKED,
    BlockedBy.MAX_APPLICATIONS: _S.MAX_APPLICATIONS_BLOCKED,
    BlockedBy.GANG_LIMIT: _S.USER_LIMIT_BLOCKED,
    BlockedBy.LIMIT: _S.USER_LIMIT_BLOCKED,
    BlockedBy.LIMIT_MAX_APPLICATIONS: _S.MAX_APPLICATIONS_BLOCKED,
}

Cause: TypeAlias = (
    Blocked
    | Application
    | Allocation
    | PredicateCheck
    | PredicateHistory
    | Reservation
    | ApplicationState
    | ResourceManagerState
    | None
)


class Waiting(NamedTuple):
    """A number of allocations of an ask that are in one state."""

    state: PendingState
    allocations: int
    cause: Cause = None


def states_of(
    partition: Partition, rm_state: ResourceManagerState, application: Application, ask: Ask
) -> list[Waiting]:
    """The states of all allocations of the ask that are still to come, nearest to allocation first; each for at least
    one.

    For each allocation the first that applies: it awaits a placeholder, it awaits a predicate result, room is reserved
    for it, else the state of its group.
    """
    found = [Waiting(_S.AWAITING_PLACEHOLDER, 1, placeholder) for placeholder in ask.swaps]
    group = ask.group
    if group is None:
        return found
    checks = _checks(ask)
    reservations = _reservations(ask, ask.pending - len(checks))
    found += [Waiting(_S.AWAITING_PREDICATE, 1, one) for one in checks]
    found += [Waiting(_S.RESERVED, 1, one) for one in reservations]
    rest = ask.pending - len(checks) - len(reservations)
    if rest:
        state, cause = group_state(partition, rm_state, application, group)
        if state is _S.PREDICATE_FAILED and cause is None:
            cause = ask.predicate_history
        found.append(Waiting(state, rest, cause))
    return found


def group_state(
    partition: Partition, rm_state: ResourceManagerState, application: Application, group: AskGroup
) -> tuple[PendingState, Cause]:
    """The state of the allocations pending in the group that are neither reserved nor being checked. The first that
    applies: the RM is not Running, the gang is awaited, the application is inactive, a quota or limit blocks, the RM
    refused all nodes, no node fits; else READY. Members whose slots have no room are in the state of the first of these
    slots."""
    if rm_state is not ResourceManagerState.RUNNING:
        return _S.APPLICATION_INACTIVE, rm_state
    if not admits_group(partition, application, group):
        slots = slots_awaited(application, group)
        if slots is not None:
            state, cause = group_state(partition, rm_state, application, slots)
            if state is not _S.READY:
                return state, application if cause is None else cause
        _, ahead = partition.growth_held.get(group, (application, gang_ahead(partition, application)))
        return _S.AWAITING_GANG, ahead or application
    if not application.propagates_demand:
        return _S.APPLICATION_INACTIVE, application.state
    return class_state(application.queue, group.pending_class)


def slots_awaited(application: Application, group: AskGroup) -> AskGroup | None:
    """The first slots without room, if the group is of an application whose members wait for them; else None."""
    gang = application.gang
    return None if gang is None or group.placeholder else next(iter(gang.slot_groups), None)


def class_state(leaf: Queue, pending_class: PendingClass) -> tuple[PendingState, Cause]:
    """The state of the allocations of the class that the pending index counts in the leaf queue, while their RM is
    Running: a quota or limit blocks, the RM refused all nodes, no node fits; else READY."""
    rule = blocking_rule(leaf, pending_class)
    if rule is not None:
        return OF_RULE[rule.by], rule
    if pending_class.request_class.refused:
        return _S.PREDICATE_FAILED, None
    return (_S.UNSCHEDULABLE if pending_class.unschedulable else _S.READY), None


def blocking_rule(leaf: Queue, pending_class: PendingClass) -> Blocked | None:
    """The rule, nearest to the leaf, that blocks the class at a queue where it is blocked, with the present numbers.

    An unschedulable class is blocked at the root, and so it is not tried against rules: then the rule that would block
    it, because nodes alone would not help.
    """
    for queue in leaf.path_to_root:
        if pending_class in queue.pending_index.blocked_by:
            rule = blocked(queue, pending_class.items, pending_class.quota_key)
            if rule is not None:
                return rule
    return highest_blocked(leaf, pending_class.items, pending_class.quota_key) if pending_class.unschedulable else None


def _checks(ask: Ask) -> list[PredicateCheck]:
    """The open checks that use up a pending allocation of the ask, each one."""
    history = ask.predicate_history
    return [] if history is None else [one for one in history.predicate_checks if one.uses_allocation][: ask.pending]


def _reservations(ask: Ask, most: int) -> list[Reservation]:
    """Reservations of the ask, up to `most`, without such a check."""
    waiting = (
        one for one in ask.reservations if one.predicate_check is None or not one.predicate_check.uses_allocation
    )
    return list(islice(waiting, max(0, most)))


class StateCount:
    """Counts pending allocations of a partition by state, in slices: what its resource manager asked for, so no
    slots."""

    def __init__(self, partition: Partition, rm_state: ResourceManagerState) -> None:
        self._partition = partition
        self._rm_state = rm_state
        self._applications: Iterator[Application] = iter(list(partition.applications.values()))
        self._checked: dict[Application, dict[Ask, None]] = {}
        """Asks with open checks."""
        for check in partition.callbacks.open_predicate_checks.values():
            self._checked.setdefault(check.application, {})[check.ask] = None
        self.partition_key = partition.rm_id, partition.name
        self.by_queue: dict[str, dict[PendingState, int]] = {}
        """By path of the leaf queue, for queues in which something waits."""

    @property
    def counts(self) -> dict[PendingState, int]:
        """Of the whole partition, with all states."""
        counts = dict.fromkeys(PendingState, 0)
        for of_queue in self.by_queue.values():
            for state, number in of_queue.items():
                counts[state] += number
        return counts

    def advance(self, applications_max: int) -> bool:
        """Counts up to `applications_max` further applications; False when none are left.

        Each application is counted as it is when it is reached.
        """
        for application in islice(self._applications, applications_max):
            self._count(application)
            applications_max -= 1
        return not applications_max

    def _count(self, application: Application) -> None:
        if not application.groups and not application.awaiting_placeholder:
            return
        counts = self.by_queue.setdefault(application.queue.path, dict.fromkeys(PendingState, 0))
        counts[_S.AWAITING_PLACEHOLDER] += application.awaiting_placeholder
        near: dict[AskGroup, int] = {}
        for ask in {**{one.ask: None for one in application.reservations}, **self._checked.get(application, {})}:
            if ask.group is not None and not ask.spec.slot:
                checks = len(_checks(ask))
                reserved = len(_reservations(ask, ask.pending - checks))
                counts[_S.AWAITING_PREDICATE] += checks
                counts[_S.RESERVED] += reserved
                near[ask.group] = near.get(ask.group, 0) + checks + reserved
        for group in application.groups.values():
            rest = group.pending - near.get(group, 0)
            if rest and not (group.placeholder and application.declares_gang):
                counts[group_state(self._partition, self._rm_state, application, group)[0]] += rest
