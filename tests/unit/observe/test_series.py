"""However many queues and names there are, a scrape shows so many of them, and its sums stay what they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.lifecycles import NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.observe import metrics as metrics_module
from schedulerd.observe.metrics import Metrics
from schedulerd.observe.series import LABEL_LENGTH_MAX, OTHER, label_value
from tests.instants import at
from tests.unit.observe import build
from tests.unit.observe.scrape import Samples, all_samples

SERIES = 100
VCORE = {"vcore": 1}
PENDING = "schedulerd_pending_resources"
ASKS = "schedulerd_pending_allocations"
LEFT_OUT = "schedulerd_metrics_series_left_out"


def ask(queue: str, resources: Mapping[str, int], rm_id: str = build.RM) -> Fact:
    return replace(build.ask(count=1), queue=queue, rm_id=rm_id, resources=Resources(resources))


def metrics_of(*facts: Fact, series_max: int = SERIES) -> Metrics:
    metrics = Metrics(series_max)
    metrics.observe(facts, at(0))
    return metrics


def of_queue(samples: Samples, queue: str) -> dict[str, float]:
    """By resource: labels are in the order of their names (partition, queue, resource, rm)."""
    return {labels[2]: value for labels, value in samples.items() if labels[1] == queue}


def test_a_family_has_so_many_series_and_one_for_the_rest() -> None:
    queues = 3 * SERIES
    found = all_samples(metrics_of(*(ask(f"root.q{number}", VCORE) for number in range(queues))))
    assert len(found[ASKS]) == SERIES + 1
    assert found[LEFT_OUT][ASKS,] == queues + 1 - SERIES
    assert found[ASKS][build.PARTITION, "root", build.RM] == queues
    assert found[ASKS][OTHER, OTHER, build.RM] == queues + 1 - SERIES
    assert sum(found[ASKS].values()) == 2 * queues  # each once in its queue, and once in the root


def test_at_the_very_bound_nothing_is_left_out() -> None:
    found = all_samples(metrics_of(*(ask(f"root.q{number}", VCORE) for number in range(SERIES - 1))))
    assert len(found[ASKS]) == SERIES
    assert found[LEFT_OUT][ASKS,] == 0


def test_the_queue_that_was_used_first_keeps_its_series_and_those_above_it_come_first() -> None:
    facts = [ask(f"root.a.b{number}.c", VCORE) for number in range(SERIES)]
    found = all_samples(metrics_of(*facts))
    kept = [labels[1] for labels in found[ASKS]]
    expected = ["root", "root.a"]
    for number in range(SERIES // 2 - 1):
        expected += [f"root.a.b{number}", f"root.a.b{number}.c"]
    assert sorted(kept) == sorted([*expected, OTHER])
    assert found[ASKS][build.PARTITION, "root.a", build.RM] == SERIES


def test_kinds_of_resource_that_each_have_a_name_of_their_own_are_added_up() -> None:
    facts = [ask("root.a", {f"unique-{number}": 5}) for number in range(3 * SERIES)]
    found = all_samples(metrics_of(*facts))
    assert len(found[PENDING]) == SERIES + 1
    assert sum(found[PENDING].values()) == 2 * 5 * 3 * SERIES


def test_the_resources_of_nodes_are_bounded_as_well() -> None:
    names = {f"unique-{number}": 5 for number in range(3 * SERIES)}
    found = all_samples(metrics_of(build.node("n1", None, NodeState.SCHEDULABLE, names, names)))
    for name in ("schedulerd_capacity_resources", "schedulerd_occupied_resources"):
        assert len(found[name]) == SERIES + 1
        assert sum(found[name].values()) == 5 * 3 * SERIES


def test_resource_managers_share_the_series_equally() -> None:
    registered = [replace(build.resource_manager(ResourceManagerState.RUNNING), rm_id=rm) for rm in ("loud", "quiet")]
    loud = [ask(f"root.q{number}", VCORE, "loud") for number in range(3 * SERIES)]
    quiet = [ask(f"root.q{number}", VCORE, "quiet") for number in range(SERIES // 2 - 1)]
    found = all_samples(metrics_of(*registered, *loud, *quiet))
    shown = [labels[2] for labels in found[ASKS]]
    assert (shown.count("loud"), shown.count("quiet")) == (SERIES // 2 + 1, SERIES // 2)
    assert (OTHER, OTHER, "quiet") not in found[ASKS]


def test_however_many_resource_managers_there_are_each_has_a_series() -> None:
    registered = [
        replace(build.resource_manager(ResourceManagerState.RUNNING), rm_id=f"rm-{number}") for number in range(300)
    ]
    asks = [ask(f"root.{leaf}", VCORE, f"rm-{number}") for number in range(300) for leaf in "abc"]
    found = all_samples(metrics_of(*registered, *asks))
    assert len(found[ASKS]) == 2 * 300
    assert found[ASKS][build.PARTITION, "root", "rm-7"] == 3
    assert found[ASKS][OTHER, OTHER, "rm-7"] == 3


HOSTILE = [
    'quote"s',
    "back\\slash",
    "back\\nslash",
    "new\nline",
    "carriage\rreturn",
    "\\",
    '"} 1\nschedulerd_up{x="',
    "nul\x00",
    "ünï-码-🙂",
    "\u2028",
    "\x85",
    "a" * 1024,
    "é" * 1024,
    "lone \ud800 surrogate",
    "",
    "{,=}",
]


def read_again(metrics: Metrics) -> list[Any]:
    exposition = generate_openmetrics(metrics.registry, version="1.0.0")  # type: ignore[no-untyped-call]
    return list(parse_openmetrics(exposition.decode()))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_any_kind_leave_the_text_well_formed(name: str) -> None:
    facts: list[Fact] = [
        build.node("n1", None, NodeState.SCHEDULABLE, {name: 5}, {name: 5}),
        replace(build.resource_manager(ResourceManagerState.RUNNING), rm_id=name),
        ask(f"root.{name}", {name: 3}, name),
    ]
    metrics = metrics_of(*facts)
    found = all_samples(metrics)
    shown = label_value(name)
    assert found[PENDING][build.PARTITION, label_value(f"root.{name}"), shown, shown] == 3
    assert found["schedulerd_capacity_resources"][build.PARTITION, shown, build.RM] == 5
    families = read_again(metrics)
    shown_there = {s.labels["resource"] for one in families for s in one.samples if s.name == PENDING}
    assert shown in shown_there


def test_a_label_has_so_many_characters_and_different_ones_stay_different() -> None:
    assert label_value("a" * LABEL_LENGTH_MAX) == "a" * LABEL_LENGTH_MAX
    one, other = (label_value("a" * LABEL_LENGTH_MAX + end) for end in "xy")
    assert len(one) == len(other) == LABEL_LENGTH_MAX
    assert one != other
    names = {f"{'n' * 2_000}{number}": 1 for number in range(3)}
    found = all_samples(metrics_of(ask("root.a", names)))
    assert len(of_queue(found[PENDING], "root.a")) == 3


def test_queues_are_copied_a_few_at_a_time_and_what_follows_is_for_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_module, "QUEUES_COPIED_MAX", 7)
    metrics = metrics_of(*(ask(f"root.q{number}", VCORE) for number in range(50)))
    small = list(Metrics().parts(lambda items: items))
    parts = list(metrics.parts(lambda items: items))
    assert len(parts) - len(small) == -(-50 // 7)
    metrics.observe([ask(f"root.q{number}", VCORE) for number in range(60)], at(0))
    values = {
        sample.labels["queue"]: sample.value
        for part in parts
        for family in part
        for sample in family.samples
        if sample.name == ASKS
    }
    assert values["root"] == 50, "of the moment at which it was collected"
