"""What all pages begin with: numbers of the cluster, its use, and the state of this daemon."""

from __future__ import annotations

from collections.abc import Generator

from schedulerd.amounts import resource
from schedulerd.daemon.admin.ui.bars import share_class
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.counts import Counts
from schedulerd.daemon.admin.ui.texts import amount, clock_time, count, percent, row_key, short_count
from schedulerd.daemon.admin.ui.view import View

_USES_MAX = 4


def add_head(view: View, context: Context) -> Generator[None, None, Counts]:
    """Adds the numbers, which are a second old at most."""
    found = yield from context.counts()
    partition, links = context.place.partition, context.links
    rate = context.sources.history.per_minute(partition)
    view.put(
        as_of=clock_time(context.now.wall_ns),
        rate="" if rate is None else f"{short_count(rate)} placements/min",
        running=f"{'at most ' if found.at_least else ''}{count(found.running)}",
        waiting=f"{'at least ' if found.at_least else ''}{count(found.waiting)}",
        waiting__class="n warn" if found.waiting else "n",
        gangs=count(found.open_gangs),
        gangs_word="gang incomplete" if found.open_gangs == 1 else "gangs incomplete",
        preempting=count(found.preempting),
    )
    view.begin("use")
    for name in found.resources[:_USES_MAX]:
        used, total = found.used.get(name, 0), found.total[name]
        view.add(
            "use",
            row_key(name),
            name=resource(name),
            bar__class=share_class(used, total),
            share=f"{percent(used, total)} %",
            of=f"{amount(name, used)} of {amount(name, total)}",
        )
    names = [
        (rm.rm_id, one.name)
        for rm in context.sources.scheduler.cluster.resource_managers.values()
        for one in rm.partitions.values()
    ]
    view.fixed["head"] = {
        "cluster": context.place.rm.rm_id,
        "partition": partition.name,
        "host": context.sources.host,
        "others": len(names) > 1,
        "links": {
            "overview": links.to(""),
            "queues": links.to("queues"),
            "applications": links.to("applications"),
            "nodes": links.to("nodes"),
            "events": links.to("events"),
            "running": links.to("applications", state="running"),
            "waiting": links.to("applications", pending="yes"),
            "gangs": links.to("applications", gang="open"),
        },
        "partitions": [
            {
                "name": f"{rm_id} / {name}",
                "rm": rm_id,
                "partition": name,
                "is_this": rm_id == context.place.rm.rm_id and name == partition.name,
            }
            for rm_id, name in names[:50]
        ],
    }
    return found
