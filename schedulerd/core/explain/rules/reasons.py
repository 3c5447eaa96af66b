"""What many asks wait for, counted by reason: of an application, or of a queue and all below it.

The count walks over ask groups and stops after every few of them. Each application is counted as it is when it is
reached.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator
from itertools import islice

from schedulerd.core.explain.causes import NoRoomCause
from schedulerd.core.explain.rules import quotas
from schedulerd.core.explain.rules.ask import cause_of, explain_ask, explain_without_nodes
from schedulerd.core.explain.rules.room import Room
from schedulerd.core.explain.values import (
    ApplicationExplanation,
    QueueExplanation,
    Reason,
    ResourceUse,
    TaskGroupProgress,
)
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.queue import Queue
from schedulerd.core.partition import Partition
from schedulerd.core.pending.rules.states import STATES, PendingState, Waiting, group_state, pod_reason, states_of
from schedulerd.core.pending.rules.states import Cause as StateCause
from schedulerd.core.quotas.rules import Blocked
from schedulerd.core.step_context import ResourceManager

GROUPS_A_TURN = 16
"""Ask groups, or applications, that are visited without a stop."""
REASONS_MAX = 20
"""Reasons that are named; allocations of further ones are counted."""
NEAR_MAX = 200
"""Asks of an application with reservations or open checks that are counted one by one."""
RESOURCES_MAX = 30
"""Resources of a queue that are listed."""


class _Tally:
    """The allocations and applications of one reason, with the ask that was found first."""

    __slots__ = ("allocations", "application", "applications", "ask", "cause", "last")

    def __init__(self, application: Application, ask: Ask, cause: StateCause | NoRoomCause) -> None:
        self.application, self.ask, self.cause = application, ask, cause
        self.allocations = 0
        self.applications = 0
        self.last: Application | None = None


class Tallies:
    """Counts pending allocations by what they wait for."""

    def __init__(self, rm: ResourceManager, partition: Partition) -> None:
        self._rm = rm
        self._partition = partition
        self._found: dict[tuple[PendingState, Hashable], _Tally] = {}
        self._room = Room(partition)
        self._checked: dict[Application, dict[Ask, None]] = {}
        """Asks with open predicate checks."""
        for check in partition.callbacks.open_predicate_checks.values():
            self._checked.setdefault(check.application, {})[check.ask] = None

    def count(self, application: Application) -> Iterator[None]:
        """Counts all pending allocations of the application, in stops of `GROUPS_A_TURN` groups."""
        near: dict[AskGroup, int] = {}
        for ask in self._near_asks(application):
            for one in states_of(self._partition, self._rm.state, application, ask):
                if isinstance(one.cause, Allocation) or one.state in (
                    PendingState.AWAITING_PREDICATE,
                    PendingState.RESERVED,
                ):
                    self._add(application, ask, one)
                    if ask.group is not None and not isinstance(one.cause, Allocation):
                        near[ask.group] = near.get(ask.group, 0) + one.allocations
        groups = list(application.groups.values())
        for at, group in enumerate(groups):
            if at and at % GROUPS_A_TURN == 0:
                yield
            first = next(iter(group), None)
            rest = group.pending - near.get(group, 0)
            if first is not None and rest > 0:
                state, cause = group_state(self._partition, self._rm.state, application, group)
                if state is PendingState.PREDICATE_FAILED:
                    cause = first.predicate_history
                if state is PendingState.UNSCHEDULABLE and not self._room.is_counted:
                    yield from self._room.count()
                self._add(application, first, Waiting(state, rest, cause))

    def _near_asks(self, application: Application) -> Iterable[Ask]:
        """Asks with reservations, open checks or awaited placeholders, which are counted one by one."""
        asks: dict[Ask, None] = {one.ask: None for one in islice(application.reservations, NEAR_MAX)}
        asks.update(self._checked.get(application, {}))
        if application.awaiting_placeholder:
            swaps = (one.swap for one in application.allocations.values() if one.swap is not None)
            asks.update(dict.fromkeys(islice(swaps, NEAR_MAX)))
        return asks

    def _add(self, application: Application, ask: Ask, waiting: Waiting) -> None:
        cause: StateCause | NoRoomCause = waiting.cause
        if waiting.state is PendingState.UNSCHEDULABLE:
            cause = self._room.cause(ask.request_class)
        key = waiting.state, _identity(cause)
        tally = self._found.get(key)
        if tally is None:
            tally = self._found[key] = _Tally(application, ask, cause)
        tally.allocations += waiting.allocations
        if tally.last is not application:
            tally.last = application
            tally.applications += 1

    def reasons(self) -> tuple[list[Reason], int]:
        """The reasons with most allocations, and the number of the others."""
        ordered = sorted(self._found.items(), key=lambda one: -one[1].allocations)
        found = [self._reason(state, tally) for (state, _), tally in ordered[:REASONS_MAX]]
        return found, len(ordered) - len(found)

    def _reason(self, state: PendingState, tally: _Tally) -> Reason:
        cause = tally.cause
        return Reason(
            state=state.value,
            allocations=tally.allocations,
            applications=tally.applications,
            waits_for=STATES[state].waits_for,
            ends_when=STATES[state].ends_when,
            pod_reason=pod_reason(state, cause),
            cause=cause if isinstance(cause, NoRoomCause) else cause_of(self._partition, tally.application, cause),
            application_id=tally.application.application_id,
            allocation_key=tally.ask.key,
            resources=tally.ask.request_class.resources.nonzero(),
        )


def _identity(cause: StateCause | NoRoomCause) -> Hashable:
    """What is the same for all asks that wait for the same thing."""
    match cause:
        case NoRoomCause():
            return cause.why, cause.resource
        case Blocked():
            return cause.queue.path, cause.by, cause.resource, cause.account, cause.is_group
        case Application():
            return cause.application_id
        case ApplicationState() | ResourceManagerState():
            return cause
        case _:
            return None


def explain_application(
    rm: ResourceManager, partition: Partition, application: Application, now_ns: int, *, surveys: bool = False
) -> Generator[None, None, ApplicationExplanation]:
    """What the application waits for; the result is the value of the generator. If it `surveys`, the nodes are asked
    about its next ask."""
    tallies = Tallies(rm, partition)
    yield from tallies.count(application)
    reasons, left_out = tallies.reasons()
    yield
    first = _next_ask(application)
    at_ns, state, cause = application.state_log[-1] if application.state_log else (0, application.state, "")
    gang = application.gang
    next_ask = None
    if first is not None:
        if surveys:
            next_ask = yield from explain_ask(rm, partition, application, first, now_ns)
        else:
            next_ask = explain_without_nodes(rm, partition, application, first, now_ns)
    return ApplicationExplanation(
        rm_id=rm.rm_id,
        partition=partition.name,
        application_id=application.application_id,
        queue=application.queue.written,
        user=application.spec.user,
        state=state.value,
        state_since_ns=at_ns,
        state_cause=cause,
        submitted_at_ns=application.submitted_at_ns,
        now_ns=now_ns,
        allocations=len(application.allocations),
        pending=sum(group.pending for group in application.groups.values()) + application.awaiting_placeholder,
        task_groups=[
            TaskGroupProgress(
                one.name, one.wanted, one.placed, one.replaced, sum(group.pending for group in one.waiting)
            )
            for one in (gang.task_groups.values() if gang is not None else ())
        ],
        gang_deadline_ns=application.gang_alarm.deadline_ns if application.gang_alarm is not None else None,
        execution_deadline_ns=application.run_alarm.deadline_ns if application.run_alarm is not None else None,
        reasons=reasons,
        reasons_left_out=left_out,
        next_ask=next_ask,
    )


def _next_ask(application: Application) -> Ask | None:
    """The ask that would be placed first, of the groups with a ready ask; any pending one if none is ready."""
    groups = list(islice(application.groups.values(), NEAR_MAX))
    ready = [group for group in groups if group.has_ready]
    if ready:
        return min(ready, key=AskGroup.key).first()
    return next((ask for group in groups for ask in group), None)


def explain_queue(
    rm: ResourceManager, partition: Partition, queue: Queue, now_ns: int
) -> Generator[None, None, QueueExplanation]:
    """What waits in the queue and below; the result is the value of the generator."""
    tallies = Tallies(rm, partition)
    visited = pending = 0
    for one in list(queue.walk()):
        for application in list(one.applications.values()):
            visited += 1
            if visited % GROUPS_A_TURN == 0:
                yield
            if application.groups or application.awaiting_placeholder:
                pending += sum(group.pending for group in application.groups.values())
                pending += application.awaiting_placeholder
                yield from tallies.count(application)
    reasons, left_out = tallies.reasons()
    yield
    stopped = queue.stopped_by()
    names = sorted({*queue.max, *queue.guaranteed, *queue.allocated, *queue.pending})
    return QueueExplanation(
        rm_id=rm.rm_id,
        partition=partition.name,
        queue=queue.written,
        is_leaf=queue.is_leaf,
        draining=queue.draining,
        stopped_by=stopped.written if stopped is not None else "",
        now_ns=now_ns,
        resources=[_use(queue, name) for name in names[:RESOURCES_MAX]],
        running_applications=queue.running,
        max_applications=queue.max_applications,
        pending=pending,
        reasons=reasons,
        reasons_left_out=left_out,
    )


def _use(queue: Queue, name: str) -> ResourceUse:
    uses, left_out = quotas.uses_of_queue(queue, name)
    return ResourceUse(
        resource=name,
        used=queue.allocated[name],
        reserved=queue.quota_reserved[name],
        leaving=queue.leaving[name],
        pending=queue.pending[name],
        guaranteed=queue.guaranteed.get(name),
        max=queue.max.get(name),
        uses=uses,
        uses_left_out=left_out,
    )
