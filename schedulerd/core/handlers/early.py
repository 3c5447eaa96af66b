"""Items that came before what they refer to.

The three streams of a resource manager have no order between them, so an ask or a node with existing allocations may
arrive before its application. It waits for a bounded time; when the application comes it is handled as if it came then,
and when the time is over it is handled as it is, which rejects it.
"""

from __future__ import annotations

from schedulerd.core.alarms import AlarmKind
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import AskRelease, NewAsk
from schedulerd.core.facts import RejectCode
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.early import EarlyItem, Item
from schedulerd.core.model.partition import Partition
from schedulerd.core.turn import Turn

HELD_MAX = 100_000
"""Early items per resource manager; one more is handled at once."""


def unknown_application(application_id: str) -> Mistake:
    return Mistake(
        RejectCode.UNKNOWN_APPLICATION,
        f"applicationID {shown(application_id)} is not a known application; it must be added before it can have "
        "asks or allocations, and may have been rejected, removed or completed since",
    )


def hold(turn: Turn, rm: ResourceManager, item: Item, partition: Partition, application_id: str) -> bool:
    """Lets `item` wait for the application. False if nothing may wait (any more): handle it now."""
    wait_ns = turn.cluster.timeouts.early_message_ns
    if not wait_ns or len(rm.early) >= HELD_MAX:
        return False
    held = EarlyItem(rm.rm_id, item, partition.name, application_id)
    held.alarm = turn.cluster.alarms.set(turn.now_ns + wait_ns, AlarmKind.EARLY_ITEM, held)
    rm.early.add(held)
    return True


def take(turn: Turn, rm: ResourceManager, partition: Partition, application_id: str) -> list[EarlyItem]:
    """Everything that waited for this application, in order of arrival; it waits no longer."""
    found = rm.early.waiting_for(partition.name, application_id)
    for held in found:
        release(turn, rm, held)
    return found


def release(turn: Turn, rm: ResourceManager, held: EarlyItem) -> None:
    """The item waits no longer."""
    turn.cluster.alarms.cancel(held.alarm)
    rm.early.remove(held)


def drop_asks(turn: Turn, rm: ResourceManager, partition: Partition, item: AskRelease) -> bool:
    """The RM takes back asks that are still waiting for their application. False if there were none."""
    if not rm.early:
        return False
    waiting = rm.early.waiting_for(partition.name, item.application_id) if item.application_id else list(rm.early)
    found = [
        held
        for held in waiting
        if isinstance(held.item, NewAsk)
        and held.partition == partition.name
        and item.allocation_key in ("", held.item.allocation_key)
    ]
    for held in found:
        release(turn, rm, held)
    return bool(found)
