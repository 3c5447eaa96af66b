"""One application: its state log, gang, what its asks wait for, what is ahead, where it runs, and its story."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from schedulerd.core.explain.rules.ask import explain_ask
from schedulerd.core.explain.rules.reasons import explain_application
from schedulerd.core.explain.values import ApplicationExplanation, Position, with_wall_times
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.checks import shown
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import TaskGroup
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.views.gang_members import members_of
from schedulerd.daemon.admin.api.finding import application_id
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.application_rows import STATE_KINDS
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.reasons import add_reasons
from schedulerd.daemon.admin.ui.pages.stories import Story, add_events
from schedulerd.daemon.admin.ui.slices import page_of
from schedulerd.daemon.admin.ui.texts import amounts, many, moment, row_key, visible
from schedulerd.daemon.admin.ui.view import View
from schedulerd.daemon.admin.ui.words import state_cause
from schedulerd.observe.event_record import Event
from schedulerd.observe.explain_sentences import application_summary, ask_details, ask_summary, pending_count
from schedulerd.sentences import gangs
from schedulerd.sentences.words import duration

PARAMS = ("id", "from")
STATES_SHOWN = 20
TASK_GROUPS_SHOWN = 8
CELLS_SHOWN = 200
ALLOCATIONS_SHOWN = 30
EVENTS_SHOWN = 30
_TAGS_SHOWN = 12


def view(context: Context) -> Generator[None, None, View]:
    """The view. Raises `HTTPException` if there is no such application."""
    name = yield from application_id(context.place, context.params.get("id", ""))
    partition = context.place.partition
    found = partition.applications.get(name) or partition.terminated_by_id.get(name)
    if found is None:
        raise HTTPException(404, f"application {shown(name)} is not there; it may have ended and been forgotten")
    made = View(f"Application {found.application_id}", "application.html")
    yield from add_head(made, context)
    if isinstance(found, RejectedApplication):
        _add_rejected(made, context, found)
    else:
        yield from _add_application(made, context, found)
    story = context.memo.setdefault("story", Story())

    def wants(one: Event) -> bool:
        record = one.record
        return one.partition == partition.name and name in (record.object_id, record.reference_id, record.group)

    if context.sources.feed.tracked:
        yield from story.read(context.sources.feed.ring, context.place.rm.rm_id, wants)
    add_events(made, context, story, EVENTS_SHOWN)
    made.fixed["all_events"] = context.links.to("events", object=name)
    return made


def _add_application(made: View, context: Context, one: Application) -> Generator[None, None, None]:
    place, now_ns = context.place, context.now.monotonic_ns
    explained = yield from explain_application(place.rm, place.partition, one, now_ns)
    used = one.allocated.plus(one.placeholder_allocated)
    made.put(
        state=one.state.value,
        state__class=f"badge {STATE_KINDS.get(one.state, '')}",
        summary=" ".join(application_summary(explained)[1:]),
        allocated=many(len(one.allocations) - one.held_slots, "allocation"),
        allocated_here=many(len(one.allocations) - one.held_slots, "allocation"),
        waiting_here=f"{pending_count(explained)} waiting",
        used=amounts(used.nonzero()) or "nothing",
    )
    _add_states(made, context, one)
    _add_gang(made, one)
    left_out, unexplained = explained.reasons_left_out, explained.unexplained
    add_reasons(made, context, explained.reasons, left_out, unexplained=unexplained, of_one=True)
    yield from _add_chain(made, context, one, explained)
    _add_ahead(made, context, explained.next_ask.position if explained.next_ask is not None else None)
    yield
    _add_allocations(made, context, one)
    made.fixed |= _fixed(context, one.spec.tags, one.spec.user, one.spec.groups, one.submitted_at_ns)
    made.fixed["facts"].insert(0, ("queue", visible(one.queue.written), context.links.queue(one.queue.written)))


def _add_allocations(made: View, context: Context, one: Application) -> None:
    """A page of its allocations, from the number `from` on."""
    links = context.links
    slice_ = page_of(context.params.get("from", ""), len(one.allocations), ALLOCATIONS_SHOWN)
    made.begin("allocations")
    for each in islice(list(one.allocations.values()), slice_.first, slice_.end):
        kind = "held for its gang" if each.spec.slot else "placeholder" if each.placeholder else "real"
        made.add(
            "allocations",
            row_key(each.uuid),
            name=pod_of(each.ask.spec.tags) or each.key,
            name__href=links.ask(one.application_id, each.key),
            node=each.node.node_id,
            node__href=links.node(each.node.node_id),
            resources=amounts(each.request_class.resources.nonzero()),
            kind=f"{kind}, being released" if each.releasing is not None else kind,
        )
    made.put(allocations_shown=slice_.said)
    made.fixed["allocations"] = slice_.links(
        lambda first: links.to("application", id=one.application_id, **{"from": first})
    )
    made.fixed["are_allocations_open"] = "from" in context.params


def _add_rejected(made: View, context: Context, one: RejectedApplication) -> None:
    made.put(
        state=one.state.value,
        state__class="badge bad",
        summary=f"It was rejected: {one.reason}",
        allocated="no allocations",
        allocated_here="No allocations",
        waiting_here="0 waiting",
        used="nothing",
        reasons_left_out="",
        allocations_shown="",
        states_left_out="",
        has_gang__class="none",
        gang_left_out="",
        ahead_left_out="",
        such_as="",
        such_as__href="/ui/",
        has_such_as__class="none",
    )
    for name in ("states", "groups", "cells", "reasons", "chain", "ahead", "allocations"):
        made.begin(name)
    made.fixed |= {"allocations": {"previous": "", "next": ""}, "are_allocations_open": False}
    made.fixed |= _fixed(context, one.spec.tags, one.spec.user, one.spec.groups, one.submitted_at_ns)
    made.fixed["facts"].insert(0, ("queue", visible(one.queue or one.spec.queue or "none"), ""))


def _fixed(context: Context, tags: Any, user: str, groups: tuple[str, ...], submitted_at_ns: int) -> dict[str, Any]:
    at_ns = context.now.epoch_ns + submitted_at_ns
    return {
        "facts": [
            ("user", visible(user), context.links.to("applications", user=user)),
            *([("groups", visible(", ".join(groups[:10])), "")] if groups else []),
            ("submitted", moment(at_ns, context.now.wall_ns), ""),
        ],
        "tags_left_out": max(0, len(tags) - _TAGS_SHOWN),
        "tags": [(visible(name), visible(text)) for name, text in islice(tags.items(), _TAGS_SHOWN)],
    }


def _add_states(made: View, context: Context, one: Application) -> None:
    log = list(one.state_log)
    made.begin("states")
    for at in range(max(0, len(log) - STATES_SHOWN), len(log)):
        at_ns, state, cause = log[at]
        is_last = at == len(log) - 1
        until_ns = context.now.monotonic_ns if is_last else log[at + 1][0]
        made.add(
            "states",
            row_key(at_ns, at, state.value),
            at=moment(context.now.epoch_ns + at_ns, context.now.wall_ns),
            state=state.value,
            state__class=f"badge {STATE_KINDS.get(state, '')}",
            cause=state_cause(log[at - 1][1] if at else None, state, cause),
            lasted=""
            if is_last and one.is_terminal
            else f"{'for' if not is_last else 'since'} {duration(until_ns - at_ns)}",
        )
    left = len(log) - STATES_SHOWN
    made.put(states_left_out=f"{left} earlier states" if left > 0 else "")


def _add_gang(made: View, one: Application) -> None:
    made.begin("groups")
    made.begin("cells")
    groups = _declared_groups(one) if one.declares_gang else _placeholder_groups(one)
    made.put(has_gang__class="" if groups else "none")
    shown_cells = 0
    for group in groups[:TASK_GROUPS_SHOWN]:
        said = ", ".join(f"{number} {word}" for word, number in group.states.items() if number)
        said = "; ".join(part for part in (said or "no members", group.wanted) if part)
        made.add("groups", row_key(group.name), name=group.name, said=said, size=group.size)
        for word, number in group.states.items():
            for member in range(min(number, CELLS_SHOWN - shown_cells)):
                made.add(
                    "cells",
                    row_key(group.name, word, member),
                    cell__class=f"c {word}",
                    cell__title=f"{group.name}: {word}",
                )
                shown_cells += 1
    cells = sum(sum(group.states.values()) for group in groups) - shown_cells
    left = len(groups) - TASK_GROUPS_SHOWN
    missing = [many(left, "further task group")] if left > 0 else []
    missing += [f"{many(cells, 'member')} without a cell"] if cells else []
    made.put(gang_left_out=f"and {', '.join(missing)}" if missing else "")


class _Group(NamedTuple):
    """A task group as it is shown."""

    name: str
    size: str
    """Of one member."""
    states: dict[str, int]
    """Members by what they are."""
    wanted: str = ""
    """How many it needs, and where."""


def _placeholder_groups(one: Application) -> list[_Group]:
    groups = one.gang.task_groups.values() if one.gang is not None else ()
    return [_Group(group.name, amounts(group.placeholder_resources.nonzero()), _members(group)) for group in groups]


def _declared_groups(one: Application) -> list[_Group]:
    assert one.gang is not None
    found = []
    for group in members_of(one):
        declared, known = one.gang.declared[group.name], one.gang.task_groups.get(group.name)
        resources = declared.resources or (known.placeholder_resources if known is not None else Resources())
        waiting = max(group.min - group.held - group.allocated, group.asked - group.held, 0)
        states = {"running": group.allocated, "held": group.held, "waiting": waiting}
        wanted = gangs.wanted(group.min, group.max, group.level, group.domain, required=group.required)
        found.append(_Group(group.name, amounts(resources.nonzero()) or "any size", states, wanted))
    return found


def _members(group: TaskGroup) -> dict[str, int]:
    """Members of the task group by what they are."""
    lost = group.timed_out + group.unused + group.preempted
    replacing, replaced = group.awaiting_placeholder, group.replaced
    gone = lost + replaced + group.idle + replacing
    return {
        "running": replaced,
        "replacing": replacing,
        "placeholder": group.idle,
        "waiting": max(0, group.wanted - gone),
        "lost": lost,
    }


def _add_chain(
    made: View, context: Context, one: Application, explained: ApplicationExplanation
) -> Generator[None, None, None]:
    """Everything that is known about an ask of the first reason; the others are a link away."""
    made.begin("chain")
    place = context.place
    reason = explained.reasons[0] if explained.reasons else None
    ask = one.asks.get(reason.allocation_key) if reason is not None else None
    if ask is None:
        made.put(such_as="", such_as__href="/ui/", has_such_as__class="none")
        return
    name = pod_of(ask.spec.tags) or ask.key
    made.put(such_as=name, such_as__href=context.links.ask(one.application_id, ask.key), has_such_as__class="such-as")
    found = yield from explain_ask(place.rm, place.partition, one, ask, context.now.monotonic_ns)
    told = with_wall_times(found, context.now.epoch_ns)
    summary = ask_summary(told)
    for at, sentence in enumerate([*summary, *ask_details(told, is_listed=True)]):
        made.add("chain", row_key(at), step=sentence, step__class="first" if at < len(summary) else "")


def _add_ahead(made: View, context: Context, position: Position | None) -> None:
    made.begin("ahead")
    named = position.first_ahead if position is not None else []
    for name in named:
        made.add("ahead", row_key(name), name=name, name__href=context.links.application(name))
    left = position.applications_ahead - len(named) if position is not None else 0
    made.put(ahead_left_out=f"and {left:,} more" if left else "")
