"""One queue: its use, what waits in it, its queues, applications, users and limits, and the last queue file."""

from __future__ import annotations

from collections.abc import Generator
from heapq import nlargest
from itertools import islice

from schedulerd.core.explain.causes import Use
from schedulerd.core.explain.rules.reasons import explain_queue
from schedulerd.core.explain.values import ResourceUse
from schedulerd.core.model.queue import Queue
from schedulerd.core.specs import LimitSpec
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.ui.bars import bar
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.application_rows import add_application
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.queue_rows import add_queue, end_of, words
from schedulerd.daemon.admin.ui.pages.reasons import add_reasons
from schedulerd.daemon.admin.ui.texts import NONE, amount, date_time, many, percent, row_key, visible
from schedulerd.daemon.admin.ui.view import View

PARAMS = ("path",)
APPLICATIONS_SHOWN = 25
CHILDREN_SHOWN = 25
USERS_SHOWN = 20
CHANGES_SHOWN = 20
_A_TURN = 64


def view(context: Context) -> Generator[None, None, View]:
    """The view. Raises `HTTPException` if there is no such queue."""
    place = context.place
    queue = finding.queue(place, context.params.get("path", "root"))
    made = View(f"Queue {queue.written}", "queue.html")
    counts = yield from add_head(made, context)
    found = yield from explain_queue(place.rm, place.partition, queue, context.now.monotonic_ns)
    add_reasons(made, context, found.reasons[:10], max(0, len(found.reasons) - 10) + found.reasons_left_out)
    made.begin("resources")
    for one in sorted(found.resources, key=lambda one: (one.resource != "vcore", one.resource != "memory")):
        _add_resource(made, context, queue, one, counts.total)
    said, kind = words(queue, context.projection.queue(queue), counts.total)
    most = f" of at most {queue.max_applications}" if queue.max_applications else ""
    made.put(
        words=said or "active",
        words__class=f"badge {kind if said else 'ok'}",
        apps=f"{queue.running}{most}",
        waiting_here=many(found.pending, "pending allocation"),
    )
    yield
    made.begin("queues")
    for child in islice(list(queue.children.values()), CHILDREN_SHOWN):
        add_queue(made, context, child, counts, [""], 1)
        yield
    made.begin("applications")
    for application in islice(reversed(queue.applications.values()), APPLICATIONS_SHOWN):
        add_application(made, context, application)
    yield from _add_users(made, context, queue)
    _add_last_file(made, context, queue)
    made.fixed |= _fixed(context, queue)
    return made


def _fixed(context: Context, queue: Queue) -> dict[str, object]:
    links, properties = context.links, queue.properties
    left = max(0, len(queue.children) - CHILDREN_SHOWN)
    return {
        "path": [
            {"name": visible(one.written_name), "href": links.queue(one.written)}
            for one in reversed(queue.path_to_root)
        ],
        "is_leaf": queue.is_leaf,
        "all_applications": links.to("applications", queue=queue.written),
        "all_queues": links.to("queues", under=queue.written),
        "queues_left_out": many(left, "further queue") if left else "",
        "facts": [
            (
                "kind",
                ("leaf" if queue.is_leaf else "parent") + ("" if queue.managed else ", created by a placement rule"),
            ),
            ("order of applications", properties.application_order.value)
            if queue.is_leaf
            else ("order of queues", properties.queue_order.value),
            ("preemption", properties.preemption_policy.value),
            *([("priority offset", str(properties.priority_offset))] if properties.priority_offset else []),
        ],
        "limits": [_limit(one) for one in queue.limits[:USERS_SHOWN]],
    }


def _add_resource(made: View, context: Context, queue: Queue, one: ResourceUse, total: dict[str, int]) -> None:
    name, end = one.resource, end_of(queue, one.resource, total)
    over = [
        word
        for word, at in (("over its max", one.max), ("over its guarantee", one.guaranteed))
        if at is not None and one.used > at
    ]
    full = ["full"] if one.max is not None and one.used == one.max else []
    made.add(
        "resources",
        row_key(name),
        name=name,
        **bar("b", one.used, one.pending, one.guaranteed, end),
        share=f"{percent(one.used, end)} %",
        used=amount(name, one.used),
        reserved=amount(name, one.reserved) if one.reserved else NONE,
        pending=amount(name, one.pending) if one.pending else NONE,
        guaranteed=amount(name, one.guaranteed) if one.guaranteed is not None else NONE,
        max=amount(name, one.max) if one.max is not None else "no max",
        words=", ".join(full + over),
        uses=", ".join(_use(use, name) for use in one.uses)
        + (f" and {one.uses_left_out} more" if one.uses_left_out else ""),
    )


def _use(one: Use, name: str) -> str:
    return f"{one.queue or one.application_id} {amount(name, one.amount)}"


def _limit(one: LimitSpec) -> dict[str, str]:
    most = ", ".join(f"{name} {amount(name, value)}" for name, value in sorted((one.max or {}).items()))
    return {
        "users": visible(", ".join(one.users)) or NONE,
        "groups": visible(", ".join(one.groups)) or NONE,
        "max": visible(most) or "no max",
        "applications": str(one.max_applications or "unlimited"),
    }


def _add_users(made: View, context: Context, queue: Queue) -> Generator[None, None, None]:
    found = []
    usages = context.place.partition.usages
    for kind, ledgers in (("user", usages.users), ("group", usages.groups)):
        for number, (name, by_path) in enumerate(list(ledgers.items())):
            if number % _A_TURN == _A_TURN - 1:
                yield
            ledger = by_path.get(queue.path)
            if ledger is not None:
                found.append((max(ledger.usage.values(), default=0), kind, name, ledger))
    made.begin("users")
    for _, kind, name, ledger in nlargest(USERS_SHOWN, found, key=lambda one: one[:3]):
        used = ", ".join(f"{resource} {amount(resource, value)}" for resource, value in ledger.usage.canonical())
        made.add(
            "users",
            row_key(kind, name),
            name=name,
            kind=kind,
            used=used or "nothing",
            apps=many(len(ledger.applications), "application"),
        )
    left = len(found) - USERS_SHOWN
    made.put(users_left_out=f"and {left:,} more" if left > 0 else "")


def _add_last_file(made: View, context: Context, queue: Queue) -> None:
    log = context.sources.queue_files.of(context.place.rm.rm_id)
    partition = context.place.partition.name
    here = [
        one
        for one in log.changes
        if one.partition == partition and (one.queue == queue.path or one.queue.startswith(f"{queue.path}."))
    ]
    if log.at_ns:
        said = f"{date_time(log.at_ns)} UTC, {log.source}: {many(len(here), 'change')} here"
    else:
        said = "None since the resource manager registered."
    if log.refused_at_ns:
        said += f" A later file was refused at {date_time(log.refused_at_ns)} UTC: {'; '.join(log.refused_because)}"
    made.put(last_file=said)
    made.begin("changes")
    for number, one in enumerate(here[:CHANGES_SHOWN]):
        values = ", ".join(f"{name} {amount(name, value)}" for name, value in sorted(one.amounts.items()))
        text = one.message or values or ("not set" if one.what in ("max", "guaranteed") else "")
        made.add(
            "changes",
            row_key(log.at_ns, number),
            queue=one.queue,
            queue__href=context.links.queue(one.queue),
            what=one.what,
            text=text,
        )
