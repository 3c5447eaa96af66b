"""What many asks wait for, counted by reason: of an application, or of a queue and all below it.

What waits in an application is counted by a walk over its ask groups. What waits in a queue is counted by class and
leaf queue, as the pending index does, so the cost does not grow with the asks and applications that wait; only ask
groups that the index does not count are visited. Both stop after every few steps, and each thing is counted as it is
when it is reached. What there is too much of is not looked at, and the result says so.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from itertools import islice

from schedulerd.core.explain.causes import NoRoomCause
from schedulerd.core.explain.rules.ask import cause_of, explain_ask, explain_without_nodes, gang_cause, uses_of_queue
from schedulerd.core.explain.rules.room import Room
from schedulerd.core.explain.values import (
    ApplicationExplanation,
    QueueExplanation,
    Reason,
    ResourceUse,
    TaskGroupProgress,
)
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.pending_index import ClassOrder
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.pending.rules.pending_allocations import (
    Applications,
    counted,
    member_of,
    not_counted,
    with_others,
)
from schedulerd.core.state.pending.rules.states import (
    STATES,
    PendingState,
    Waiting,
    class_state,
    group_state,
    pod_reason,
    states_of,
)
from schedulerd.core.state.pending.rules.states import Cause as StateCause
from schedulerd.core.state.quotas.rules import Blocked
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.core.views.gang_members import members_of

GROUPS_A_TURN = 16
"""Ask groups, or classes in leaf queues, of which the state is found without a stop."""
GROUPS_SEEN_MAX = 5_000
"""Ask groups of one application, or of those in a queue that the pending index does not count, whose state is found."""
CLASSES_SEEN_MAX = 10_000
"""Classes in leaf queues whose state is found for a queue; what waits of further ones is only added up."""
CLASSES_COUNTED_MAX = 100_000
"""Classes in leaf queues that are added up for a queue."""
REASONS_MAX = 20
"""Reasons that are named; allocations of further ones are counted."""
NEAR_MAX = 200
"""Reservations of an application whose asks are counted one by one; groups among which its next ask is looked for."""
RESERVATIONS_SEEN_MAX = 2_000
"""Reservations of a partition whose asks are counted one by one. Open checks, which are too, have a limit of their own
(`callbacks.OPEN_MAX`)."""
RESOURCES_MAX = 30
"""Resources of a queue that are listed."""


class _Tally:
    """The allocations and applications of one reason, with the ask that was found first."""

    __slots__ = ("allocations", "application", "applications", "ask", "cause", "class_orders", "last")

    def __init__(self, application: Application, ask: Ask, cause: StateCause | NoRoomCause) -> None:
        self.application, self.ask, self.cause = application, ask, cause
        self.allocations = 0
        self.applications = 0
        """How many were counted one by one; those of the class orders come on top."""
        self.class_orders: dict[ClassOrder, None] = {}
        """Class orders of leaf queues with applications whose groups the pending index counts."""
        self.last: Application | None = None

    @property
    def applications_in_all(self) -> int:
        return self.applications + sum(one.members for one in self.class_orders)


class Tallies:
    """Counts pending allocations by what they wait for."""

    def __init__(self, rm: ResourceManager, partition: Partition) -> None:
        self._rm = rm
        self._partition = partition
        self._found: dict[tuple[PendingState, Hashable], _Tally] = {}
        self._room = Room(partition)
        self._groups_left = GROUPS_SEEN_MAX
        self._near: dict[AskGroup, int] = {}
        """Allocations that are reserved for or being checked, by group."""
        self._near_counted: dict[tuple[Queue, PendingClass], int] = {}
        """Those of groups that the pending index counts, by leaf queue and class."""
        self.pending = 0
        """Pending allocations that were counted."""
        self.unexplained = 0
        """Those of them of which it was not found out what they wait for."""
        self.at_least = False
        """Whether there may be more than `pending`, because there was more than is looked at."""

    def count(self, application: Application) -> Iterator[None]:
        """Counts the pending allocations of the application, in stops of `GROUPS_A_TURN` groups."""
        checks = self._partition.callbacks.open_predicate_checks.values()
        asks = {one.ask: application for one in islice(application.reservations, NEAR_MAX)}
        asks.update((one.ask, application) for one in checks if one.application is application)
        yield from self._count_near(asks)
        self._count_swaps(application)
        self.at_least |= len(application.groups) > GROUPS_SEEN_MAX
        yield from self._count_groups(application, list(islice(application.groups.values(), GROUPS_SEEN_MAX)))

    def count_queue(self, queue: Queue) -> Iterator[None]:
        """Counts the pending allocations of the queue and all below it."""
        asks: dict[Ask, Application] = {}
        for reservation in islice(self._partition.reservations, RESERVATIONS_SEEN_MAX):
            asks[reservation.ask] = reservation.application
        yield from self._leave_out_slots(queue)
        for check in self._partition.callbacks.open_predicate_checks.values():
            asks[check.ask] = check.application
        asks = {ask: one for ask, one in asks.items() if queue in one.queue.path_to_root}
        yield from self._count_near(asks)
        yield from self._count_classes(queue)
        applications = Applications(queue)
        for some in applications:
            yield
            for application in with_others(some):
                self._count_swaps(application)
                yield from self._count_groups(application, list(not_counted(application)))
        self.at_least |= applications.are_more

    def _count_near(self, asks: Mapping[Ask, Application]) -> Iterator[None]:
        """Counts what is reserved for these asks, and what is checked of them."""
        for number, (ask, application) in enumerate(asks.items(), 1):
            if number % GROUPS_A_TURN == 0:
                yield
            group = ask.group if not ask.spec.slot else None
            for one in states_of(self._partition, self._rm.state, application, ask) if group is not None else ():
                if one.state in (PendingState.AWAITING_PREDICATE, PendingState.RESERVED):
                    assert group is not None
                    self._add(application, ask, one)
                    self._near[group] = self._near.get(group, 0) + one.allocations
                    if group.counted:
                        place = application.queue, group.pending_class
                        self._near_counted[place] = self._near_counted.get(place, 0) + one.allocations

    def _leave_out_slots(self, queue: Queue) -> Iterator[None]:
        """The pending index counts slots, which nobody asked for."""
        for number, application in enumerate(list(self._partition.declared_gangs), 1):
            if number % GROUPS_A_TURN == 0:
                yield
            gang = application.gang
            if gang is not None and queue in application.queue.path_to_root:
                for group in [one for one in gang.slot_groups if one.counted]:
                    place = application.queue, group.pending_class
                    self._near_counted[place] = self._near_counted.get(place, 0) + group.pending

    def _count_swaps(self, application: Application) -> None:
        """Counts the allocations that await a placeholder."""
        if application.awaiting_placeholder:
            placeholder = next(one for one in application.allocations.values() if one.swap is not None)
            assert placeholder.swap is not None
            one = Waiting(PendingState.AWAITING_PLACEHOLDER, application.awaiting_placeholder, placeholder)
            self._add(application, placeholder.swap, one)

    def _count_classes(self, queue: Queue) -> Iterator[None]:
        """Counts what the pending index counts, but for what is reserved or checked."""
        seen = 0
        for leaf in queue.subtree():
            for pending_class, counted_there in list(counted(leaf)):
                seen += 1
                if seen % GROUPS_A_TURN == 0:
                    yield
                number = counted_there - self._near_counted.get((leaf, pending_class), 0)
                if number <= 0:
                    continue
                if seen <= CLASSES_SEEN_MAX:
                    yield from self._count_class(leaf, pending_class, number)
                else:
                    self.unexplained += number
                    self.pending += number
            if seen > CLASSES_COUNTED_MAX:
                self.at_least = True
                return

    def _count_class(self, leaf: Queue, pending_class: PendingClass, number: int) -> Iterator[None]:
        state: PendingState = PendingState.APPLICATION_INACTIVE
        cause: StateCause | NoRoomCause = self._rm.state
        if self._rm.state is ResourceManagerState.RUNNING:
            state, cause = class_state(leaf, pending_class)
        if state is PendingState.UNSCHEDULABLE:
            yield from self._room.count()
            cause = self._room.cause(pending_class.request_class)
        tally = self._found.get((state, _identity(cause)))
        if tally is None:
            member = member_of(leaf, pending_class)
            ask = next(iter(member[1]), None) if member is not None else None
            if member is None or ask is None:
                return  # they have gone meanwhile
            tally = self._tally(state, cause, member[0], ask)
        tally.allocations += number
        self.pending += number
        tally.class_orders.update(dict.fromkeys(leaf.pending_index.class_orders(pending_class)))

    def _count_groups(self, application: Application, groups: Iterable[AskGroup]) -> Iterator[None]:
        for group in groups:
            first = next(iter(group), None)
            rest = group.pending - self._near.get(group, 0)
            if first is None or rest <= 0 or first.spec.slot:
                continue
            self._groups_left -= 1
            if self._groups_left < 0:
                self.unexplained += rest
                self.pending += rest
                continue
            if self._groups_left % GROUPS_A_TURN == 0:
                yield
            state, cause = group_state(self._partition, self._rm.state, application, group)
            if state is PendingState.UNSCHEDULABLE and cause is None:
                yield from self._room.count()
            self._add(application, first, Waiting(state, rest, cause))

    def _add(self, application: Application, ask: Ask, waiting: Waiting) -> None:
        """Adds allocations of one application to those of their reason."""
        cause: StateCause | NoRoomCause = waiting.cause
        if waiting.state is PendingState.UNSCHEDULABLE and cause is None:
            cause = self._room.cause(ask.request_class)
        tally = self._tally(waiting.state, cause, application, ask)
        tally.allocations += waiting.allocations
        self.pending += waiting.allocations
        if tally.last is not application:
            tally.last = application
            tally.applications += 1

    def _tally(
        self, state: PendingState, cause: StateCause | NoRoomCause, application: Application, ask: Ask
    ) -> _Tally:
        """The count of a reason, with this ask as its example if it is new."""
        key = state, _identity(cause)
        tally = self._found.get(key)
        if tally is None:
            is_refused = state is PendingState.PREDICATE_FAILED and cause is None
            example = ask.predicate_history if is_refused else cause
            tally = self._found[key] = _Tally(application, ask, example)
        return tally

    def reasons(self) -> Generator[None, None, tuple[list[Reason], int]]:
        """The reasons with most allocations, and the number of the others."""
        ordered = sorted(self._found.items(), key=lambda one: -one[1].allocations)
        found = []
        for (state, _), tally in ordered[:REASONS_MAX]:
            found.append(self._reason(state, tally))
            yield
        return found, len(ordered) - len(found)

    def by_state(self) -> dict[PendingState, tuple[int, int]]:
        """Allocations and applications in each state; an application with several reasons counts for each."""
        found: dict[PendingState, tuple[int, int]] = {}
        for (state, _), tally in self._found.items():
            allocations, applications = found.get(state, (0, 0))
            found[state] = allocations + tally.allocations, applications + tally.applications_in_all
        return found

    def _reason(self, state: PendingState, tally: _Tally) -> Reason:
        cause = tally.cause
        return Reason(
            state=state.value,
            allocations=tally.allocations,
            applications=tally.applications_in_all,
            waits_for=STATES[state].waits_for,
            ends_when=STATES[state].ends_when,
            pod_reason=pod_reason(state, cause),
            cause=cause if isinstance(cause, NoRoomCause) else cause_of(self._partition, tally.application, cause),
            application_id=tally.application.application_id,
            allocation_key=tally.ask.key,
            pod=pod_of(tally.ask.spec.tags),
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
    reasons, left_out = yield from tallies.reasons()
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
        pending=tallies.pending,
        at_least=tallies.at_least,
        unexplained=tallies.unexplained,
        task_groups=[
            TaskGroupProgress(
                one.name, one.wanted, one.placed, one.replaced, sum(group.pending for group in one.waiting)
            )
            for one in (gang.task_groups.values() if gang is not None and not gang.declared else ())
        ],
        gang_deadline_ns=application.gang_alarm.deadline_ns if application.gang_alarm is not None else None,
        execution_deadline_ns=application.run_alarm.deadline_ns if application.run_alarm is not None else None,
        reasons=reasons,
        reasons_left_out=left_out,
        next_ask=next_ask,
        gang=gang_cause(partition, application) if application.declares_gang else None,
        members=members_of(application),
    )


def _next_ask(application: Application) -> Ask | None:
    """The ask that would be placed first, of the groups with a ready ask; any pending one if none is ready. Never a
    slot."""
    is_declared = application.declares_gang
    asked = (one for one in application.groups.values() if not (is_declared and one.placeholder))
    groups = list(islice(asked, NEAR_MAX))
    ready = [group for group in groups if group.has_ready]
    if ready:
        return min(ready, key=AskGroup.key).first()
    return next((ask for group in groups for ask in group), None)


def explain_queue(
    rm: ResourceManager, partition: Partition, queue: Queue, now_ns: int
) -> Generator[None, None, QueueExplanation]:
    """What waits in the queue and below; the result is the value of the generator."""
    tallies = Tallies(rm, partition)
    yield from tallies.count_queue(queue)
    reasons, left_out = yield from tallies.reasons()
    resources = []
    for name in sorted({*queue.max, *queue.guaranteed, *queue.allocated, *queue.pending})[:RESOURCES_MAX]:
        yield
        resources.append(_use(queue, name))
    stopped = queue.stopped_by()
    return QueueExplanation(
        rm_id=rm.rm_id,
        partition=partition.name,
        queue=queue.written,
        is_leaf=queue.is_leaf,
        draining=queue.draining,
        stopped_by=stopped.written if stopped is not None else "",
        now_ns=now_ns,
        resources=resources,
        running_applications=queue.running,
        max_applications=queue.max_applications,
        pending=tallies.pending,
        at_least=tallies.at_least,
        unexplained=tallies.unexplained,
        reasons=reasons,
        reasons_left_out=left_out,
    )


def _use(queue: Queue, name: str) -> ResourceUse:
    uses, left_out = uses_of_queue(queue, name)
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
