"""Queues as rows of a table, with bars."""

from __future__ import annotations

from heapq import nlargest
from itertools import islice

from schedulerd.amounts import resource
from schedulerd.core.state.model.queue import Queue
from schedulerd.daemon.admin.api.models import QueueItem
from schedulerd.daemon.admin.ui.bars import bar
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.counts import Counts, end_of, full_of
from schedulerd.daemon.admin.ui.pages.queue_tree import Fold
from schedulerd.daemon.admin.ui.texts import NONE, amount, count, percent, row_key
from schedulerd.daemon.admin.ui.view import Fields, View

DEPTH_SHOWN = 8
_SIBLINGS_SEEN = 100
"""Siblings among which those are looked for that lend to a queue."""
_LENDERS_NAMED = 2


def words(queue: Queue, item: QueueItem, total: dict[str, int]) -> tuple[str, str]:
    """The state of a queue in words, and the class of their colour."""
    used = item.used
    over_max = [name for name, most in item.max.items() if used.get(name, 0) > most]
    full = full_of(queue, total)
    over = [name for name, least in item.guaranteed.items() if used.get(name, 0) > least]
    said: list[str] = [] if item.state == "active" else [item.state]
    if over_max:
        said.append(f"over its max ({', '.join(map(resource, over_max[:2]))})")
    elif full:
        said.append(f"full ({', '.join(map(resource, full[:2]))})")
    if over:
        said.append("above its guarantee")
        lent = lenders(queue, over)
        said += [f"lent by {lent}"] if lent else []
    kind = "bad" if over_max else "warn" if full or item.state != "active" else "note"
    return ", ".join(said), kind


def lenders(queue: Queue, names: list[str]) -> str:
    """The siblings that use less of one of these resources than they are guaranteed, those with most to spare first."""
    if queue.parent is None:
        return ""
    spare = []
    for one in islice(queue.parent.children.values(), _SIBLINGS_SEEN):
        shares = [1 - one.allocated[name] / one.guaranteed[name] for name in names if one.guaranteed[name]]
        if one is not queue and shares and max(shares) > 0:
            spare.append((max(shares), one.written_name))
    more = len(spare) - _LENDERS_NAMED
    named = ", ".join(name for _, name in nlargest(_LENDERS_NAMED, spare))
    return f"{named} and {more} more" if more > 0 else named


def add_queue(
    view: View,
    context: Context,
    queue: Queue,
    counts: Counts,
    names: list[str],
    depth: int,
    fold: Fold = Fold(),  # noqa: B008  # it is a constant
) -> None:
    """Adds a row to the list `queues`, with a bar for each of these resources; '' is the fullest one."""
    item = context.projection.queue(queue)
    fields: Fields = {}
    for number, name in enumerate(names):
        fields |= _bar_fields(f"b{number}", queue, item, name or fullest(queue, item, counts.total), counts.total)
    said, kind = words(queue, item, counts.total)
    waiting = counts.waiting_by_queue.get(queue, 0)
    most = f" of {item.max_applications:,}" if item.max_applications else ""
    view.add(
        "queues",
        row_key(queue.path),
        name=queue.written_name if depth else item.queue,
        name__href=context.links.queue(item.queue),
        indent__class=f"d{min(depth, DEPTH_SHOWN)}",
        fold__href=fold.href,
        fold__class="fold" if fold.mark else "fold off",
        mark=fold.mark,
        folds=f"{fold.word} {queue.written_name}" if fold.mark else "",
        words=said,
        words__class=f"state {kind}",
        waiting=count(waiting) if waiting else "0",
        apps=f"{count(item.running_applications)}{most}",
        **fields,
    )


def fullest(queue: Queue, item: QueueItem, total: dict[str, int]) -> str:
    """The resource of which the largest share is used."""
    names = list(total) or list(item.used)
    shares = {name: percent(item.used.get(name, 0), end_of(queue, name, total)) for name in names}
    order = sorted(shares, key=lambda name: (-shares[name], name != "vcore", name))
    return order[0] if order else "vcore"


def _bar_fields(field: str, queue: Queue, item: QueueItem, name: str, total: dict[str, int]) -> Fields:
    used, end = item.used.get(name, 0), end_of(queue, name, total)
    least = item.guaranteed.get(name)
    most = item.max.get(name, total.get(name) if queue.parent is None else None)
    said = [amount(name, used), *(NONE if one is None else amount(name, one) for one in (least or None, most))]
    return {
        **bar(field, used, item.pending.get(name, 0), least or None, end),
        f"{field}r": resource(name),
        f"{field}n": " / ".join(said),
        f"{field}s": f"{percent(used, end)} %",
    }
