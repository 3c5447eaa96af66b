from __future__ import annotations

from dataclasses import fields, replace

from schedulerd.config import load_queue_file
from schedulerd.config.properties import PROPERTIES
from schedulerd.core.language.specs import (
    MINUTE_NS,
    SECOND_NS,
    ApplicationOrder,
    OnBelowMin,
    PreemptionPolicy,
    PriorityPolicy,
    QueueOrder,
    QueueProperties,
    WithinQueue,
)
from tests.loops import each_row
from tests.unit.config.build import a_partition, a_text, load_queue, problems_with

GOOD = {
    "application.sort.policy": ["fifo", "fair", "stateaware", "drf", "FAIR"],
    "queue.sort.policy": ["fair", "drf", "Fair"],
    "application.sort.priority": ["enabled", "disabled"],
    "priority.policy": ["default", "fence"],
    "priority.offset": ["0", "-2147483648", "2147483647", "+5"],
    "preemption.policy": ["default", "fence", "disabled", "Fence"],
    "preemption.delay": ["1ns", "30s", "1h30m"],
    "quota.preemption.delay": ["0", "0s", "5m"],
    "gang.placeholder.idle.timeout": ["0", "15m"],
    "preemption.within-queue": ["off", "priority", "Priority"],
    "stateaware.timeout": ["1ms", "30s"],
    "gang.on-below-min": ["continue", "fail"],
    "gang.below-min.timeout": ["0", "1h"],
    "application.unschedasks.backoff": ["0", "18446744073709551615"],
    "application.unschedasks.backoff.delay": ["30s"],
}
BAD = {
    "application.sort.policy": (["lifo", "fif o"], "must be one of fifo, fair, stateaware, drf"),
    "queue.sort.policy": (["fifo", "stateaware"], "must be one of fair, drf"),
    "application.sort.priority": (["true"], "must be one of enabled, disabled"),
    "priority.policy": (["none"], "must be one of default, fence"),
    "priority.offset": (["high", "2147483648", "-2147483649", "1.5", "1_0"], "must be a whole number from -2147483648"),
    "preemption.policy": (["off"], "must be one of default, fence, disabled"),
    "preemption.delay": (["0s", "-1s"], "must be a duration of more than 0"),
    "quota.preemption.delay": (["-1s"], "must be a duration of 0 or more"),
    "preemption.within-queue": (["on", "true", ""], "must be one of off, priority"),
    "gang.placeholder.idle.timeout": (["-1s"], "must be a duration of 0 or more"),
    "stateaware.timeout": (["0", "-1s"], "must be a duration of more than 0"),
    "gang.on-below-min": (["kill", ""], "must be one of continue, fail"),
    "gang.below-min.timeout": (["-1s"], "must be a duration of 0 or more"),
    "application.unschedasks.backoff": (["-1", "18446744073709551616"], "must be a whole number from 0"),
    "application.unschedasks.backoff.delay": (["soon", "30"], "not a duration"),
}


def test_every_known_property_is_tried_both_ways() -> None:
    assert set(GOOD) == set(BAD) == set(PROPERTIES)


@each_row(("name", "value"), [(name, value) for name, values in GOOD.items() for value in values])
def test_values_that_are_good(name: str, value: str) -> None:
    assert load_queue(properties={name: value}).name == "a"
    assert load_queue(parent=True, childtemplate={"properties": {name: value}}).name == "a"


@each_row(
    ("name", "value", "message"),
    [(name, value, message) for name, (values, message) in BAD.items() for value in values],
)
def test_values_that_are_not(name: str, value: str, message: str) -> None:
    for key in ("properties", "childtemplate"):
        properties = {name: value} if key == "properties" else {"properties": {name: value}}
        ((path, found),) = problems_with({"name": "a", key: properties})
        assert path.endswith(f"properties.{name}")
        assert found.startswith(message)


ENFORCED = sorted(name for name, item in PROPERTIES.items() if item.field)


@each_row("key", ["properties", "childtemplate"])
@each_row("name", sorted(PROPERTIES))
def test_exactly_what_has_no_effect_yet_is_told(name: str, key: str) -> None:
    properties = {name: GOOD[name][-1]}
    queue = {"name": "a", "parent": True, key: properties if key == "properties" else {"properties": properties}}
    told = [(problem.path, problem.message) for problem in load_queue_file(a_text(a_partition(queue))).warnings]
    place = "properties" if key == "properties" else "childtemplate.properties"
    unenforced = (f"partitions[0].queues[0].queues[0].{place}.{name}", "read, but not enforced by this version")
    assert told == ([] if name in ENFORCED else [unenforced])


def test_the_core_knows_each_property_that_is_enforced() -> None:
    assert {PROPERTIES[name].field for name in ENFORCED} == {field.name for field in fields(QueueProperties)}


@each_row("name", ENFORCED)
def test_the_default_is_that_of_the_core(name: str) -> None:
    item = PROPERTIES[name]
    assert load_queue(properties={name: item.default}).properties == QueueProperties()
    assert getattr(QueueProperties(), item.field) == item.parse(item.default)


