"""The slow references of preemption are shown to bite: one rule after the other is broken, and they find it.

The invariants, which a conversation checks after every step, are switched off for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedulerd.core.decide import preemption, preemption_context, victims
from schedulerd.core.decide.preemption import Search, shortage
from schedulerd.core.decide.preemption_context import PreemptionContext, VictimQueue, in_use
from schedulerd.core.decide.victims import Budget, Candidate
from schedulerd.core.handlers import preemption as handler
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.node import Node
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.retry_timers import Refused
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import PreemptionPolicy
from tests.property.full_cluster import plans
from tests.property.full_scenes import scenes
from tests.property.test_preemption import check_decisions
from tests.property.test_victims import check_best, choices
from tests.unit.core import builders

pytestmark = pytest.mark.interpreted

MAY_END, NEW_SIDE = PreemptionContext.may_end, PreemptionContext._new_side
SMALLEST_SET = victims.smallest_set
FENCED, EXEMPT = PreemptionPolicy.FENCE, PreemptionPolicy.DISABLED


def those_that_leave_too(
    one: PreemptionContext, allocations: Iterable[Allocation], short: Resources
) -> Iterator[Candidate]:
    for allocation in list(allocations):
        releasing, allocation.releasing = allocation.releasing, None
        yield from MAY_END(one, [allocation], short)
        allocation.releasing = releasing


def guarantee_of_the_leaf(one: PreemptionContext, leaf: Queue) -> VictimQueue | None:
    side = NEW_SIDE(one, leaf)
    return side and replace(side, budgets=tuple(budget for budget in side.budgets if budget is one._budgets.get(leaf)))


def rights_however_much_is_used(one: PreemptionContext, level: int) -> frozenset[str]:
    return frozenset(
        name
        for name, _ in one.ask.request_class.items
        if any(q.guaranteed[name] for q in one.queue.path_to_root[:level])
    )


def rights_by_any_guarantee(one: PreemptionContext, level: int) -> frozenset[str]:
    """As if it were enough that one of the queues stays within its own."""
    way = one.queue.path_to_root[:level]
    items = one.ask.request_class.items
    return frozenset(name for name, n in items for q in way if in_use(q)[name] + n <= q.guaranteed[name])


def the_oldest_first(candidates: Iterable[Candidate], *others: Any) -> Any:
    return SMALLEST_SET(list(candidates)[::-1], *others)


def whatever_comes_after_the_first(search: victims._Search, at: int, *_: Any) -> bool:
    return search.best is not None or at == len(search.kinds)


def without_what_leaves(items: Items, node: Node, kept: Resources) -> Resources:
    room = node.available.minus(kept)
    return Resources({name: amount - room[name] for name, amount in items if amount > room[name]})


EXAMPLES_MAX = 1_500
"""Of stories most breaks take less than a hundred; which examples are drawn depends on what else is imported."""
STORY_BREAKS: dict[str, tuple[object, str, Any]] = {
    "fences are open": (preemption_context, "PreemptionPolicy", SimpleNamespace(FENCE=None, DISABLED=EXEMPT)),
    "the exempt end": (preemption_context, "PreemptionPolicy", SimpleNamespace(FENCE=FENCED, DISABLED=None)),
    "the exempt end on an only node": (preemption, "PreemptionPolicy", SimpleNamespace(DISABLED=None)),
    "a claim is no use": (preemption_context, "in_use", lambda queue: queue.allocated.minus(queue.leaving)),
    "who leaves counts": (preemption_context, "in_use", lambda queue: queue.allocated.plus(queue.quota_reserved)),
    "a guarantee has no end": (PreemptionContext, "_rights", rights_however_much_is_used),
    "one guarantee is as good as all": (PreemptionContext, "_rights", rights_by_any_guarantee),
    "a max is no reason": (PreemptionContext, "_short_of_quota", lambda _: (Resources(), None)),
    "guarantees protect nobody": (Budget, "times", lambda *_: None),
    "guarantees of parents protect nobody": (PreemptionContext, "_new_side", guarantee_of_the_leaf),
    "priorities do not matter": (VictimQueue, "admits", lambda *_: True),
    "offsets of victims do not matter": (VictimQueue, "admits", lambda side, priority: priority <= side.priority),
    "offsets of asks do not matter": (
        PreemptionContext,
        "_priorities_at_levels",
        lambda one: [one.ask.spec.priority] * 9,
    ),
    "nobody is protected more": (victims, "rank_of", lambda _: (0, 0)),
    "sizes do not matter": (preemption_context, "unit_weights", lambda total: dict.fromkeys(total, 0)),
    "the first node will do": (Search, "_beats", lambda search, *_: search._found is not None),
    "the oldest end": (preemption, "smallest_set", the_oldest_first),
    "who leaves is asked again": (PreemptionContext, "may_end", those_that_leave_too),
    "who leaves makes no room": (preemption, "shortage", without_what_leaves),
    "what others claim is free": (preemption, "shortage", lambda items, node, _: shortage(items, node, Resources())),
    "nobody rests after a refusal": (handler, "Refused", lambda priority, at, _, why: Refused(priority, at, 0, why)),
}
SET_BREAKS: dict[str, tuple[object, str, Any]] = {
    "guarantees protect nobody": (Budget, "times", lambda *_: None),
    "guarantees are not used up": (Budget, "take", lambda *_: None),
    "the first set will do": (victims._Search, "_is_hopeless", whatever_comes_after_the_first),
    "one of a kind is enough": (victims._Kind, "most", lambda _: 1),
    "cost does not add up": (victims, "_more", lambda cost, rank, weight: (*cost[:-1], (rank, weight))),
}


def finds(check: Callable[..., object], *strategies: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=EXAMPLES_MAX, phases=[Phase.generate], report_multiple_bugs=False)
    @given(st.tuples(*strategies))
    def seek(drawn: tuple[Any, ...]) -> None:
        check(*drawn)

    with pytest.raises(AssertionError):
        seek()


@pytest.mark.parametrize(("owner", "name", "broken"), STORY_BREAKS.values(), ids=STORY_BREAKS.keys())
def test_a_story_finds_it(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builders, "violations", lambda _: [])
    monkeypatch.setattr(owner, name, broken)
    finds(check_decisions, scenes, plans)


@pytest.mark.parametrize(("owner", "name", "broken"), SET_BREAKS.values(), ids=SET_BREAKS.keys())
def test_a_choice_finds_it(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    finds(check_best, choices)
