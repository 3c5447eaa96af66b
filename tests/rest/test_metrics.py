"""The metrics by YuniKorn's names are, for recorded stories, what YuniKorn's own were, but for the differences that
`docs/metrics.md` has."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed
from schedulerd.daemon.yunikorn.metrics import YunikornFamilies
from schedulerd.instant import Instant
from schedulerd.observe.metrics import Metrics
from tests.rest.story import Player, read_answers, read_story
from tests.rest.world import World

GOLDEN = Path(__file__).parent / "golden"
METRICS = "/ws/v1/metrics"
SAMPLES = {"s3": 360, "s5": 180, "s5b": 190, "s6": 5, "s7": 50}
"""By story, how many samples YuniKorn gave at least that are not about Go and time."""

Sample = tuple[str, tuple[str, ...]]

DIFFERENCES: Mapping[str, str] = {
    "queue_app new": "YuniKorn counts below 0 for applications that are rejected before they are new",
    "queue_app(_total)? rejected": "a rejected application has no queue here, even if it named one",
    "queue_container released": "missing when the queue is forgotten, and of another type, so of another name here",
    "container_allocation_attempt (released|rejected|error)": "YuniKorn counts released asks, and errors twice",
    "node_usage_total .*": "YuniKorn computes it from time to time, and shows an older moment",
    "node failed": "here every node that is rejected",
    "(queue_app|queue_resource|application_total) .*": "a queue without living applications is forgotten earlier",
}
"""By pattern of name and state."""


def read(text: str) -> dict[Sample, float]:
    return {
        (one.name, tuple(one.labels[label] for label in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if re.match("yunikorn_(?!runtime)", one.name) and "milliseconds" not in one.name
    }


async def compare(name: str) -> tuple[int, Counter[str]]:
    """How many samples are compared, and for how many of them each difference is needed."""
    world = World()
    metrics = Metrics(make_others=YunikornFamilies)
    metrics.watch_state(world.scheduler.cluster.resource_managers.values)
    world.sinks.attach(metrics.observe)
    recorded = [one for one in read_answers(GOLDEN / f"head-{name}.jsonl.gz") if one["request"]["path"] == METRICS]
    compared = 0
    needed: Counter[str] = Counter()
    kept_nodes: set[str] = set()

    def note(facts: Sequence[Fact], _now: Instant) -> None:
        kept_nodes.update(fact.node_id for fact in facts if isinstance(fact, AllocationUnclaimed))

    world.sinks.attach(note)

    async def dump(label: str) -> None:
        nonlocal compared
        for answer in (one for one in recorded if one["phase"] == label):
            ours = read(generate_latest(metrics.registry).decode())
            for sample, value in read(answer["response"]["bodyText"]).items():
                compared += 1
                if ours.get(sample) != value:
                    needed[excuse(sample, value, ours.get(sample), len(kept_nodes))] += 1

    played = GOLDEN / f"1.4-{name}.story.json"
    of_head = not played.exists()
    await Player(world, dump, of_head=of_head).play(
        read_story(GOLDEN / f"head-{name}.story.json" if of_head else played)
    )
    return compared, needed


def excuse(sample: Sample, theirs: float, ours: float | None, kept_nodes: int) -> str:
    """`kept_nodes`: so many are registered here, and were rejected by YuniKorn for allocations that are unclaimed."""
    name, labels = sample
    if sample == ("yunikorn_scheduler_node", ("active",)) and ours == theirs + kept_nodes:
        return "a node with unclaimed allocations"
    about = f"{name.removesuffix('_total') if '_container' in name else name} {labels[-1] if labels else ''}"
    for pattern in DIFFERENCES:
        if re.fullmatch(f"yunikorn_.*?{pattern}", about):
            return pattern
    raise AssertionError(f"{name}{labels} is {ours}, and was {theirs}")


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_what_yunikorn_gave(name: str) -> None:
    compared, needed = asyncio.run(compare(name))
    assert compared >= SAMPLES[name]
    assert sum(needed.values()) <= compared // 5, needed
