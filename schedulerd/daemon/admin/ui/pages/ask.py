"""One ask, or pod: everything that is known about why it waits, with links to what it waits for, and its story."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice

from starlette.exceptions import HTTPException

from schedulerd.amounts import resource
from schedulerd.core.explain.causes import RuleCause
from schedulerd.core.explain.rules.ask import explain_ask
from schedulerd.core.explain.values import AskExplanation, NodeSurvey, QuotaLevel, with_wall_times
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.checks import shown
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.daemon.admin.api.finding import application_id
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.stories import Story, add_events
from schedulerd.daemon.admin.ui.texts import NONE, amount, amounts, count, many, moment, row_key, visible
from schedulerd.daemon.admin.ui.view import View
from schedulerd.observe.event_record import Event
from schedulerd.observe.explain_sentences import ask_details, ask_summary
from schedulerd.sentences import nodes
from schedulerd.sentences.words import duration

PARAMS = ("application", "ask")
EVENTS_SHOWN = 30
PLACED_SHOWN = 20
QUOTAS_SHOWN = 40
CAUSES_SHOWN = 10
_LISTS = ("why", "counts", "near", "quotas", "uses", "reservations", "candidates", "ahead", "placed")


def view(context: Context) -> Generator[None, None, View]:
    """The view. Raises `HTTPException` if there is no such application."""
    name = yield from application_id(context.place, context.params.get("application", ""))
    key = context.params.get("ask", "")
    application = context.place.partition.applications.get(name)
    if application is None:
        raise HTTPException(404, f"application {shown(name)} is not there; it may have ended")
    ask = application.asks.get(key)
    pod = pod_of(ask.spec.tags) if ask is not None else ""
    made = View(f"Pod {pod}" if pod else f"Ask {key}", "ask.html")
    yield from add_head(made, context)
    for one in _LISTS:
        made.begin(one)
    made.put(counts_left_out="", ahead_left_out="")
    if ask is None:
        made.put(
            state="gone", state__class="badge", pending="0 waiting", allocated="none allocated", placed_left_out=""
        )
        text = "Its application has no such ask: it has ended, was withdrawn, or has not come yet."
        made.add("why", row_key("gone"), step=text, step__class="first")
    else:
        yield from _add_ask(made, context, application, ask)
    made.fixed |= _fixed(context, application, ask)
    story = context.memo.setdefault("story", Story())

    def wants(one: Event) -> bool:
        record = one.record
        if name not in (record.object_id, record.reference_id, record.group):
            return False
        return key in (record.object_id, record.reference_id)

    if context.sources.feed.tracked:
        yield from story.read(context.sources.feed.ring, context.place.rm.rm_id, wants)
    add_events(made, context, story, EVENTS_SHOWN)
    return made


def _fixed(context: Context, application: Application, ask: Ask | None) -> dict[str, object]:
    links, spec = context.links, application.spec
    facts = [
        ("application", visible(application.application_id), links.application(application.application_id)),
        ("queue", visible(application.queue.written), links.queue(application.queue.written)),
        ("user", visible(spec.user), links.to("applications", user=spec.user)),
    ]
    if ask is not None:
        required = ask.request_class.required_node
        at_ns = context.now.epoch_ns + ask.asked_at_ns
        facts += [
            ("asks for", visible(amounts(ask.request_class.resources.nonzero())), ""),
            *([("task group", visible(ask.spec.task_group), "")] if ask.spec.task_group else []),
            *([("requires node", visible(required), links.node(required))] if required else []),
            *([("priority", str(ask.spec.priority), "")] if ask.spec.priority else []),
            ("asked at", moment(at_ns, context.now.wall_ns), ""),
        ]
    return {"facts": facts}


def _add_ask(made: View, context: Context, application: Application, ask: Ask) -> Generator[None, None, None]:
    place, links = context.place, context.links
    found = yield from explain_ask(place.rm, place.partition, application, ask, context.now.monotonic_ns)
    states = sorted({one.state.replace("_", " ") for one in found.waiting})
    made.put(
        state=", ".join(states) or "placed",
        state__class=f"badge {'warn' if states else 'ok'}",
        pending=f"{found.pending:,} waiting",
        allocated=f"{found.allocated:,} allocated",
    )
    told = with_wall_times(found, context.now.epoch_ns)
    summary = ask_summary(told)
    for at, sentence in enumerate([*summary, *ask_details(told, is_listed=True)]):
        made.add("why", row_key(at), step=sentence, step__class="first" if at < len(summary) else "")
    if found.nodes is not None:
        _add_nodes(made, context, found.nodes)
    for level in found.quotas[:QUOTAS_SHOWN]:
        _add_quota(made, context, level)
    _add_uses(made, context, found)
    for number, held in enumerate(found.reservations):
        victims = many(len(held.victims) + held.victims_left_out, "preempted allocation")
        made.add(
            "reservations",
            row_key(number, held.node_id),
            node=held.node_id,
            node__href=links.node(held.node_id),
            since=f"{moment(context.now.epoch_ns + held.since_ns, context.now.wall_ns)}, "
            f"{duration(context.now.monotonic_ns - held.since_ns)}",
            victims=f"waits for {victims}" if held.victims else "",
        )
    for one in found.preemption.candidates if found.preemption is not None else ():
        made.add(
            "candidates",
            row_key(one.application_id),
            app=one.application_id,
            app__href=links.application(one.application_id),
            queue=one.queue,
            queue__href=links.queue(one.queue),
            used=amounts(one.used),
        )
    named = found.position.first_ahead if found.position is not None else []
    for name in named:
        made.add("ahead", row_key(name), name=name, name__href=links.application(name))
    left = found.position.applications_ahead - len(named) if found.position is not None else 0
    made.put(ahead_left_out=f"and {left:,} more" if left else "")
    for allocation in islice(list(ask.allocations.values()), PLACED_SHOWN):
        made.add(
            "placed",
            row_key(allocation.uuid),
            node=allocation.node.node_id,
            node__href=links.node(allocation.node.node_id),
            kind="being released" if allocation.releasing is not None else "runs",
        )
    left = len(ask.allocations) - PLACED_SHOWN
    made.put(placed_left_out=f"and {left:,} more" if left > 0 else "")


def _add_nodes(made: View, context: Context, survey: NodeSurvey) -> None:
    most = max((one.nodes for one in survey.counts), default=1)
    for one in survey.counts[:CAUSES_SHOWN]:
        made.add(
            "counts",
            row_key(one.cause, one.detail),
            count=count(one.nodes),
            what=nodes.node(one.cause, one.detail, one.nodes).partition(" ")[2],
            bar__class=f"u w{max(1, one.nodes * 100 // most)}",
        )
    left = len(survey.counts) - CAUSES_SHOWN
    made.put(counts_left_out=f"and {many(left, 'further cause')}" if left > 0 else "")
    for near in survey.best:
        lacks = ", ".join(
            f"{amount(one.resource, one.missing)} {resource(one.resource)} "
            f"({amount(one.resource, max(0, one.free))} free)"
            for one in near.lacks
        )
        made.add(
            "near",
            row_key(near.node_id),
            node=near.node_id,
            node__href=context.links.node(near.node_id),
            lacks=lacks or ("nothing" if near.cause == "room" else near.cause.replace("_", " ")),
            leaving=amounts(near.leaving) or NONE,
        )


def _add_quota(made: View, context: Context, level: QuotaLevel) -> None:
    name = level.resource
    used = level.used + level.reserved
    is_blocking = level.max is not None and used + level.asked > level.max
    made.add(
        "quotas",
        row_key(level.queue, name),
        queue=level.queue,
        queue__href=context.links.queue(level.queue),
        resource=name,
        used=amount(name, level.used),
        reserved=amount(name, level.reserved) if level.reserved else NONE,
        asked=amount(name, level.asked),
        guaranteed=amount(name, level.guaranteed) if level.guaranteed is not None else NONE,
        max=amount(name, level.max) if level.max is not None else "no max",
        word="no room" if is_blocking else "",
    )


def _add_uses(made: View, context: Context, found: AskExplanation) -> None:
    """Whose usage of the quotas and limits it is that block the ask."""
    links = context.links
    for cause in [one.cause for one in found.waiting if isinstance(one.cause, RuleCause)]:
        for use in cause.uses:
            made.add(
                "uses",
                row_key(cause.queue, cause.resource, use.queue, use.application_id),
                name=use.queue or use.application_id,
                name__href=links.queue(use.queue) if use.queue else links.application(use.application_id),
                used=f"{cause.resource} {amount(cause.resource, use.amount)}"
                if cause.resource
                else many(use.amount, "application"),
            )
