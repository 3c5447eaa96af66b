"""The least harmful set of victims: rank by rank, by weight, then fewer, then younger, within what queues can spare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.resources import Resources
from schedulerd.core.preemption.rules import victims
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.preemption.rules.victims import (
    Candidate,
    Rank,
    VictimSet,
    cheapest_part,
    rank_of,
    smallest_set,
)
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.pending.request_class import RequestClasses
from tests.unit.core.builders import a_conversation, a_model_node, an_ask

UNIT = {"memory": 10, "vcore": 1}
ORDINARY: Rank = (0, 0)


def app() -> Application:
    return a_conversation().model().applications["app"]


def allocations(*amounts: Mapping[str, int]) -> list[Allocation]:
    """One of each size, called after its number."""
    node, application = a_model_node("n1", {}), app()
    classes = RequestClasses()
    made = []
    for number, one in enumerate(amounts):
        spec = an_ask(f"{number}", resources=Resources(one))
        request_class = classes.of(spec.resources)
        made.append(
            Allocation(f"{number}", application, Ask(spec, request_class, number, 0), node, spec, request_class)
        )
    return made


def candidates(
    *amounts: Mapping[str, int] | int,
    ranks: Sequence[Rank] = (),
    budgets: Sequence[tuple[Budget, ...]] = (),
) -> list[Candidate]:
    """The youngest first; a number is that much memory. All are ordinary, and nothing limits them unless told so."""
    made = allocations(*({"memory": one} if isinstance(one, int) else one for one in amounts))
    return [
        Candidate(
            one,
            ranks[at] if ranks else ORDINARY,
            sum(amount * UNIT[name] for name, amount in one.request_class.items),
            budgets[at] if budgets else (),
        )
        for at, one in enumerate(made)
    ]


def chosen(found: VictimSet | None) -> set[str] | None:
    return None if found is None else {one.uuid for one in found.victims}


def best(given: Sequence[Candidate], memory: int = 0, **need: int) -> set[str] | None:
    return chosen(smallest_set(given, {"memory": memory, **need} if memory else need, UNIT))


# what is best


def test_no_more_than_needed() -> None:
    assert best(candidates(5, 7, 10, 20), 12) == {"0", "1"}


def test_of_equal_weight_fewer() -> None:
    assert best(candidates(5, 5, 10), 10) == {"2"}


def test_of_equal_number_the_younger() -> None:
    assert best(candidates(10, 10, 10), 20) == {"0", "1"}


def test_one_small_one_before_a_larger_one_that_is_younger() -> None:
    assert best(candidates(30, 10), 5) == {"1"}


def test_a_large_one_that_comes_first_does_not_stop_the_search() -> None:
    assert best(candidates(100, 10, 10), 20) == {"1", "2"}


def test_the_most_protected_rank_counts_first_whatever_it_spares_of_the_others() -> None:
    low, high = (0, 0), (0, 1)
    assert best(candidates(1, 50, 50, ranks=[high, low, low]), 100) == {"1", "2"}
    assert best(candidates(1, 50, 50, ranks=[high, low, low]), 101) == {"0", "1", "2"}


def test_what_is_needed_of_the_protected_rank_is_as_little_as_possible() -> None:
    low, high = (0, 0), (1, 0)
    assert best(candidates(10, 3, 8, ranks=[high, high, low]), 11) == {"1", "2"}


def test_originators_after_those_that_want_to_be_spared_after_all_others_whatever_their_priority() -> None:
    ranks = [(2, -100), (1, -50), (0, 1000)]
    assert best(candidates(10, 10, 10, ranks=ranks), 10) == {"2"}
    assert best(candidates(10, 10, 10, ranks=ranks), 20) == {"1", "2"}


@pytest.mark.parametrize(
    ("fields", "rank"),
    [
        ({"priority": 3}, (0, 3)),
        ({"allow_preempt_self": False, "priority": -3}, (1, -3)),
        ({"originator": True}, (2, 0)),
        ({"originator": True, "allow_preempt_self": False}, (2, 0)),
    ],
)
def test_ranks(fields: dict[str, Any], rank: Rank) -> None:
    [one] = allocations({"memory": 1})
    one.spec = an_ask(**fields)
    assert rank_of(one) == rank


def test_an_allocation_that_frees_nothing_that_is_needed_stays() -> None:
    assert best(candidates({"vcore": 5}, {"memory": 5}), 5) == {"1"}
    assert best(candidates({"vcore": 5}), 5) is None


def test_several_resources_are_freed_together() -> None:
    given = candidates({"memory": 10}, {"vcore": 10}, {"memory": 10, "vcore": 9}, {"memory": 9, "vcore": 12})
    assert best(given, memory=10, vcore=10) == {"0", "1"}
    assert best(given[2:], memory=10, vcore=10) == {"2", "3"}


def test_nothing_is_needed() -> None:
    assert smallest_set(candidates(5), {}, UNIT) == VictimSet((), ())


def test_there_is_not_enough() -> None:
    assert best(candidates(5, 5), 11) is None
    assert best([], 1) is None


def test_the_set_comes_with_its_cost_and_the_least_protected_first() -> None:
    low, high = (0, 0), (2, 0)
    found = smallest_set(candidates(5, 7, 2, ranks=[high, low, low]), {"memory": 14}, UNIT)
    assert found is not None
    assert found.cost == ((high, 50), (low, 90))
    assert [one.uuid for one in found.victims][-1] == "0"
    assert found.order() == (found.cost, 3)


# what queues can spare


def test_no_queue_gives_more_than_it_can_spare() -> None:
    tight, wide = Budget({"memory": 9}), Budget({"memory": 20})
    given = candidates(5, 5, 5, 5, budgets=[(tight,), (tight,), (wide,), (wide,)])
    assert best(given, 10) == {"0", "2"}
    assert best(given, 15) == {"0", "2", "3"}
    assert best(given, 20) is None


def test_a_budget_is_shared_by_all_below_its_queue() -> None:
    parent = Budget({"memory": 10})
    given = candidates(6, 4, 4, budgets=[(parent, Budget({"memory": 6})), (parent, Budget({"memory": 8})), ()])
    assert best(given, 10) == {"0", "1"}
    assert best(given, 14) == {"0", "1", "2"}


def test_a_resource_that_is_not_needed_counts_only_for_what_could_be_asked_back() -> None:
    given = candidates({"memory": 10, "vcore": 2}, budgets=[(Budget({"memory": 100, "vcore": 1}),)])
    assert best(given, 10) == {"0"}
    given = candidates({"memory": 10, "vcore": 2}, budgets=[(Budget({"vcore": 0}),)])
    assert best(given, 10) is None


def test_victims_that_could_be_asked_back_together_are_none() -> None:
    given = candidates(*[{"memory": 10, "vcore": 2}] * 3, {"memory": 10}, budgets=[(Budget({"vcore": 1}),)] * 4)
    assert best(given[:3], 10) == {"0"}
    assert best(given, 20) == {"0", "3"}
    assert best(given, 30) is None


def test_the_resource_that_protects_is_named() -> None:
    budget, short = Budget({"memory": 3, "vcore": -1}), ("memory",)
    assert budget.protects((("memory", 3),), short) is None
    assert budget.protects((("memory", 4),), short) == "memory"
    assert budget.protects((("memory", 3), ("vcore", 1)), short) is None
    assert budget.protects((("gpu", 3), ("vcore", 1)), short) == "vcore"
    assert budget.protects((("gpu", 3),), short) is None


def test_a_resource_that_is_not_guaranteed_is_not_limited() -> None:
    assert best(candidates({"memory": 10, "vcore": 2}, budgets=[(Budget({"vcore": 2}),)]), 10) == {"0"}


def test_a_queue_below_its_guarantee_gives_nothing() -> None:
    assert best(candidates(1, budgets=[(Budget({"memory": -5}),)]), 1) is None
    assert Budget({"memory": -5}).times((("memory", 1),), ("memory",)) == 0


def test_budgets_are_as_before_when_it_is_done() -> None:
    budget = Budget({"memory": 9})
    best(candidates(5, 3, 2, budgets=[(budget,)] * 3), 8)
    assert budget.left == {"memory": 9}


# where it would take too long


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no exact search."""
    monkeypatch.setattr(victims, "KINDS_MAX", 0)


