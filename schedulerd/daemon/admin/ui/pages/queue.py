"""One queue: its use, what waits in it, its queues, applications, users and limits, and the last queue file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import nlargest
from itertools import islice
from typing import Any

from schedulerd.amounts import resource
from schedulerd.core.explain.rules.ask import USES_NAMED_MAX
from schedulerd.core.explain.rules.reasons import explain_queue
from schedulerd.core.explain.values import ResourceUse
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.ui.bars import bar
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.counts import end_of
from schedulerd.daemon.admin.ui.pages.application_rows import add_application
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.queue_rows import add_queue, lenders, words
from schedulerd.daemon.admin.ui.pages.reasons import add_reasons
from schedulerd.daemon.admin.ui.slices import page_of
from schedulerd.daemon.admin.ui.texts import NONE, amount, amounts, many, moment, percent, row_key, visible
from schedulerd.daemon.admin.ui.view import Fields, View
from schedulerd.observe.explain_sentences import pending_count

PARAMS = ("path", "users", "limits", "changes")
APPLICATIONS_SHOWN = 25
CHILDREN_SHOWN = 25
USERS_SHOWN = 20
LIMITS_SHOWN = 20
CHANGES_SHOWN = 20
USES_SHOWN = USES_NAMED_MAX
_A_TURN = 64


def view(context: Context) -> Generator[None, None, View]:
    """The view. Raises `HTTPException` if there is no such queue."""
    place = context.place
    queue = finding.queue(place, context.params.get("path", "root"))
    made = View(f"Queue {queue.written}", "queue.html")
    counts = yield from add_head(made, context)
    found = yield from explain_queue(place.rm, place.partition, queue, context.now.monotonic_ns)
    left_out = max(0, len(found.reasons) - 10) + found.reasons_left_out
    add_reasons(made, context, found.reasons[:10], left_out, unexplained=found.unexplained)
    made.begin("resources")
    for one in sorted(found.resources, key=lambda one: (one.resource != "vcore", one.resource != "memory")):
        _add_resource(made, context, queue, one, counts.total)
    said, kind = words(queue, context.projection.queue(queue), counts.total)
    most = f" of at most {queue.max_applications:,}" if queue.max_applications else ""
    made.put(
        words=said or "active",
        words__class=f"badge {kind if said else 'ok'}",
        apps=f"{queue.running:,}{most}",
        waiting_here=f"{pending_count(found)} pending {'allocation' if found.pending == 1 else 'allocations'}",
    )
    yield
    made.begin("queues")
    for child in islice(list(queue.children.values()), CHILDREN_SHOWN):
        add_queue(made, context, child, counts, [""], 1)
        yield
    made.begin("applications")
    for application in islice(reversed(queue.applications.values()), APPLICATIONS_SHOWN):
        add_application(made, context, application)
    left = len(queue.applications) - APPLICATIONS_SHOWN
    made.put(applications_left_out=f"and {left:,} older" if left > 0 else "")
    yield from _add_users(made, context, queue)
    _add_last_file(made, context, queue)
    made.fixed |= _fixed(context, queue)
    return made


def _fixed(context: Context, queue: Queue) -> dict[str, Any]:
    links, properties = context.links, queue.properties
    left = max(0, len(queue.children) - CHILDREN_SHOWN)
    limits = page_of(context.params.get("limits", ""), len(queue.limits), LIMITS_SHOWN)
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
            *([("preemption within the queue", properties.preemption_within_queue.value)] if queue.is_leaf else []),
            *([("priority offset", str(properties.priority_offset))] if properties.priority_offset else []),
        ],
        "limits": [_limit(context, queue, one) for one in queue.limits[limits.first : limits.end]],
        "limits_shown": limits.said,
        "limits_paging": limits.links(_moved(context, "limits")),
    }


def _add_resource(made: View, context: Context, queue: Queue, one: ResourceUse, total: dict[str, int]) -> None:
    name, end = one.resource, end_of(queue, one.resource, total)
    said = ["over its max"] if one.max is not None and one.used > one.max else []
    said += ["full"] if not said and end and one.used + one.reserved >= end else []
    if one.guaranteed is not None and one.used > one.guaranteed:
        lent = lenders(queue, [name])
        said.append(f"above its guarantee, lent by {lent}" if lent else "above its guarantee")
    made.add(
        "resources",
        row_key(name),
        name=resource(name),
        **bar("b", one.used, one.pending, one.guaranteed, end),
        share=f"{percent(one.used, end)} %",
        used=amount(name, one.used),
        reserved=amount(name, one.reserved) if one.reserved else NONE,
        pending=amount(name, one.pending) if one.pending else NONE,
        guaranteed=amount(name, one.guaranteed) if one.guaranteed is not None else NONE,
        max=amount(name, one.max) if one.max is not None else "no max",
        words=", ".join(said),
        more=f"and {many(one.uses_left_out, 'other')}" if one.uses_left_out else "",
        **_uses(context, one),
    )


def _uses(context: Context, one: ResourceUse) -> Fields:
    """A field for each of the largest users of the resource."""
    fields: Fields = {}
    links = context.links
    for number in range(USES_SHOWN):
        use = one.uses[number] if number < len(one.uses) else None
        text = f"{use.queue or use.application_id} {amount(one.resource, use.amount)}" if use is not None else ""
        href = "" if use is None else links.queue(use.queue) if use.queue else links.application(use.application_id)
        fields |= {f"u{number}": text, f"u{number}__href": href, f"u{number}__class": "" if text else "none"}
    return fields


def _limit(context: Context, queue: Queue, one: LimitSpec) -> dict[str, Any]:
    most = ", ".join(f"{amount(name, value)} {resource(name)}" for name, value in sorted((one.max or {}).items()))
    return {
        "users": [_account(context, queue, "user", name) for name in one.users],
        "groups": [_account(context, queue, "group", name) for name in one.groups],
        "max": visible(most) or "no max",
        "applications": str(one.max_applications or "unlimited"),
    }


def _account(context: Context, queue: Queue, kind: str, name: str) -> tuple[str, str]:
    """A user or group, and where its applications here and below are; `*` is all of them."""
    which = {kind: name} if name != "*" else {}
    return visible(name), context.links.to("applications", queue=queue.written, **which)


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
    slice_ = page_of(context.params.get("users", ""), len(found), USERS_SHOWN)
    for _, kind, name, ledger in nlargest(slice_.end, found, key=lambda one: one[:3])[slice_.first :]:
        made.add(
            "users",
            row_key(kind, name),
            name=name,
            name__href=_account(context, queue, kind, name)[1],
            kind=kind,
            used=amounts(ledger.usage.nonzero()) or "nothing",
            apps=many(len(ledger.applications), "application"),
        )
    made.put(users_shown=slice_.said)
    made.fixed["users"] = slice_.links(_moved(context, "users"))


def _moved(context: Context, name: str) -> Callable[[str], str]:
    """The address of this page with another part of one of its lists."""
    return lambda first: context.links.to("queue", **{**context.params, name: first})


def _add_last_file(made: View, context: Context, queue: Queue) -> None:
    log = context.sources.queue_files.of(context.place.rm.rm_id)
    partition = context.place.partition.name
    here = [
        one
        for one in log.changes
        if one.partition == partition and (one.queue == queue.path or one.queue.startswith(f"{queue.path}."))
    ]
    if log.at_ns:
        said = f"{moment(log.at_ns, context.now.wall_ns)}, {log.source}: {many(len(here), 'change')} here"
    else:
        said = "None since the resource manager registered."
    if log.refused_at_ns:
        at = moment(log.refused_at_ns, context.now.wall_ns)
        said += f" A later file was refused at {at}: {'; '.join(log.refused_because)}"
    made.put(last_file=said)
    made.begin("changes")
    slice_ = page_of(context.params.get("changes", ""), len(here), CHANGES_SHOWN)
    made.put(changes_shown=slice_.said)
    made.fixed["changes"] = slice_.links(_moved(context, "changes"))
    for number, one in enumerate(here[slice_.first : slice_.end], slice_.first):
        values = ", ".join(f"{amount(name, value)} {resource(name)}" for name, value in sorted(one.amounts.items()))
        text = one.message or values or ("not set" if one.what in ("max", "guaranteed") else "")
        made.add(
            "changes",
            row_key(log.at_ns, number),
            queue=one.queue,
            queue__href=context.links.queue(one.queue),
            what=one.what,
            text=text,
        )
