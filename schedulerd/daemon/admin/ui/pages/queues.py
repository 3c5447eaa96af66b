"""The queue tree, with a bar for each resource."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice

from schedulerd.core.state.model.queue import Queue
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.queue_rows import add_queue
from schedulerd.daemon.admin.ui.pages.queue_tree import Folds
from schedulerd.daemon.admin.ui.texts import many, visible
from schedulerd.daemon.admin.ui.view import View

PARAMS = ("under", "from", "fold")
QUEUES_SHOWN = 50
RESOURCES_SHOWN = 3


def view(context: Context) -> Generator[None, None, View]:
    """The view: the queue `under` and those below it, from the number `from` on."""
    made = View("Queues", "queues.html")
    counts = yield from add_head(made, context)
    under = context.params.get("under", "")
    top = finding.queue(context.place, under) if under else context.place.partition.root
    first = int(text) if (text := context.params.get("from", "")).isdecimal() and len(text) < 7 else 0
    names = counts.resources[:RESOURCES_SHOWN] or [""]
    links, folded = context.links, context.params.get("fold", "")
    folds = Folds(context, lambda fold: links.to("queues", under=under, fold=fold))
    made.begin("queues")
    shown: list[Queue] = []
    for number, (queue, depth, fold) in enumerate(folds.walk(top)):
        if number >= first + QUEUES_SHOWN:
            break
        if number >= first:
            shown.append(queue)
            add_queue(made, context, queue, counts, names, depth, fold)
        yield
    is_more = next(islice(folds.walk(top), first + QUEUES_SHOWN, None), None) is not None
    made.fixed |= {
        "names": [visible(one) for one in names],
        "under": visible(top.written) if under else "",
        "up": links.to("queues", under=top.parent.written if top.parent is not None and top.parent.parent else ""),
        "next": links.to("queues", under=under, fold=folded, **{"from": str(first + QUEUES_SHOWN)}) if is_more else "",
        "previous": links.to("queues", under=under, fold=folded, **{"from": str(max(0, first - QUEUES_SHOWN))})
        if first
        else "",
    }
    made.put(queues_shown=many(len(shown), "queue"))
    return made
