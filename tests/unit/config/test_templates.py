"""`childtemplate` as the core gets it: complete, in the queue below which leaves are created."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.config import load_queue_file
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    MINUTE_NS,
    SECOND_NS,
    ApplicationOrder,
    PreemptionPolicy,
    QueueProperties,
    QueueSpec,
    TemplateSpec,
)
from tests.unit.config.build import a_partition, a_text, load_queue

RESOURCES = {"guaranteed": {"memory": 20}, "max": {"memory": 50, "vcore": "5m"}}


def template_of(queue: QueueSpec) -> TemplateSpec:
    assert queue.template is not None
    return queue.template


def a_parent(template: Any, *queues: dict[str, Any], **keys: Any) -> QueueSpec:
    return load_queue(parent=True, childtemplate=template, queues=list(queues), **keys)


def test_everything_there_is() -> None:
    template = {"maxapplications": 2, "resources": RESOURCES, "properties": {"application.sort.policy": "fair"}}
    assert a_parent(template).template == TemplateSpec(
        max_applications=2,
        guaranteed=Resources({"memory": 20}),
        max=Limits({"memory": 50, "vcore": 5}),
        properties=QueueProperties(application_order=ApplicationOrder.FAIR),
    )


@pytest.mark.parametrize("template", [None, {}, {"resources": {}}, {"properties": {}, "maxapplications": 0}])
def test_a_template_that_says_nothing_is_none(template: Any) -> None:
    assert a_parent(template).template is None


def test_without_properties_a_leaf_starts_as_without_template() -> None:
    assert a_parent({"maxapplications": 2}).template == TemplateSpec(max_applications=2)


def test_properties_come_on_top_of_what_a_child_takes_over() -> None:
    parent = a_parent(
        {"properties": {"priority.offset": "3"}},
        properties={"application.sort.policy": "fair", "priority.offset": "100"},
    )
    assert template_of(parent).properties == QueueProperties(application_order=ApplicationOrder.FAIR, priority_offset=3)


def test_preemption_in_a_template_comes_on_top_of_what_the_parent_hands_down() -> None:
    parent = a_parent(
        {"properties": {"preemption.policy": "fence", "preemption.delay": "5s"}},
        properties={"preemption.policy": "disabled", "preemption.delay": "1m", "quota.preemption.delay": "2m"},
    )
    assert template_of(parent).properties == QueueProperties(
        preemption_policy=PreemptionPolicy.FENCE,
        preemption_delay_ns=5 * SECOND_NS,
        quota_preemption_delay_ns=2 * MINUTE_NS,
    )


@pytest.mark.parametrize(("above", "handed_down"), [("fence", "default"), ("disabled", "disabled")])
def test_a_template_without_a_preemption_policy_has_what_a_child_takes_over(above: str, handed_down: str) -> None:
    parent = a_parent({"properties": {"priority.offset": "3"}}, properties={"preemption.policy": above})
    properties = template_of(parent).properties
    assert properties is not None
    assert properties.preemption_policy == handed_down


def test_the_nearest_template_above_counts_with_the_properties_of_the_queue_itself() -> None:
    inner = {"name": "inner", "parent": True, "properties": {"application.sort.policy": "stateaware"}}
    own = {"name": "own", "parent": True, "childtemplate": {"maxapplications": 9}}
    outer = a_parent({"maxapplications": 2, "properties": {"priority.offset": "3"}}, inner, own, {"name": "leaf"})
    first, second, leaf = outer.children
    assert template_of(outer).properties == QueueProperties(priority_offset=3)
    assert first.template == TemplateSpec(
        max_applications=2,
        properties=QueueProperties(application_order=ApplicationOrder.STATE_AWARE, priority_offset=3),
    )
    assert second.template == TemplateSpec(max_applications=9), "a template is not merged with another one"
    assert leaf.template is None


def test_a_template_on_a_leaf_is_told() -> None:
    queue = {"name": "a", "childtemplate": {"maxapplications": 2}}
    file = load_queue_file(a_text(a_partition(queue)))
    assert file.partitions[0].root.children[0].template is None
    (warning,) = file.warnings
    assert warning.path == "partitions[0].queues[0].queues[0].childtemplate"
    assert warning.message.startswith("without effect: nothing is created below a leaf")


def test_a_template_that_only_forbids_cores_is_one() -> None:
    assert a_parent({"resources": {"max": {"vcore": 0}}}).template == TemplateSpec(max=Limits({"vcore": 0}))
