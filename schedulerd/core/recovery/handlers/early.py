"""Holding and handling of early items, which arrived before the application that they refer to.

The three streams of an RM have no order between them, so an ask, or a node with existing allocations, can arrive before
its application. It waits for a bounded time. When the application arrives, the item is handled as if it had arrived
then. On timeout it is handled as it is, which rejects it.

If many items wait for an application, one step handles some of them. The others are its backlog: an alarm that is due
at once makes as many further steps as needed. New items for the application wait behind its backlog.
"""

from __future__ import annotations

from schedulerd.core import checks
from schedulerd.core.alarm_events import BacklogDue, EarlyItemTimeout
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import AskRelease, NewAsk, NodeUpdate
from schedulerd.core.facts import EarlyAskReleased, RejectCode
from schedulerd.core.partition import Partition
from schedulerd.core.recovery.early import Backlog, EarlyItem, Item
from schedulerd.core.step_context import ResourceManager, StepContext

HELD_MAX = 100_000
"""Maximum number of early items of an RM; a further one is handled at once."""

TAKEN_MAX = 200
"""Early items handled in one step when their application arrives. Each existing allocation of a node counts as an
item."""


def unknown_application(partition: Partition, application_id: str) -> Mistake:
    """The mistake for an unknown application. It names the state in which the last application with this id ended, if
    that is remembered."""
    ended = partition.terminated_by_id.get(application_id)
    if ended is not None:
        state = f"was last an application in state {ended.state}; it must be added again before it can have asks or "
        return Mistake(RejectCode.UNKNOWN_APPLICATION, f"applicationID {shown(application_id)} {state}allocations")
    return Mistake(
        RejectCode.UNKNOWN_APPLICATION,
        f"applicationID {shown(application_id)} is not a known application; it must be added before it can have "
        "asks or allocations, and may have been rejected, removed or completed since",
    )


def has_room(context: StepContext, rm: ResourceManager) -> bool:
    """Whether one more early item can wait; if not, it must be handled at once."""
    return context.cluster.timeouts.early_message_ns > 0 and len(rm.early) < HELD_MAX


def hold(context: StepContext, rm: ResourceManager, item: Item, partition: Partition, application_id: str) -> None:
    """Lets `item` wait for the application for a bounded time."""
    held = EarlyItem(rm.rm_id, item, partition.name, application_id)
    deadline_ns = context.now_ns + context.cluster.timeouts.early_message_ns
    held.alarm = context.cluster.alarms.set(deadline_ns, EarlyItemTimeout(held))
    rm.early.add(held)


def take(
    context: StepContext, rm: ResourceManager, partition: Partition, application_id: str, refused_serial: int | None
) -> list[EarlyItem]:
    """Removes and returns the first items for this application: as many as one step handles, with serials up to
    `refused_serial` (None: all). Also removes the backlog of the application."""
    forget_backlog(context, rm, partition.name, application_id)
    taken: list[EarlyItem] = []
    count = 0
    for held in rm.early.waiting_for(partition.name, application_id, TAKEN_MAX):
        count += 1 + (len(held.item.existing) if isinstance(held.item, NodeUpdate) else 0)
        if (taken and count > TAKEN_MAX) or (refused_serial is not None and held.serial > refused_serial):
            break
        release(context, rm, held)
        taken.append(held)
    return taken


def keep_backlog(
    context: StepContext, rm: ResourceManager, partition: Partition, application_id: str, refused_serial: int | None
) -> None:
    """If `take` left items, makes them the backlog of the application, for later steps."""
    left = rm.early.waiting_for(partition.name, application_id, 1)
    if left and (refused_serial is None or left[0].serial <= refused_serial):
        backlog = Backlog(rm.rm_id, partition.name, application_id, refused_serial)
        backlog.alarm = context.cluster.alarms.set(context.now_ns + 1, BacklogDue(backlog))
        rm.early.backlogs[partition.name, application_id] = backlog


def forget_backlog(context: StepContext, rm: ResourceManager, partition: str, application_id: str) -> None:
    """Removes the backlog. Its items wait as if the application had not arrived."""
    backlog = rm.early.backlogs.pop((partition, application_id), None)
    if backlog is not None:
        context.cluster.alarms.cancel(backlog.alarm)


def release(context: StepContext, rm: ResourceManager, held: EarlyItem) -> None:
    """Removes an item, with its alarm."""
    context.cluster.alarms.cancel(held.alarm)
    rm.early.remove(held)


def drop_asks(context: StepContext, rm: ResourceManager, partition: Partition, item: AskRelease) -> bool:
    """The RM withdraws early asks: each is confirmed once, however often it was sent. False if there were none."""
    if not rm.early:
        return False
    if item.allocation_key:
        waiting = rm.early.asks_of(partition.name, item.allocation_key)
    else:
        waiting = rm.early.waiting_for(partition.name, item.application_id)
    found = [
        held for held in waiting if isinstance(held.item, NewAsk) and item.application_id in ("", held.application_id)
    ]
    taken_back: dict[tuple[str, str], None] = {}
    for held in found:
        release(context, rm, held)
        assert isinstance(held.item, NewAsk)
        taken_back[held.application_id, held.item.allocation_key] = None
    message = checks.message(item.message)
    for application_id, key in taken_back:
        context.emit(EarlyAskReleased(rm.rm_id, partition.name, application_id, key, item.termination, message))
    return bool(found)