EVERYTHING = {
    "application.sort.policy": "StateAware",
    "queue.sort.policy": "drf",
    "application.sort.priority": "disabled",
    "priority.policy": "Fence",
    "priority.offset": "-7",
    "preemption.policy": "Fence",
    "preemption.delay": "5s",
    "quota.preemption.delay": "2m",
    "gang.placeholder.idle.timeout": "3m",
    "preemption.within-queue": "priority",
    "stateaware.timeout": "4m",
    "gang.on-below-min": "fail",
    "gang.below-min.timeout": "6m",
}
HANDED_DOWN = QueueProperties(
    application_order=ApplicationOrder.STATE_AWARE,
    queue_order=QueueOrder.DRF,
    priority_sort=False,
    preemption_delay_ns=5 * SECOND_NS,
    quota_preemption_delay_ns=2 * MINUTE_NS,
    gang_placeholder_idle_timeout_ns=3 * MINUTE_NS,
    preemption_within_queue=WithinQueue.PRIORITY,
    stateaware_timeout_ns=4 * MINUTE_NS,
    gang_on_below_min=OnBelowMin.FAIL,
    gang_below_min_timeout_ns=6 * MINUTE_NS,
)


def test_what_is_written_holds() -> None:
    assert load_queue(properties=EVERYTHING).properties == QueueProperties(
        application_order=ApplicationOrder.STATE_AWARE,
        queue_order=QueueOrder.DRF,
        priority_sort=False,
        priority_policy=PriorityPolicy.FENCE,
        priority_offset=-7,
        preemption_policy=PreemptionPolicy.FENCE,
        preemption_delay_ns=5 * SECOND_NS,
        quota_preemption_delay_ns=2 * MINUTE_NS,
        gang_placeholder_idle_timeout_ns=3 * MINUTE_NS,
        preemption_within_queue=WithinQueue.PRIORITY,
        stateaware_timeout_ns=4 * MINUTE_NS,
        gang_on_below_min=OnBelowMin.FAIL,
        gang_below_min_timeout_ns=6 * MINUTE_NS,
    )


def test_a_child_takes_over_order_and_delays_but_neither_fences_nor_offset() -> None:
    middle = {"name": "middle", "queues": [{"name": "leaf"}]}
    parent = load_queue(properties=EVERYTHING, queues=[middle])
    (child,) = parent.children
    assert child.properties == child.children[0].properties == HANDED_DOWN


def test_a_child_with_a_value_of_its_own_keeps_the_rest_of_what_it_takes_over() -> None:
    parent = load_queue(
        properties=EVERYTHING,
        queues=[{"name": "leaf", "properties": {"application.sort.policy": "fair", "priority.offset": "2"}}],
    )
    assert parent.children[0].properties == replace(
        HANDED_DOWN, application_order=ApplicationOrder.FAIR, priority_offset=2
    )


def test_what_is_never_a_victim_stays_so_below_until_a_queue_says_otherwise() -> None:
    parent = load_queue(
        properties={"preemption.policy": "disabled"},
        queues=[
            {"name": "silent", "queues": [{"name": "leaf"}]},
            {"name": "default", "properties": {"preemption.policy": "default"}, "queues": [{"name": "leaf"}]},
            {"name": "fence", "properties": {"preemption.policy": "fence"}, "queues": [{"name": "leaf"}]},
        ],
    )
    policies = {
        child.name: (child.properties.preemption_policy.value, child.children[0].properties.preemption_policy.value)
        for child in parent.children
    }
    assert policies == {
        "silent": ("disabled", "disabled"),
        "default": ("default", "default"),
        "fence": ("fence", "default"),
    }


def test_a_child_ends_the_quota_preemption_that_it_would_take_over() -> None:
    off = {"name": "off", "properties": {"quota.preemption.delay": "0"}, "queues": [{"name": "leaf"}]}
    (child,) = load_queue(properties=EVERYTHING, queues=[off]).children
    assert child.properties.quota_preemption_delay_ns == child.children[0].properties.quota_preemption_delay_ns == 0
    assert child.properties.preemption_delay_ns == 5 * SECOND_NS


def test_root_hands_down_what_it_has() -> None:
    text = a_text({"queues": [{"name": "root", "properties": EVERYTHING, "queues": [{"name": "a"}]}]})
    root = load_queue_file(text).partitions[0].root
    assert root.properties.priority_offset == -7
    assert root.children[0].properties.application_order is ApplicationOrder.STATE_AWARE


def test_a_misspelt_name_changes_nothing_and_is_told() -> None:
    file = load_queue_file(a_text(a_partition({"name": "a", "properties": {"priority.ofset": "9"}})))
    (warning,) = file.warnings
    assert warning.message == 'unknown property, ignored; did you mean "priority.offset"?'
    assert file.partitions[0].root.children[0].properties == QueueProperties()
