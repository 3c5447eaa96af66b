"""Items that came before what they refer to.

The three streams of a resource manager have no order between them, so an ask or a node with existing allocations may
arrive before its application. It waits for a bounded time; when the application comes it is handled as if it came then,
and when the time is over it is handled as it is, which rejects it.
"""

from __future__ import annotations

from schedulerd.core import checks
from schedulerd.core.alarms import AlarmKind
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import AskRelease, NewAsk
from schedulerd.core.facts import EarlyAskReleased, RejectCode
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.early import EarlyItem, Item
from schedulerd.core.model.partition import Partition
from schedulerd.core.turn import Turn

HELD_MAX = 100_000
"""Early items per resource manager; one more is handled at once."""


def unknown_application(partition: Partition, application_id: str) -> Mistake:
    """With the state in which the last application of this id ended, if that is remembered."""
    ended = partition.terminated_by_id.get(application_id)
    if ended is not None:
        state = f"was last an application in state {ended.state}; it must be added again before it can have asks or "
        return Mistake(RejectCode.UNKNOWN_APPLICATION, f"applicationID {shown(application_id)} {state}allocations")
    return Mistake(
        RejectCode.UNKNOWN_APPLICATION,
        f"applicationID {shown(application_id)} is not a known application; it must be added before it can have "
        "asks or allocations, and may have been rejected, removed or completed since",
    )


def has_room(turn: Turn, rm: ResourceManager) -> bool:
    """Whether one more item may wait; if not, it is handled at once."""
    return turn.cluster.timeouts.early_message_ns > 0 and len(rm.early) < HELD_MAX


def hold(turn: Turn, rm: ResourceManager, item: Item, partition: Partition, application_id: str) -> None:
    """Lets `item` wait for the application, for a bounded time."""
    held = EarlyItem(rm.rm_id, item, partition.name, application_id)
    deadline_ns = turn.now_ns + turn.cluster.timeouts.early_message_ns
    held.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.EARLY_ITEM, held)
    rm.early.add(held)


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
    """The RM takes back asks that are still waiting for their application: each is confirmed once, however often it
    came. False if there were none."""
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
    taken_back: dict[tuple[str, str], None] = {}
    for held in found:
        release(turn, rm, held)
        assert isinstance(held.item, NewAsk)
        taken_back[held.application_id, held.item.allocation_key] = None
    message = checks.message(item.message)
    for application_id, key in taken_back:
        turn.say(EarlyAskReleased(rm.rm_id, partition.name, application_id, key, item.termination, message))
    return bool(found)
