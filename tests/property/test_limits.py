"""Invariants of Limits: a missing name is unlimited, 0 is none."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.resources import Limits, Resources

INT64_MAX = 2**63 - 1
NAMES = ("memory", "vcore", "gpu")

amounts = st.integers(0, INT64_MAX) | st.integers(0, 3)
limits = st.dictionaries(st.sampled_from(NAMES), amounts).map(Limits)
usages = st.dictionaries(st.sampled_from(NAMES), amounts).map(Resources)


def within(limit: Limits, used: Resources, request: Resources) -> bool:
    """The rule, word for word: no type that is asked for goes over its limit."""
    return all(used[name] + amount <= limit[name] for name, amount in request.items() if amount and name in limit)


@given(limits, usages, usages)
def test_exceeded_by_is_the_rule(limit: Limits, used: Resources, request: Resources) -> None:
    over = limit.exceeded_by(used, request.canonical())
    event("within" if over is None else "over")
    assert (over is None) is within(limit, used, request)
    if over is not None:
        assert used[over] + request[over] > limit[over]


@given(usages, usages)
def test_no_limit_is_never_exceeded(used: Resources, request: Resources) -> None:
    assert Limits().exceeded_by(used, request.canonical()) is None


@given(usages)
def test_a_limit_of_none_refuses_whatever_asks(request: Resources) -> None:
    nothing = Limits(dict.fromkeys(NAMES, 0))
    assert (nothing.exceeded_by({}, request.canonical()) is None) is request.is_zero()


@given(limits, limits, usages, usages)
def test_the_tightest_of_two_refuses_what_either_refuses(
    one: Limits, other: Limits, used: Resources, request: Resources
) -> None:
    items = request.canonical()
    either = one.exceeded_by(used, items) is not None or other.exceeded_by(used, items) is not None
    event("refused" if either else "let through")
    assert (one.tightest(other).exceeded_by(used, items) is not None) is either


@given(limits, limits, limits)
def test_tightest_is_commutative_associative_and_idempotent(a: Limits, b: Limits, c: Limits) -> None:
    assert a.tightest(b) == b.tightest(a)
    assert a.tightest(b).tightest(c) == a.tightest(b.tightest(c))
    assert a.tightest(a) == a
    assert a.tightest(Limits()) == a


@given(limits, usages, usages)
def test_what_is_left_is_what_still_fits(limit: Limits, used: Resources, request: Resources) -> None:
    left = limit.left(used)
    items = request.canonical()
    assert set(left) == set(limit)
    assert left.exceeded_by({}, items) == limit.exceeded_by(used, items)


@given(limits, usages, usages)
def test_more_usage_never_lets_more_through(limit: Limits, used: Resources, more: Resources) -> None:
    request = (("memory", 1),)
    if limit.exceeded_by(used, request) is not None:
        event("over")
        assert limit.exceeded_by(used.plus(more), request) is not None


@given(limits, limits, usages)
def test_limits_are_never_changed_by_arithmetic(one: Limits, other: Limits, used: Resources) -> None:
    before = dict(one), dict(other), dict(used)
    one.tightest(other)
    one.left(used)
    one.exceeded_by(used, used.canonical())
    assert (dict(one), dict(other), dict(used)) == before
