"""The order in which applications of a state-aware leaf start: one at a time, the oldest first.

An application that is blocked for long lets the next one start (`start_times`); it keeps its place before it.
"""

from __future__ import annotations

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.model.application import Age, Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import on_state_changed


def admit_next(partition: Partition, queue: Queue) -> None:
    """In a state-aware leaf, lets only the next application start: the oldest one that has something to start. If that
    one has been blocked for long, also the one after it.

    Checks every application of the leaf at each call; this order is for small queues.
    """
    if queue.properties.application_order is not ApplicationOrder.STATE_AWARE:
        return
    applications = queue.applications.values()
    for one in applications:
        if one.lets_next_start and not (_waits_to_start(one) and holds_nothing(one)):
            one.lets_next_start = False
    starting = next_to_start(queue)
    candidate = _last_that_holds_nothing(starting)
    first = _first_to_start(queue, starting)
    for one in list(applications):
        if one is not candidate and not one.lets_next_start:
            one.blocked_since_ns = None
        waits = one.state is ApplicationState.ACCEPTED and one not in starting
        one.starts_after = first if waits else None
        if waits != one.awaits_start:
            one.awaits_start = waits
            on_state_changed(partition, one)
    _keep_in_order(queue, starting)
    if candidate is not None and not _has_right_alarm(candidate):
        partition.start_checks[candidate] = None
        partition.start_check_due = True


def _keep_in_order(queue: Queue, starting: list[Application]) -> None:
    """Applications that may start are tried oldest first: the higher priority of a later one does not count."""
    for one in queue.applications.values():
        if one.priority_max is not None and one not in starting:
            one.priority_max = None
            one.rekey()
    most: int | None = None
    for one in starting:
        if one.priority_max != most:
            one.priority_max = most
            one.rekey()
        if one.priority is not None:
            most = one.priority if most is None else min(one.priority, most)


def _first_to_start(queue: Queue, starting: list[Application]) -> Application | None:
    """For which application the others of the leaf wait."""
    if starting:
        return starting[-1]
    applications = queue.applications.values()
    return min([one for one in applications if one.state is ApplicationState.STARTING], key=_age, default=None)


def _age(application: Application) -> Age:
    return application.age


def _has_right_alarm(candidate: Application) -> bool:
    deadline_ns = start_deadline_ns(candidate)
    alarm = candidate.start_alarm
    return deadline_ns is not None and alarm is not None and alarm.deadline_ns == deadline_ns


def start_deadline_ns(application: Application) -> int | None:
    """When the application lets the next one of its state-aware leaf start, if it is blocked until then; None if it is
    not blocked."""
    since_ns = application.blocked_since_ns
    return None if since_ns is None else since_ns + application.queue.properties.stateaware_timeout_ns


def next_start_ns(awaited: Application) -> int | None:
    """When applications that wait for this one to start may start at the latest, at least the first of them; None if
    that is not known."""
    if awaited.state is ApplicationState.STARTING:
        return None if awaited.alarm is None else awaited.alarm.deadline_ns
    return start_deadline_ns(awaited)


def start_candidate(queue: Queue) -> Application | None:
    """In a state-aware leaf: the application whose start the others wait for, if it holds nothing, and so lets the next
    one start when it has been blocked for long."""
    if queue.properties.application_order is not ApplicationOrder.STATE_AWARE:
        return None
    return _last_that_holds_nothing(next_to_start(queue))


def _last_that_holds_nothing(starting: list[Application]) -> Application | None:
    last = starting[-1] if starting else None
    return last if last is not None and not last.lets_next_start and holds_nothing(last) else None


def next_to_start(queue: Queue) -> list[Application]:
    """The applications that may start in a state-aware leaf: of the Accepted ones with pending asks or a swap under
    way, the oldest one; after each that lets the next one start, that one too. None while an application is
    Starting."""
    applications = queue.applications.values()
    if any(one.state is ApplicationState.STARTING for one in applications):
        return []
    waiting = sorted([one for one in applications if _waits_to_start(one)], key=_age)
    count = next((at for at, one in enumerate(waiting, 1) if not (one.lets_next_start and holds_nothing(one))), None)
    return waiting[:count]


def _waits_to_start(application: Application) -> bool:
    has_asks = bool(application.groups or application.awaiting_placeholder)
    return has_asks and application.state is ApplicationState.ACCEPTED


def holds_nothing(application: Application) -> bool:
    """Whether it is Accepted and has no allocation, no placeholder either."""
    return (
        application.state is ApplicationState.ACCEPTED
        and not application.allocations
        and not application.awaiting_placeholder
    )


def is_blocked(application: Application) -> bool:
    """Whether no ask of the application could be allocated now: each is blocked in a queue or without a node, or waits
    for asks of its gang that are."""
    places = [application.pending_index, *(one.pending_index for one in application.queue.path_to_root)]
    return all(
        group.has_ready and (not group.needs or any(group.pending_class in one.blocked_by for one in places))
        for group in application.groups.values()
    )
