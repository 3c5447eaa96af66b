"""What must hold of gangs: placeholders and swaps counted anew, and the alarms that end them (SEMANTICS G)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.counted import differences
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import gang_time
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application, above_min
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition


def gangs(partition: Partition) -> Iterator[str]:
    """What a gang counts is so, it has the alarms that its state needs, and the partition knows what it waits for."""
    for app in partition.applications.values():
        name = f"application {app.application_id}"
        yield from _swaps(app, name)
        if app.gang is not None:
            yield from _counts(app, app.gang, name)
            yield from _times(app, app.gang, name)
            yield from _in_partition(partition, app, app.gang, name)
            if app.gang.state is not None:
                yield from _declared(app, app.gang, name)
        elif app.placeholders or any(ask.placeholder and ask.pending for ask in app.asks.values()):
            yield f"{name} has placeholders and no gang"
    for one in (*partition.applications.values(), *partition.terminated.values()):
        if isinstance(one, RejectedApplication) or one.gang_alarm is None or one.placeholders:
            continue
        if not gang_time.goes_on_without_room(one):
            yield f"application {one.application_id} has a placeholder timeout, but no placeholder"
    declared = {app for app in partition.applications.values() if app.declares_gang}
    if set(partition.declared_gangs) != declared:
        yield f"the partition knows {len(partition.declared_gangs)} declared gangs, there are {len(declared)}"
    for group, (app, _) in partition.growth_held.items():
        if app.groups.get((group.request_class, group.task_group, group.placeholder)) is not group or group.needs:
            yield f"application {app.application_id} has a group that is held back and not there, or tried all the same"
    named = [*partition.open_gangs, *([partition.priority_gang] if partition.priority_gang is not None else [])]
    for app in named:
        if partition.applications.get(app.application_id) is not app:
            yield f"application {app.application_id} is not in the partition and counts as an open gang"


def _swaps(app: Application, name: str) -> Iterator[str]:
    """Every ask that awaits a placeholder has one that is being replaced for it."""
    awaiting: Counter[Ask] = Counter()
    for uuid, allocation in app.allocations.items():
        if allocation.swap is not None:
            awaiting[allocation.swap] += 1
            if not allocation.placeholder or allocation.releasing is not TerminationType.PLACEHOLDER_REPLACED:
                yield f"{name} has an ask awaiting allocation {uuid}, which is not a placeholder being replaced"
    for ask in {**dict.fromkeys(app.asks.values()), **awaiting}:
        if ask.awaiting_placeholder != awaiting[ask] or app.asks.get(ask.key) is not ask:
            counted, there = ask.awaiting_placeholder, awaiting[ask]
            yield f"{name} ask {ask.key} counts {counted} awaiting a placeholder, there are {there}"
    if app.awaiting_placeholder != awaiting.total():
        yield f"{name} counts {app.awaiting_placeholder} awaiting a placeholder, there are {awaiting.total()}"


def _declared(app: Application, gang: Gang, name: str) -> Iterator[str]:
    """What each state of a gang that declares its task groups says."""
    state = gang.state
    assert state is not None
    members = Counter(
        one.spec.task_group
        for one in app.allocations.values()
        if not one.placeholder and one.spec.task_group in gang.declared
    )
    for group in gang.task_groups.values():
        if group.members != members[group.name]:
            yield f"{name} counts {group.members} members of {group.name}, there are {members[group.name]}"
    if gang.above_min is not None and gang.above_min != above_min(app, gang):
        yield f"{name} counts {len(gang.above_min)} members above their min, there are {len(above_min(app, gang))}"
    slots = [one for one in app.asks.values() if one.spec.slot]
    waiting = sum(one.pending for one in slots)
    if set(gang.slot_groups) != {group for group in app.groups.values() if group.placeholder}:
        yield f"{name} does not know the groups of its slots that have no room"
    if not STATES[state](app, gang, waiting):
        yield f"{name} is {state} with {waiting} slots without room and {members.total()} members"
    if state is GangState.GATHERING:
        yield from _slots(gang, slots, name)
    if any(not one.spec.slot for one in app.asks.values() if one.placeholder):
        yield f"{name} declares its task groups, and has placeholders of its resource manager"


def _slots(gang: Gang, slots: list[Ask], name: str) -> Iterator[str]:
    """A gang that gathers has as many slots as it needs members beside those that are there."""
    asked = Counter[str]()
    for one in slots:
        asked[one.spec.task_group] += one.pending + len(one.allocations)
    for group in gang.declared.values():
        needed = max(0, group.min - gang.task_groups[group.name].members)
        if asked[group.name] != needed:
            yield f"{name} has {asked[group.name]} slots of task group {group.name} and needs {needed}"


STATES: Mapping[GangState, Callable[[Application, Gang, int], bool]] = {
    GangState.FORMING: lambda app, gang, waiting: not waiting and not app.placeholders,
    GangState.GATHERING: lambda app, gang, waiting: waiting > 0 and not gang.has_started,
    GangState.COMPLETE: lambda app, gang, waiting: not waiting and not gang_time.is_short(app, gang),
    GangState.SHORT: lambda app, gang, waiting: not waiting and gang_time.is_short(app, gang),
    GangState.GIVEN_UP: lambda app, gang, waiting: not waiting and not app.placeholders,
}


def _counts(app: Application, gang: Gang, name: str) -> Iterator[str]:
    asks = [ask for ask in app.asks.values() if ask.placeholder]
    pending = sum(ask.pending for ask in asks)
    if gang.pending != pending:
        yield f"{name} counts {gang.pending} pending placeholders, there are {pending}"
    asked, held = Resources(), Resources()
    awaited: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    for ask in asks:
        asked.add(ask.request_class.items, ask.pending)
    for allocation in app.allocations.values():
        task_group = allocation.spec.task_group
        held.add(allocation.request_class.items if task_group else ())
        awaited[task_group] += allocation.swap is not None
        idle[task_group] += allocation.placeholder and allocation.releasing is None
    yield from differences(f"the resources of pending placeholders of {name}", gang.asked, asked)
    yield from differences(f"the resources held by the gang of {name}", gang.held, held)
    for one in gang.task_groups.values():
        if one.awaiting_placeholder != awaited[one.name]:
            yield (
                f"{name} task group {one.name} counts {one.awaiting_placeholder} awaiting a placeholder, "
                f"there are {awaited[one.name]}"
            )
        if one.idle != idle[one.name]:
            yield f"{name} task group {one.name} counts {one.idle} idle placeholders, there are {idle[one.name]}"
    if any(idle[key] for key in idle.keys() - gang.task_groups.keys()):
        yield f"{name} has placeholders of task groups that its gang does not have"
    for resource, amount in gang.promised.items():
        if amount > max(0, app.gang_total[resource] - app.placeholder_allocated[resource]):
            yield f"{name} is promised {resource} {amount}, which is more than its missing placeholders need"


def _times(app: Application, gang: Gang, name: str) -> Iterator[str]:
    """A gang that waits or holds room in vain ends by an alarm, and a complete one has none."""
    is_complete = gang_time.is_complete(app)
    if gang.has_idle and app.gang_alarm is None and gang_time.needs_time(app):
        yield f"{name} has idle placeholders and no placeholder timeout"
    if app.gang_alarm is not None and is_complete:
        yield f"{name} has a complete gang and a placeholder timeout"
    is_limited = app.queue.properties.gang_placeholder_idle_timeout_ns > 0
    may_idle = gang.has_idle and app.state in SCHEDULABLE_STATES and is_complete
    if (gang.times.idle_alarm is not None) != (may_idle and is_limited) or (
        gang.times.idle_since_ns is not None
    ) != may_idle:
        yield f"{name} has {'idle' if may_idle else 'no idle'} placeholders of a complete gang, and its alarm differs"
    is_short = gang.state is GangState.SHORT and app.state in SCHEDULABLE_STATES
    if (gang.times.short_since_ns is not None) != is_short or (gang.times.below_min_alarm is not None and not is_short):
        yield f"{name} has a gang that is {gang.state} and {'not ' if is_short else ''}counted as short"
    if gang.times.deadlock_alarm is not None and app.gang_alarm is None:
        yield f"{name} has the alarm of a gang deadlock, but no placeholder timeout"
    if gang.promised and app.gang_alarm is None:
        yield f"{name} is promised {gang.promised} without a placeholder timeout"


def _in_partition(partition: Partition, app: Application, gang: Gang, name: str) -> Iterator[str]:
    """The partition knows which gangs are open, which has priority, and where a swap may be possible."""
    if (gang.pending > 0) != (app in partition.open_gangs):
        is_open = app in partition.open_gangs
        yield f"{name} has {gang.pending} pending placeholders and is {'' if is_open else 'not '}an open gang"
    if partition.priority_gang is app and not (gang.pending and app.gang_alarm):
        yield f"{name} is the priority gang without pending placeholders or without a placeholder timeout"
    for task_group in gang.task_groups.values():
        for group in task_group.waiting:
            if group.denied != (partition.denied.get(group) is app):
                yield f"{name} has an ask group that no node took, and the partition does not retry it"
    if gang.next_swap() is not None and app.propagates_demand and app not in partition.swaps:
        yield f"{name} has a possible swap that the next cycle does not try"


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    for app in (*partition.applications.values(), *partition.terminated.values()):
        if isinstance(app, RejectedApplication):
            continue
        yield app.gang_alarm
        if app.gang is not None:
            yield from app.gang.times.alarms()
