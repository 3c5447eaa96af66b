"""What must hold of applications, their asks and their allocations, and of the alarms of their states."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.counted import differences
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions.application_states import TIMED_STATES
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition


def applications(partition: Partition) -> Iterator[str]:
    """The ledgers of an application are the sums of its asks and allocations, which its queue and nodes know."""
    for app in partition.applications.values():
        name = f"application {app.application_id}"
        real, placeholder = Resources(), Resources()
        for uuid, allocation in app.allocations.items():
            (placeholder if allocation.placeholder else real).add(allocation.request_class.items)
            if allocation.node.allocations.get(uuid) is not allocation:
                yield f"{name} has allocation {uuid} that its node does not have"
            if allocation.ask.allocations.get(uuid) is not allocation:
                yield f"{name} has allocation {uuid} that its ask does not have"
        yield from differences(f"allocated of {name}", app.allocated, real)
        yield from differences(f"placeholders of {name}", app.placeholder_allocated, placeholder)
        yield from _asks(app, name)
        if app.placeholders != sum(one.placeholder for one in app.allocations.values()):
            yield f"{name} counts {app.placeholders} placeholders"
        if app.is_terminal:
            yield f"{name} is {app.state} and still has its queue"
        if app.state is ApplicationState.COMPLETING and not app.is_idle:
            yield f"{name} is Completing with asks or real allocations"
        if app.queue.applications.get(app.application_id) is not app:
            yield f"{name} is not in its queue"


def _asks(app: Application, name: str) -> Iterator[str]:
    pending = Resources()
    for ask in app.asks.values():
        pending.add(ask.request_class.items, ask.pending)
        if ask.pending < 0:
            yield f"{name} ask {ask.key} has {ask.pending} pending"
        to_come, most = ask.pending + ask.awaiting_placeholder, ask.spec.max_allocations
        if to_come and ask.placed + to_come > most:
            yield f"{name} ask {ask.key} has {ask.placed} placed and {to_come} to come, of {most}"
        if not ask.pending and not ask.allocations and not ask.awaiting_placeholder:
            yield f"{name} still has ask {ask.key}, which has nothing pending and no allocation"
        in_group = ask.group_key in app.groups and ask in app.groups[ask.group_key]
        if (ask.pending > 0) != in_group:
            yield f"{name} ask {ask.key} has {ask.pending} pending and is {'' if in_group else 'not '}in its ask group"
    yield from differences(f"pending of {name}", app.pending, pending)


def timeouts(partition: Partition) -> Iterator[str]:
    """A state or a run that ends after a time has its alarm (SEMANTICS E2, E3, G6)."""
    for app in (*partition.applications.values(), *partition.terminated.values()):
        if isinstance(app, RejectedApplication):
            if app.alarm is None:
                yield f"rejected application {app.application_id} has no alarm"
            continue
        yield from _execution_timeouts(app)
        timed = app.state in TIMED_STATES
        has_grace = app.state is ApplicationState.ACCEPTED
        waits_for_rm = app.state is ApplicationState.COMPLETING and bool(app.allocations)
        if (app.alarm is not None) != timed and not waits_for_rm and not has_grace:
            yield f"application {app.application_id} in state {app.state} has {'no' if timed else 'an'} alarm"


def _execution_timeouts(app: Application) -> Iterator[str]:
    runs = app.state in (ApplicationState.STARTING, ApplicationState.RUNNING)
    if runs and app.spec.execution_timeout_ms > 0 and not app.is_gang and app.run_alarm is None:
        yield f"application {app.application_id} runs without the alarm of its execution timeout"
    for allocation in app.allocations.values():
        if allocation.spec.execution_timeout_ms > 0 and allocation.alarm is None and allocation.releasing is None:
            yield f"allocation {allocation.uuid} runs without the alarm of its execution timeout"


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    for app in (*partition.applications.values(), *partition.terminated.values()):
        yield app.alarm
        if not isinstance(app, RejectedApplication):
            yield app.run_alarm
            yield app.start_alarm
            yield from [one.alarm for one in app.allocations.values()]