@pytest.mark.usefixtures("hurried")
def test_it_takes_the_least_protected_first_and_spares_what_turns_out_to_be_needless() -> None:
    low, high = (0, 0), (0, 1)
    assert best(candidates(10, 4, 3, ranks=[high, low, low]), 7) == {"1", "2"}
    assert best(candidates(10, 4, 3, ranks=[high, low, low]), 10) == {"0"}


@pytest.mark.usefixtures("hurried")
def test_it_says_the_least_protected_first_as_well() -> None:
    low, high = (0, 0), (0, 1)
    found = smallest_set(candidates(10, 4, ranks=[high, low]), {"memory": 14}, UNIT)
    assert found is not None
    assert [one.uuid for one in found.victims] == ["1", "0"]
    assert found.cost == ((high, 100), (low, 40))


@pytest.mark.usefixtures("hurried")
def test_it_stays_within_the_budgets_too() -> None:
    budget = Budget({"memory": 9})
    assert best(candidates(5, 5, 5, budgets=[(budget,), (budget,), ()]), 10) == {"0", "2"}
    assert best(candidates(5, 5, budgets=[(budget,), (budget,)]), 10) is None
    assert budget.left == {"memory": 9}


def test_many_different_ones_do_not_go_too_deep() -> None:
    budget = WorkBudget()
    found = smallest_set(candidates(*range(1, 3_001)), {"memory": 100_000}, UNIT, budget)
    assert found is not None
    assert sum(one.request_class.resources["memory"] for one in found.victims) >= 100_000
    assert budget.visits <= victims.STEPS_MAX


