"""Tells RMs that ask for it the scheduling states of their asks (SI `UpdateContainerSchedulingState`).

SCHEDULED and RESERVED are told with the fact that an ask was allocated or got a reservation. Why other asks wait is
computed some time after something happened: first by pending class and leaf queue, and then ask by ask where that
changed, in slices. An ask is told FAILED or SKIPPED at the earliest `AGAIN_NS` after another waiting state.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from schedulerd.core.language.commands import ConnectCallbacks
from schedulerd.core.language.facts.fact import Allocated, AskWithdrawn
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS
from schedulerd.core.language.task_groups import SLOT_KEYS
from schedulerd.core.scheduling_states.outlooks import PLACES_MAX, group_outlook, groups_aside, outlooks
from schedulerd.core.scheduling_states.reasons import reserved_identity, why_pending
from schedulerd.core.state.alarm_events import SchedulingStatesDue
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.scheduling_state_tracker import (
    AskName,
    Cause,
    GroupOutlook,
    GroupScan,
    Measured,
    Outlook,
    Place,
    Scan,
    SchedulingStateTracker,
    Told,
)
from schedulerd.core.state.model.waiting_line import WaitingLine
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import group_state
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import ResourceManager, StepContext
from schedulerd.core.views.explanation import Explanation
from schedulerd.core.views.gang_progress import GangProgress, gang_progress
from schedulerd.core.views.state_query import StateQuery
from schedulerd.sentences import preemption, turns

ROUND_NS = SECOND_NS
"""Delay from an event until the next round."""
AGAIN_NS = 10 * SECOND_NS
"""Minimum time between two scans of one place, and between two waiting states told about one ask."""
SLICE_NS = MILLISECOND_NS
"""Pause between two slices, for other commands."""
VISITS_MAX = 1_000
"""Maximum number of asks and applications visited in a slice."""
WAITING = (SchedulingState.SKIPPED, SchedulingState.FAILED)
NODES_MAX = 100
"""Maximum number of nodes checked for the reason why they do not take a class."""


def connect(context: StepContext, rm: ResourceManager, command: ConnectCallbacks) -> None:
    """A new callback stream, on which nothing was told yet: starts a tracker if the RM asks for scheduling states."""
    end(context, rm)
    if command.scheduling_states or command.pending_reasons:
        rm.scheduling_state_tracker = SchedulingStateTracker(
            tells_states=command.scheduling_states,
            tells_reasons=command.pending_reasons,
            wanted_states=command.wanted_states,
        )
        _schedule_round(context, rm, rm.scheduling_state_tracker, ROUND_NS)


def end(context: StepContext, rm: ResourceManager) -> None:
    """Stops the tracker, if there is one."""
    if rm.scheduling_state_tracker is not None:
        context.cluster.alarms.cancel(rm.scheduling_state_tracker.alarm)
        context.cluster.dismantling.drop(rm.scheduling_state_tracker.dismantle())
        rm.scheduling_state_tracker = None


def on_facts(context: StepContext, rm: ResourceManager, states: SchedulingStateTracker) -> None:
    """Processes the facts of this step."""
    is_news = False
    for fact in list(context.facts):
        match fact:
            case SchedulingStateChanged() | PendingReasonChanged():
                continue
            case Allocated(rm_id=rm.rm_id, recovered=False):
                _tell_proven(context, rm, states, fact, SchedulingState.SCHEDULED, f"placed on node {fact.node_id}")
            case Reserved(rm_id=rm.rm_id):
                reason = preemption.kept(fact.node_id)
                _tell_proven(context, rm, states, fact, SchedulingState.RESERVED, reason)
            case ReservationEnded(rm_id=rm.rm_id) | AskWithdrawn(rm_id=rm.rm_id):
                _tell_proven(context, rm, states, fact)
        is_news = is_news or getattr(fact, "rm_id", rm.rm_id) == rm.rm_id
    if is_news and states.scans:
        states.needs_another_round = True
    elif is_news:
        _schedule_round(context, rm, states, ROUND_NS)


def on_time(context: StepContext, rm: ResourceManager) -> None:
    """The alarm of the tracker: continues the scans, or starts a round."""
    states = rm.scheduling_state_tracker
    assert states is not None
    states.alarm = None
    again_ns = None
    if not states.scans and rm.state is ResourceManagerState.RUNNING:
        again_ns = _find_changes(context, rm, states)
    _run_scans(context, rm, states)
    if states.scans:
        _schedule_round(context, rm, states, SLICE_NS)
    elif states.needs_another_round:
        states.needs_another_round = False
        _schedule_round(context, rm, states, ROUND_NS)
    elif again_ns is not None:
        _schedule_round(context, rm, states, max(again_ns - context.now_ns, ROUND_NS))


def _schedule_round(context: StepContext, rm: ResourceManager, states: SchedulingStateTracker, delay_ns: int) -> None:
    """Sets the alarm to `delay_ns` from now, if it would ring later than that."""
    deadline_ns, alarms = context.now_ns + delay_ns, context.cluster.alarms
    if states.alarm is None or deadline_ns < states.alarm.deadline_ns:
        alarms.cancel(states.alarm)
        states.alarm = alarms.set(deadline_ns, SchedulingStatesDue(rm))


def _tell_proven(
    context: StepContext,
    rm: ResourceManager,
    states: SchedulingStateTracker,
    fact: Allocated | Reserved | ReservationEnded | AskWithdrawn,
    state: SchedulingState | None = None,
    reason: str = "",
) -> None:
    """Tells the state that the fact proves, if it is new. Forgets an ask that is gone, else has its place checked
    again."""
    name = (fact.partition, fact.application_id, fact.allocation_key)
    known = states.told.get(name)
    partition = rm.partitions.get(fact.partition)
    application = partition.applications.get(fact.application_id) if partition is not None else None
    ask = application.asks.get(fact.allocation_key) if application is not None else None
    cause = ""
    if states.tells_reasons and state is SchedulingState.RESERVED and ask is not None:
        cause = reserved_identity(ask)
    if state is not None and (known is None or known.is_news(state, cause)):
        why = None
        if states.tells_reasons and partition is not None and application is not None and ask is not None:
            why = why_pending(rm, partition, application, ask, state) if state is SchedulingState.RESERVED else None
        _tell(context, rm, states, name, state, cause, reason, why)
    if ask is None or ask.group is None:
        states.told.pop(name, None)
    elif application is not None:
        states.invalidate((application.queue, ask.group.pending_class))


def _tell(
    context: StepContext,
    rm: ResourceManager,
    states: SchedulingStateTracker,
    name: AskName,
    state: SchedulingState | None,
    cause: Cause,
    reason: str,
    why: PendingReasonChanged | None,
) -> None:
    """`reason` is for people, `why` the same as data for an RM that wants it."""
    states.told[name] = Told(state, cause, context.now_ns)
    if _is_slot(rm, name):
        return
    if state is not None and states.wants(state):
        context.emit(SchedulingStateChanged(rm.rm_id, *name, state, reason))
    if why is not None:
        context.emit(why)


def _is_slot(rm: ResourceManager, name: AskName) -> bool:
    """Whether the scheduler itself asks for it, so that the RM does not know it."""
    partition_name, application_id, key = name
    if not key.startswith(SLOT_KEYS):
        return False
    partition = rm.partitions.get(partition_name)
    application = partition.applications.get(application_id) if partition is not None else None
    return application is not None and application.gang is not None and bool(application.gang.declared)


def _find_changes(context: StepContext, rm: ResourceManager, states: SchedulingStateTracker) -> int | None:
    """Starts a scan for each place whose outlook changed. Returns when to check the places for which it is too early;
    None if there are none."""
    again_ns = None
    places: dict[Place, Outlook] = {}
    for partition in rm.partitions.values():
        if states.tells_reasons:
            _tell_reserved_again(context, rm, states, partition)
        for place, outlook in outlooks(partition, tells_reasons=states.tells_reasons):
            places[place] = outlook
            known = states.outlooks.get(place)
            if known is not None and known[0] is not None and known[0].amounts != outlook.amounts:
                stable_ns = _stable_from_ns(context, states, place, known[0], outlook)
                if stable_ns > context.now_ns:
                    outlook = outlook._replace(amounts=known[0].amounts)
                    again_ns = stable_ns if again_ns is None else min(again_ns, stable_ns)
            if outlook.waits_for_turn and known is not None and known[0] is not None and known[0].waits_for_turn:
                lasts = known[0].lasts or known[1] + AGAIN_NS <= context.now_ns
                outlook = outlook._replace(lasts=lasts)
            if known is None or (known[0] != outlook and known[1] + AGAIN_NS <= context.now_ns):
                states.outlooks[place] = outlook, context.now_ns
                states.scans.append(Scan(partition, place, outlook))
            elif known[0] != outlook and (again_ns is None or known[1] + AGAIN_NS < again_ns):
                again_ns = known[1] + AGAIN_NS
    states.forget_old(context.now_ns - AGAIN_NS, places)
    return _find_changes_of_groups(context, rm, states, places, again_ns)


def _stable_from_ns(
    context: StepContext,
    states: SchedulingStateTracker,
    measured: Measured,
    known: Outlook | GroupOutlook,
    outlook: Outlook | GroupOutlook,
) -> int:
    """When the amounts have been the same for long enough to be told; at once if the cause is another one."""
    if known.cause != outlook.cause:
        return context.now_ns
    seen = states.amounts.get(measured)
    if seen is None or seen[0] != outlook.amounts:
        seen = states.amounts[measured] = outlook.amounts, context.now_ns
    return seen[1] + AGAIN_NS


def _tell_reserved_again(
    context: StepContext, rm: ResourceManager, states: SchedulingStateTracker, partition: Partition
) -> None:
    """Tells the reasons of asks whose reservation has other victims than before, or is another one."""
    asks = {one.ask: one.application for one in islice(partition.reservations, PLACES_MAX)}
    for ask, application in asks.items():
        name = (partition.name, application.application_id, ask.key)
        known = states.told.get(name)
        if known is None or known.state is not SchedulingState.RESERVED or ask.unreserved > 0:
            continue
        cause = reserved_identity(ask)
        why = None
        if known.cause != cause:
            why = why_pending(rm, partition, application, ask, SchedulingState.RESERVED)
        if why is not None:
            states.told[name] = Told(SchedulingState.RESERVED, cause, context.now_ns)
            context.emit(why)


def _find_changes_of_groups(
    context: StepContext,
    rm: ResourceManager,
    states: SchedulingStateTracker,
    places: Mapping[Place, Outlook],
    again_ns: int | None,
) -> int | None:
    """The same for the groups of applications and gangs that do not schedule now."""
    before, states.group_outlooks = states.group_outlooks, {}
    progress: dict[Application, GangProgress] = {}
    for partition, application, group in islice(groups_aside(rm, states), PLACES_MAX):
        if application.declares_gang and application not in progress:
            progress[application] = gang_progress(application)
        state, cause = group_state(partition, rm.state, application, group)
        outlook = group_outlook(places, application, group, state, cause, progress.get(application))
        if outlook is None:
            continue
        known = before.pop(group, None)
        if known is not None and known[0].amounts != outlook.amounts:
            stable_ns = _stable_from_ns(context, states, group, known[0], outlook)
            if stable_ns > context.now_ns:
                outlook = outlook._replace(amounts=known[0].amounts)
                again_ns = stable_ns if again_ns is None else min(again_ns, stable_ns)
        if known is None or (known[0] != outlook and known[1] + AGAIN_NS <= context.now_ns):
            known = outlook, context.now_ns
            states.scans.append(GroupScan(partition, application, group, outlook))
        elif known[0] != outlook and (again_ns is None or known[1] + AGAIN_NS < again_ns):
            again_ns = known[1] + AGAIN_NS
        states.group_outlooks[group] = known
    for group in before:
        states.amounts.pop(group, None)
    return again_ns


def _run_scans(context: StepContext, rm: ResourceManager, states: SchedulingStateTracker) -> None:
    """Runs the scans for one slice."""
    visits = 0
    while states.scans and visits < VISITS_MAX:
        scan = states.scans[0]
        partition = scan.partition
        explain = Explanation(partition, rm.state, StateQuery(limit=NODES_MAX))
        visits += min(len(partition.nodes), NODES_MAX)
        while visits < VISITS_MAX and not scan.is_over:
            visits += 1
            found = scan.next()
            if (
                found is None or found[1].unchecked <= 0
            ):  # an ask that awaits a predicate result is told with that result
                continue
            application, ask = found
            name = (partition.name, application.application_id, ask.key)
            state, known = _state(scan, application, ask), states.told.get(name)
            cause = scan.outlook.told_cause
            if state is SchedulingState.RESERVED and states.tells_reasons:
                cause = reserved_identity(ask)
            if known is None or known.is_news(state, cause):
                if known is not None and known.state in WAITING and context.now_ns < known.at_ns + AGAIN_NS:
                    scan.invalidate(states)
                    states.needs_another_round = True
                elif state is not None or known is None or known.state not in WAITING or _lasts(scan):
                    text = _reason(scan, explain, application, ask, state) if states.tells_states else ""
                    why = _why(rm, states, scan, explain, application, ask, state) if states.tells_reasons else None
                    _tell(context, rm, states, name, state, cause, text, why)
        if scan.is_over:
            states.scans.popleft()
    if not states.scans:
        states.waiting_line = WaitingLine()


def _why(
    rm: ResourceManager,
    states: SchedulingStateTracker,
    scan: Scan | GroupScan,
    explain: Explanation,
    application: Application,
    ask: Ask,
    state: SchedulingState | None,
) -> PendingReasonChanged | None:
    is_of_gang = isinstance(scan, GroupScan) and application.declares_gang
    progress = explain.gang(application) if is_of_gang else None
    found = why_pending(rm, scan.partition, application, ask, state, progress)
    is_behind = isinstance(scan, Scan) and (state is None or state is SchedulingState.SKIPPED)
    if found is not None and not found.rule and is_behind:
        found.ahead = states.waiting_line.ahead(application, ask)
    return found


def _lasts(scan: Scan | GroupScan) -> bool:
    return isinstance(scan.outlook, Outlook) and scan.outlook.lasts


def _state(scan: Scan | GroupScan, application: Application, ask: Ask) -> SchedulingState | None:
    """None for an ask that waits for its turn."""
    if ask.unreserved <= 0:
        return SchedulingState.RESERVED
    if isinstance(scan, GroupScan):
        return scan.outlook.state
    if scan.outlook.waits_for_turn:
        return None
    if scan.outlook.cause:
        return SchedulingState.SKIPPED
    account = application if application in scan.left else None
    left = scan.left.get(account, 0)
    if left <= 0:
        return SchedulingState.SKIPPED
    scan.left[account] = left - ask.unreserved
    return SchedulingState.FAILED


def _reason(
    scan: Scan | GroupScan, explain: Explanation, application: Application, ask: Ask, state: SchedulingState | None
) -> str:
    if isinstance(scan, GroupScan) or state is not SchedulingState.SKIPPED or scan.outlook.cause:
        return explain.waiting(application, ask)
    leaf, pending_class = scan.place
    why = highest_blocked(leaf, pending_class.items, pending_class.quota_key)
    if why is not None:
        return why.clause()
    return turns.ONLY_BEFORE
