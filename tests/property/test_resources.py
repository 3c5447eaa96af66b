"""Invariants of Resources: a missing name is 0, whatever one does with it."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.resources import Resources

INT64_MAX = 2**63 - 1
NAMES = ("memory", "vcore", "gpu")

resources = st.dictionaries(st.sampled_from(NAMES), st.integers(-INT64_MAX, INT64_MAX) | st.integers(-2, 2)).map(
    Resources
)
requests = st.dictionaries(st.sampled_from(NAMES), st.integers(0, INT64_MAX) | st.integers(0, 2)).map(Resources)
counts = st.integers(0, 1_000)


@given(resources, resources)
def test_equal_means_equal_for_every_name(some: Resources, other: Resources) -> None:
    equal = all(some[name] == other[name] for name in NAMES)
    event("equal" if equal else "different")
    assert (some == other) is equal
    assert (some != other) is not equal
    assert (some.canonical() == other.canonical()) is equal


@given(resources)
def test_zeros_never_matter(some: Resources) -> None:
    padded = Resources(dict.fromkeys(NAMES, 0) | some)
    assert padded == some
    assert padded.canonical() == some.canonical()
    assert padded.nonzero() == some.nonzero()
    assert padded.is_zero() == some.is_zero() == (some == Resources())


@given(resources)
def test_the_canonical_items_say_everything(some: Resources) -> None:
    items = some.canonical()
    assert Resources(items) == some
    assert list(items) == sorted(items)
    assert all(amount for _, amount in items)


@given(resources, resources, resources)
def test_plus_is_commutative_and_associative_with_nothing_as_zero(a: Resources, b: Resources, c: Resources) -> None:
    assert a.plus(b) == b.plus(a)
    assert a.plus(b).plus(c) == a.plus(b.plus(c))
    assert a.plus(Resources()) == a


@given(resources, resources)
def test_minus_undoes_plus(some: Resources, other: Resources) -> None:
    assert some.plus(other).minus(other) == some
    assert some.minus(some).is_zero()


@given(resources, requests, counts)
def test_a_ledger_comes_back_to_where_it_was(start: Resources, request: Resources, count: int) -> None:
    ledger = Resources(start)
    ledger.add(request.canonical(), count)
    assert ledger == start.plus(request.times(count))
    ledger.subtract(request.canonical(), count)
    assert ledger == start


@given(st.lists(requests, max_size=8))
def test_a_ledger_that_gave_everything_back_remembers_no_name(parts: list[Resources]) -> None:
    ledger = Resources()
    for part in parts:
        ledger.add(part.canonical())
    for part in reversed(parts):
        ledger.subtract(part.canonical())
    assert dict(ledger) == {}


@given(resources, counts)
def test_times_is_repeated_addition(some: Resources, count: int) -> None:
    few = count % 7
    total = Resources()
    for _ in range(few):
        total = total.plus(some)
    assert some.times(few) == total


@given(resources, requests)
def test_lacks_names_a_resource_of_which_there_is_less(have: Resources, request: Resources) -> None:
    short = have.lacks(request.canonical())
    event("fits" if short is None else "lacks something")
    if short is None:
        assert all(have[name] >= amount for name, amount in request.items() if amount)
    else:
        assert have[short] < request[short]


@given(requests, requests)
def test_what_fits_still_fits_in_more(have: Resources, more: Resources) -> None:
    assert have.lacks(have.canonical()) is None
    assert have.plus(more).lacks(have.canonical()) is None


@given(resources, resources)
def test_values_are_never_changed_by_arithmetic(some: Resources, other: Resources) -> None:
    before = dict(some), dict(other)
    some.plus(other)
    some.minus(other)
    some.times(3)
    some.lacks(other.canonical())
    assert (dict(some), dict(other)) == before
