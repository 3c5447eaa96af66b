"""One node: what it offers, what runs there, what is reserved, and why asks refuse it."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice

from starlette.exceptions import HTTPException

from schedulerd.amounts import resource
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.checks import shown
from schedulerd.core.state.constraints.node_class_attributes import attributes_for_people
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.node import Node, Unclaimed
from schedulerd.core.views.view import unclaimed
from schedulerd.daemon.admin.ui.bars import bar
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.counts import resource_order
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.slices import page_of
from schedulerd.daemon.admin.ui.texts import NONE, amount, amounts, count, many, moment, percent, row_key, visible
from schedulerd.daemon.admin.ui.view import View
from schedulerd.sentences.words import duration

PARAMS = ("id", "from")
PODS_SHOWN = 60
RESERVATIONS_SHOWN = 20
REFUSALS_SHOWN = 10
GROUPS_SEEN_MAX = 2_000
"""Groups of equal asks that are asked what they say to the node."""
_ATTRIBUTES_SHOWN = 20
_KINDS = {"schedulable": "ok", "draining": "warn", "not_ready": "bad"}


def view(context: Context) -> Generator[None, None, View]:
    """The view. Raises `HTTPException` if there is no such node."""
    name = context.params.get("id", "")
    node = context.place.partition.nodes.get(name)
    if node is None:
        raise HTTPException(404, f"node {shown(name)} is not registered")
    made = View(f"Node {node.node_id}", "node.html")
    yield from add_head(made, context)
    made.put(
        state=node.state.value.replace("_", " "),
        state__class=f"badge {_KINDS.get(node.state.value, '')}",
        pods=_pods(node),
        reserved_for=many(len(node.reservations), "reservation"),
    )
    _add_resources(made, node)
    made.begin("pods")
    there: list[Allocation | Unclaimed] = [*node.unclaimed.values(), *node.allocations.values()]
    pods = page_of(context.params.get("from", ""), len(there), PODS_SHOWN)
    for one in islice(there, pods.first, pods.end):
        if isinstance(one, Unclaimed):
            _add_unclaimed(made, context, one)
            continue
        kind = "held for a gang" if one.spec.slot else "placeholder" if one.placeholder else ""
        made.add(
            "pods",
            row_key(one.uuid),
            name=pod_of(one.ask.spec.tags) or one.key,
            name__href=context.links.ask(one.application.application_id, one.key),
            app=one.application.application_id,
            app__href=context.links.application(one.application.application_id),
            queue=one.application.queue.written,
            queue__href=context.links.queue(one.application.queue.written),
            resources=amounts(one.request_class.resources.nonzero()),
            kind="being released" if one.releasing is not None else kind,
        )
    left = len(node.reservations) - RESERVATIONS_SHOWN
    made.put(pods_shown=pods.said, reservations_left_out=f"and {left:,} more" if left > 0 else "")
    made.begin("reservations")
    for held in islice(list(node.reservations), RESERVATIONS_SHOWN):
        made.add(
            "reservations",
            row_key(held.application.serial, held.ask.serial, held.number),
            app=held.application.application_id,
            app__href=context.links.application(held.application.application_id),
            ask=pod_of(held.ask.spec.tags) or held.ask.key,
            ask__href=context.links.ask(held.application.application_id, held.ask.key),
            resources=amounts(dict(held.items)),
            since=moment(context.now.epoch_ns + held.made_at_ns, context.now.wall_ns),
            held=duration(context.now.monotonic_ns - held.made_at_ns),
            victims=f"waits for {many(len(held.victims), 'preempted allocation')}" if held.victims else "",
        )
    yield
    yield from _add_refusals(made, context, node)
    attributes = attributes_for_people(node.attributes)
    made.fixed |= {
        "attributes_left_out": max(0, len(attributes) - _ATTRIBUTES_SHOWN),
        "attributes": [(visible(key), visible(text)) for key, text in islice(attributes.items(), _ATTRIBUTES_SHOWN)],
        "pods": pods.links(lambda first: context.links.to("node", id=node.node_id, **{"from": first})),
        "all_events": context.links.to("events", object=node.node_id),
    }
    return made


def _pods(node: Node) -> str:
    said = many(len(node.allocations), "allocation")
    return f"{said}, {len(node.unclaimed):,} unclaimed" if node.unclaimed else said


def _add_unclaimed(made: View, context: Context, one: Unclaimed) -> None:
    """An allocation whose application is not known: there is nothing to link to."""
    shown_one = unclaimed(context.place.partition, one)
    made.add(
        "pods",
        row_key(one.uuid),
        name=one.key,
        name__href="",
        app=one.application_id,
        app__href="",
        queue=NONE,
        queue__href="",
        resources=amounts(shown_one.resources),
        kind=f"unclaimed: {shown_one.reason}",
    )


def _add_resources(made: View, node: Node) -> None:
    made.begin("resources")
    for name in resource_order({**node.capacity, **node.allocated})[:12]:
        whole = node.capacity[name] - node.occupied[name]
        made.add(
            "resources",
            row_key(name),
            name=resource(name),
            **bar("b", node.allocated[name], node.reserved[name], None, whole),
            share=f"{percent(node.allocated[name], whole)} %",
            used=amount(name, node.allocated[name]),
            reserved=amount(name, node.reserved[name]) if node.reserved[name] else NONE,
            others=amount(name, node.occupied[name]) if node.occupied[name] else NONE,
            free=amount(name, node.free[name]),
            whole=amount(name, node.capacity[name]),
        )


def _add_refusals(made: View, context: Context, node: Node) -> Generator[None, None, None]:
    """Why pending asks cannot use this node, by reason."""
    partition = context.place.partition
    found: dict[str, tuple[int, str, str]] = {}
    seen = fitting = 0
    groups = (
        (application, group)
        for application in list(partition.applications.values())
        for group in list(islice(application.groups.values(), GROUPS_SEEN_MAX))
    )
    for seen, (application, group) in enumerate(islice(groups, GROUPS_SEEN_MAX), 1):
        if seen % 8 == 0:
            yield
        if not context.is_current() or partition.nodes.get(node.node_id) is not node:
            return
        why = partition.refusal(group.request_class, node)
        if why is None:
            fitting += group.pending
            continue
        number, first, size = found.get(
            why, (0, application.application_id, amounts(group.request_class.resources.nonzero()))
        )
        found[why] = (number + group.pending, first, size)
    made.begin("refusals")
    left = len(found) - REFUSALS_SHOWN
    made.put(
        fitting=f"{many(fitting, 'waiting allocation')} would fit here: other things are awaited." if fitting else "",
        refusals_left_out=f"and {many(left, 'further reason')}" if left > 0 else "",
        groups_left_out=f"of the first {GROUPS_SEEN_MAX:,} groups of equal asks" if seen >= GROUPS_SEEN_MAX else "",
    )
    for why, (number, first, size) in sorted(found.items(), key=lambda one: -one[1][0])[:REFUSALS_SHOWN]:
        made.add(
            "refusals",
            row_key(why),
            count=count(number),
            why=why[:1].upper() + why[1:],
            size=size,
            app=first,
            app__href=context.links.application(first),
        )
