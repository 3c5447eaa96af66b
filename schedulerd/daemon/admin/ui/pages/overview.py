"""The first page: what needs attention, what waits and why, and what each queue uses."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import nlargest
from itertools import islice

from schedulerd.amounts import resource
from schedulerd.core.explain.causes import RuleCause
from schedulerd.core.explain.rules.reasons import explain_queue
from schedulerd.core.explain.values import QueueExplanation
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.daemon.admin.ui.bars import sparkline
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.counts import Counts, full_of
from schedulerd.daemon.admin.ui.history import SAMPLE_SECONDS, SAMPLES_MAX
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.queue_rows import add_queue
from schedulerd.daemon.admin.ui.pages.queue_tree import Fold, Folds
from schedulerd.daemon.admin.ui.pages.reasons import add_reasons
from schedulerd.daemon.admin.ui.texts import clock_time, count, many, moment, row_key
from schedulerd.daemon.admin.ui.view import View
from schedulerd.sentences.words import duration

PARAMS = ("fold",)
QUEUES_SHOWN = 40
FULL_QUEUES_SHOWN = 3
"""Full queues that are named among what needs attention."""
BROKEN_FILES_SHOWN = 3
"""Queue files that cannot be used that are named among what needs attention."""
_QUEUES_SEEN = 100
_POINTS = 180
"""Points of a line of the history."""
_RECENT_NS = 600_000_000_000
_ENDED_SEEN = 200


def view(context: Context) -> Generator[None, None, View]:
    """The view."""
    made = View("Overview", "overview.html")
    counts = yield from add_head(made, context)
    place = context.place
    explanation = yield from explain_queue(place.rm, place.partition, place.partition.root, context.now.monotonic_ns)
    reasons = sorted(explanation.reasons, key=lambda one: -one.allocations)[:10]
    left_out = len(explanation.reasons) - len(reasons) + explanation.reasons_left_out
    add_reasons(made, context, reasons, left_out, unexplained=explanation.unexplained)
    made.begin("attention")
    for kind, word, text, href in _attention(context, counts, explanation):
        made.add("attention", row_key(word, href), word=word, word__class=f"badge {kind}", text=text, text__href=href)
    yield
    _add_history(made, context, counts)
    yield
    made.begin("queues")
    queues = list(_shown(context))
    for queue, depth, fold in queues:
        add_queue(made, context, queue, counts, [""], depth, fold)
        yield
    left = sum(1 for _ in place.partition.root.walk()) - len(queues)
    made.put(queues_left_out=f"{many(left, 'further queue')}" if left else "", nodes=many(counts.nodes, "node"))
    made.fixed["is_empty"] = not counts.applications and not counts.nodes
    return made


def _shown(context: Context) -> Iterator[tuple[Queue, int, Fold]]:
    """The first levels of the tree, as many as fit, in the order of the tree."""
    root = context.place.partition.root
    depth = 1
    levels = [[root], list(root.children.values())]
    while levels[-1] and sum(map(len, levels)) <= QUEUES_SHOWN:
        depth = len(levels) - 1
        levels.append([child for one in levels[-1][: QUEUES_SHOWN + 1] for child in one.children.values()])
    folds = Folds(context, lambda fold: context.links.to("", fold=fold))
    return islice(folds.walk(root, depth), QUEUES_SHOWN)


def _attention(context: Context, counts: Counts, found: QueueExplanation) -> Iterator[tuple[str, str, str, str]]:
    """What an operator should look at, the most serious first: class, word, sentence, link."""
    place, links = context.place, context.links
    if place.rm.state is not ResourceManagerState.RUNNING:
        text = f"Resource manager {place.rm.rm_id} is {place.rm.state.value}: nothing is placed for it"
        yield "bad", place.rm.state.value, text, links.to("events")
    for broken in context.sources.broken_files()[:BROKEN_FILES_SHOWN]:
        yield "bad", "queue file", _capital(broken.sentence(broken.problem)), links.queue("root")
    log = context.sources.queue_files.of(place.rm.rm_id)
    if log.refused_at_ns:
        at = moment(log.refused_at_ns, context.now.wall_ns)
        text = f"A queue file was refused at {at}, nothing changed: {log.refused_because[0]}"
        yield "bad", "refused", text, links.queue("root")
    if counts.too_large:
        text = f"{many(counts.too_large, 'allocation')} can never start: no node is large enough, even an empty one"
        yield "bad", "too large", text, links.application(counts.too_large_example)
    for one in found.reasons:
        if isinstance(one.cause, RuleCause) and not one.cause.fits_alone:
            text = f"{many(one.allocations, 'allocation')} can never start: more than {one.cause.queue} allows in all"
            yield "bad", "too large", text, links.application(one.application_id)
    if counts.node_states.get("not_ready"):
        text = f"{many(counts.node_states['not_ready'], 'node')} not ready"
        yield "bad", "not ready", text, links.to("nodes", state="not_ready")
    failed, rejected = _recently_ended(context)
    if failed:
        text = f"{many(failed, 'application')} failed in the last 10 minutes"
        yield "bad", "failed", text, links.to("applications", state="failed")
    if rejected:
        text = f"{many(rejected, 'application')} rejected in the last 10 minutes"
        yield "warn", "rejected", text, links.to("applications", state="rejected")
    yield from _full_queues(context, counts)
    if counts.node_states.get("draining"):
        text = f"{many(counts.node_states['draining'], 'node')} draining: pods finish there, none is added"
        yield "note", "draining", text, links.to("nodes", state="draining")
    if counts.waiting:
        text = f"{many(counts.waiting, 'allocation')} to be placed; the reasons are below"
        yield "note", "waiting", text, links.to("applications", pending="yes")


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _full_queues(context: Context, counts: Counts) -> Iterator[tuple[str, str, str, str]]:
    """Full queues in which something waits, that with most first; not those above them that are full of the same."""
    since = context.sources.history.full_since(context.place.partition)
    full = [
        (waiting, queue, names)
        for queue, waiting in nlargest(_QUEUES_SEEN, counts.waiting_by_queue.items(), key=lambda one: one[1])
        if waiting and (names := full_of(queue, counts.total))
    ]
    said = {(one.parent, name) for _, one, names in full for name in names}
    full = [one for one in full if any((one[1], name) not in said for name in one[2])]
    for waiting, queue, names in full[:FULL_QUEUES_SHOWN]:
        text = f"Queue {queue.written} is full ({', '.join(names[:2])}): {count(waiting)} waiting"
        at_ns = since.get(queue.path)
        text += f", since {moment(at_ns, context.now.wall_ns)}" if at_ns is not None else ""
        yield "warn", "full", text, context.links.queue(queue.written)
    if len(full) > FULL_QUEUES_SHOWN:
        left = many(len(full) - FULL_QUEUES_SHOWN, "further queue")
        yield "warn", "full", f"{left} full, with allocations that wait", context.links.to("queues")


def _recently_ended(context: Context) -> tuple[int, int]:
    """Failed and rejected applications of the last minutes, of those that ended last."""
    since_ns = context.now.monotonic_ns - _RECENT_NS
    failed = rejected = 0
    for one in islice(reversed(context.place.partition.terminated.values()), _ENDED_SEEN):
        if isinstance(one, RejectedApplication):
            rejected += one.submitted_at_ns >= since_ns
        elif one.state_log and one.state_log[-1][0] >= since_ns:
            failed += one.state is ApplicationState.FAILED
    return failed, rejected


def _minute(wall_ns: int) -> str:
    return clock_time(wall_ns)[:5]


def _add_history(made: View, context: Context, counts: Counts) -> None:
    samples = context.sources.history.of(context.place.partition)
    step = -(-len(samples) // _POINTS) or 1
    points = samples[::-1][::step][::-1]
    names = counts.resources[:2]
    length = duration(int(max(1, len(samples) - 1) * SAMPLE_SECONDS * 1e9))
    is_full = len(samples) >= SAMPLES_MAX
    made.put(history_length="Last 6 hours" if is_full else f"Last {length}" if len(samples) > 1 else "No history yet")
    top = max((one.waiting for one in points), default=0)
    made.put(
        waiting_line__d=sparkline([one.waiting for one in points], top),
        waiting_top=f"peak {count(top)}",
        has_history__class="charts" if len(points) > 1 else "charts none",
        history_from=_minute(points[0].at_ns) if points else "",
        history_middle=_minute(points[len(points) // 2].at_ns) if points else "",
        history_to=_minute(points[-1].at_ns) if points else "",
    )
    made.begin("lines")
    for at, name in enumerate(names):
        values = [one.shares[at] if at < len(one.shares) else 0 for one in points]
        made.add(
            "lines",
            row_key(name),
            name=resource(name),
            line__d=sparkline(values, 1_000),
            now=f"{values[-1] // 10} %" if values else "",
        )
