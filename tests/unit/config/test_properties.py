from __future__ import annotations

import pytest

from schedulerd.config import load_queue_file
from schedulerd.config.properties import CHECKS
from tests.unit.config.build import a_partition, a_text, load_queue, problems_with

GOOD = {
    "application.sort.policy": ["fifo", "fair", "stateaware", "FAIR"],
    "application.sort.priority": ["enabled", "disabled"],
    "priority.policy": ["default", "fence"],
    "priority.offset": ["0", "-2147483648", "2147483647", "+5"],
    "preemption.policy": ["default", "fence", "disabled", "Fence"],
    "preemption.delay": ["1ns", "30s", "1h30m"],
    "quota.preemption.delay": ["0", "0s", "5m"],
    "application.unschedasks.backoff": ["0", "18446744073709551615"],
    "application.unschedasks.backoff.delay": ["30s"],
}
BAD = {
    "application.sort.policy": (["lifo", "fif o"], "must be one of fifo, fair, stateaware"),
    "application.sort.priority": (["true"], "must be one of enabled, disabled"),
    "priority.policy": (["none"], "must be one of default, fence"),
    "priority.offset": (["high", "2147483648", "-2147483649", "1.5", "1_0"], "must be a whole number from -2147483648"),
    "preemption.policy": (["off"], "must be one of default, fence, disabled"),
    "preemption.delay": (["0s", "-1s"], "must be a duration of more than 0"),
    "quota.preemption.delay": (["-1s"], "must be a duration of 0 or more"),
    "application.unschedasks.backoff": (["-1", "18446744073709551616"], "must be a whole number from 0"),
    "application.unschedasks.backoff.delay": (["soon", "30"], "not a duration"),
}


def test_every_known_property_is_tried_both_ways() -> None:
    assert set(GOOD) == set(BAD) == set(CHECKS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_values_that_are_good(name: str, value: str) -> None:
    assert load_queue(properties={name: value}).name == "a"
    assert load_queue(parent=True, childtemplate={"properties": {name: value}}).name == "a"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, message) for name, (values, message) in BAD.items() for value in values],
)
def test_values_that_are_not(name: str, value: str, message: str) -> None:
    for key in ("properties", "childtemplate"):
        properties = {name: value} if key == "properties" else {"properties": {name: value}}
        ((path, found),) = problems_with({"name": "a", key: properties})
        assert path.endswith(f"properties.{name}")
        assert found.startswith(message)


@pytest.mark.parametrize("name", sorted(set(CHECKS) - {"application.sort.policy"}))
def test_what_has_no_effect_yet_is_told(name: str) -> None:
    text = a_text(a_partition({"name": "a", "properties": {name: GOOD[name][0]}}))
    (warning,) = load_queue_file(text).warnings
    assert warning.path.endswith(f"properties.{name}")
    assert warning.message == "read, but not enforced by this version"


def test_what_has_effect_is_not_told() -> None:
    assert (
        load_queue_file(a_text(a_partition({"name": "a", "properties": {"application.sort.policy": "fair"}}))).warnings
        == ()
    )
