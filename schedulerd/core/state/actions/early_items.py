"""Holding and handling of early items, which arrived before the application that they refer to.

The three streams of an RM have no order between them, so an ask can arrive before its application. It waits for a
bounded time. When the application arrives, the item is handled as if it had arrived then. On timeout it is handled as
it is, which rejects it.

If many items and unclaimed allocations wait for an application, one step handles some of them. The others are its
backlog: an alarm that is due at once makes as many further steps as needed. New items for the application wait behind
its backlog.
"""

from __future__ import annotations

from schedulerd.core.language import checks
from schedulerd.core.language.commands import AskRelease, NewAsk
from schedulerd.core.language.facts.fact import EarlyAskReleased
from schedulerd.core.state.alarm_events import BacklogDue, EarlyItemTimeout
from schedulerd.core.state.model.early import Backlog, EarlyItem, Item
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager, StepContext

HELD_MAX = 100_000
"""Maximum number of early items of an RM; a further one is handled at once."""

TAKEN_MAX = 200
"""Early items and unclaimed allocations handled in one step when their application arrives."""


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
    context: StepContext,
    rm: ResourceManager,
    partition: Partition,
    application_id: str,
    refused_serial: int | None,
    count: int,
) -> list[EarlyItem]:
    """Removes and returns the first items for this application, at most `count`, with serials up to `refused_serial`
    (None: all)."""
    taken: list[EarlyItem] = []
    for held in rm.early.waiting_for(partition.name, application_id, count):
        if refused_serial is not None and held.serial > refused_serial:
            break
        release(context, rm, held)
        taken.append(held)
    return taken


def keep_backlog(
    context: StepContext, rm: ResourceManager, partition: Partition, application_id: str, refused_serial: int | None
) -> None:
    """If `take` left items, or unclaimed allocations are still to join the application, makes them its backlog, for
    later steps."""
    left = rm.early.waiting_for(partition.name, application_id, 1)
    is_left = bool(left) and (refused_serial is None or left[0].serial <= refused_serial)
    if is_left or (refused_serial is None and partition.unclaimed.joining(application_id, 1)):
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