def test_it_stops_at_its_bound_with_a_set_that_is_enough() -> None:
    budget = WorkBudget()
    amounts = [{"memory": 97 + 3 * number, "vcore": 200 - number} for number in range(60)]
    found = smallest_set(candidates(*amounts), {"memory": 4_000, "vcore": 4_000}, UNIT, budget)
    assert found is not None
    for name in ("memory", "vcore"):
        assert sum(one.request_class.resources[name] for one in found.victims) >= 4_000
    assert 0 < budget.visits <= 2 * victims.STEPS_MAX


def test_a_part_is_better_than_nothing_where_that_is_asked_for() -> None:
    budget = Budget({"memory": 9})
    given = candidates(5, 4, 2, budgets=[(budget,)] * 3)
    assert {one.uuid for one in cheapest_part(given, {"memory": 6}, UNIT, WorkBudget())} == {"1", "2"}
    part = cheapest_part(given, {"memory": 30}, UNIT, WorkBudget())
    assert sum(one.request_class.resources["memory"] for one in part) in range(6, 10)
    assert cheapest_part([], {"memory": 1}, UNIT, WorkBudget()) == ()


# against all sets


def sets(given: Sequence[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    for size in range(len(given) + 1):
        yield from combinations(given, size)


def is_enough(taken: Sequence[Candidate], need: Mapping[str, int]) -> bool:
    return all(
        sum(one.allocation.request_class.resources[name] for one in taken) >= amount for name, amount in need.items()
    )


def is_spared(taken: Sequence[Candidate], need: Mapping[str, int]) -> bool:
    """Whether each queue keeps its guarantee of what is needed, and none of them could be asked back."""
    for budget in {budget for one in taken for budget in one.budgets}:
        below = [one.allocation.request_class.resources for one in taken if budget in one.budgets]
        rest = {name: left - sum(one[name] for one in below) for name, left in budget.left.items()}
        for one in below:
            named = [name for name in budget.left if one[name]]
            if any(rest[name] < 0 for name in named if name in need):
                return False
            if named and all(rest[name] + one[name] <= 0 for name in named):
                return False
    return True


def order(taken: Sequence[Candidate], given: Sequence[Candidate]) -> tuple[object, ...]:
    ranks = sorted({one.rank for one in taken}, reverse=True)
    cost = [(rank, sum(one.weight for one in taken if one.rank == rank)) for rank in ranks]
    return cost, len(taken), sorted((given.index(one) for one in taken), reverse=True)


sizes = st.tuples(st.integers(0, 4), st.integers(0, 3)).filter(any)


@given(
    st.lists(st.tuples(sizes, st.integers(0, 2), st.integers(0, 3)), max_size=8),
    st.lists(st.integers(-1, 8), min_size=3, max_size=3),
    sizes,
)
def test_it_is_the_best_of_all_sets(
    plan: list[tuple[tuple[int, int], int, int]], left: list[int], need: tuple[int, int]
) -> None:
    parent = Budget({"memory": left[0]})
    leaves = [Budget({"memory": left[1]}), Budget({"vcore": left[2]})]
    choices: list[tuple[Budget, ...]] = [(), (leaves[0], parent), (leaves[1], parent), (leaves[1],)]
    given = candidates(
        *({"memory": memory, "vcore": vcore} for (memory, vcore), _, _ in plan),
        ranks=[(0, rank) for _, rank, _ in plan],
        budgets=[choices[which] for _, _, which in plan],
    )
    wanted = {name: amount for name, amount in zip(("memory", "vcore"), need, strict=True) if amount}
    legal = [taken for taken in sets(given) if is_enough(taken, wanted) and is_spared(taken, wanted)]
    found = smallest_set(given, wanted, UNIT)
    event("there is none" if found is None else f"{len(found.victims)} victims")
    if found is None:
        assert legal == []
        return
    taken = [one for one in given if one.allocation in found.victims]
    assert order(taken, given) == min(order(one, given) for one in legal)
