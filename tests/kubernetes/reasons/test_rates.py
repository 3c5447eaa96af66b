"""How often is written, in a time that only the test moves."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.events import Put
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.words import sentence, words_of_1_20
from schedulerd.kubernetes.reasons import pod_reason
from schedulerd.kubernetes.reasons.node_counts import NodeCounts
from schedulerd.kubernetes.reasons.sentences import refused
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from tests.kubernetes.builders import node
from tests.kubernetes.cluster.play import own
from tests.kubernetes.reasons.reader import FAILED, Reader

QUOTA = Waiting(State.QUOTA_BLOCKED, True, Rule.QUOTA, "root.q", "vcore", 4000, 0, 2000, 4000)


def waiting(pods: int, **settings: object) -> Reader:
    reader = Reader(**settings)
    reader.start(node("n", cpu="1"))
    for number in range(pods):
        reader.pod(f"p{number}", cpu="2")
    return reader


def with_a_burst_of_100(pods: int, **settings: object) -> Reader:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_reason, "BURST_MAX", 100)
        return waiting(pods, **settings)


def kinds(reader: Reader) -> list[str]:
    return [kind for _, kind, _ in reader.writes]


def test_five_hundred_pods_are_told_within_15_s_of_a_change_conditions_first() -> None:
    reader = waiting(500)
    names = [f"p{number}" for number in range(500)]
    for name in names:
        reader.say(name, FAILED)
    reader.pass_time(4)
    assert kinds(reader).count("condition") == kinds(reader).count("event") == 500
    reader.writes.clear()
    reader.pass_time(30)
    start_s = reader.now_ns / 1e9
    for name in names:
        reader.say(name, QUOTA)
    reader.pass_time(15)
    assert kinds(reader).count("condition") == kinds(reader).count("event") == 500
    assert max(second for second, _, _ in reader.writes) - start_s < 15
    assert {reader.told(name)[0] for name in names} == {"SchedulingSkipped"}


def test_beyond_that_the_rate_is_that_of_the_setting_and_the_oldest_come_first() -> None:
    reader = with_a_burst_of_100(300, reason_writes_per_s=10)
    names = [f"p{number}" for number in range(300)]
    reader.say_all(names, FAILED)
    reader.pass_time(0.5)
    at_once = len(reader.writes)
    assert 100 <= at_once <= 110
    assert len(reader.cluster.model.reasons.backlog) == 300, "an event has taken the place of each condition"
    reader.pass_time(10)
    assert 96 <= len(reader.writes) - at_once <= 104
    reader.pass_time(60)
    assert kinds(reader) == ["condition"] * 300 + ["event"] * 300
    assert [uid for _, _, uid in reader.writes] == names + names


def test_what_is_written_late_is_what_is_true_then() -> None:
    reader = with_a_burst_of_100(110, reason_writes_per_s=10)
    reader.say_all([f"p{number}" for number in range(110)], FAILED)
    reader.say("p109", QUOTA)
    reader.pass_time(60)
    assert [uid for _, kind, uid in reader.writes if kind == "condition"].count("p109") == 1
    assert reader.told("p109")[0] == "SchedulingSkipped"


def test_an_unchanged_reason_is_repeated_every_half_hour_with_the_same_event() -> None:
    reader = waiting(1)
    reader.say("p0", FAILED)
    for _ in range(5):
        reader.say("p0", FAILED)
    reader.pass_time(1_799)
    assert kinds(reader) == ["condition", "event"]
    reader.pass_time(2 * 1_800)
    assert kinds(reader) == ["condition", "event", "event", "event"]
    assert len({(event.reason, event.note) for event in reader.events["p0"]}) == 1


def test_nodes_are_counted_once_for_all_pods_of_a_class_and_size() -> None:
    reader = Reader()
    reader.start(*(node(f"n{number}", cpu="1") for number in range(100)))
    for number in range(200):
        reader.pod(f"p{number}", cpu="2")
        reader.say(f"p{number}", FAILED)
    for number in range(50):
        reader.pod(f"large{number}", cpu="3")
        reader.say(f"large{number}", FAILED)
    reader.pass_time(60)
    counts = reader.cluster.model.reasons.counts
    assert len(counts) == 2
    assert counts.nodes_judged <= 2 * 100
    assert len(reader.conditions) == 250


def test_counts_follow_the_nodes_and_only_then_cost_anything() -> None:
    reader = waiting(3)
    for number in range(3):
        reader.say(f"p{number}", FAILED)
    reader.pass_time(20)
    reader.writes.clear()
    reader.put(node("m", cpu="4", unschedulable=True))
    reader.pass_time(15)
    text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    assert [reader.told(f"p{number}")[1] for number in range(3)] == [text] * 3
    assert kinds(reader) == ["condition"] * 3, "an event of other numbers waits for five minutes"
    nodes_judged = reader.cluster.model.reasons.counts.nodes_judged
    reader.pass_time(1_000)
    assert reader.cluster.model.reasons.counts.nodes_judged == nodes_judged


def test_verdicts_are_bounded_in_a_large_cluster_of_many_classes() -> None:
    reader = Reader()
    reader.start(*(node(f"n{number}", cpu="1") for number in range(1_000)))
    for number in range(100):
        reader.pod(f"p{number}", cpu=f"{number + 2}")
        reader.say(f"p{number}", FAILED)
    counts = reader.cluster.model.reasons.counts
    assert counts.nodes_judged <= 2_000, "a burst"
    reader.pass_time(1)
    assert 20_000 <= counts.nodes_judged <= 28_000
    reader.pass_time(4)
    assert counts.nodes_judged == 100_000
    assert len(reader.conditions) == 100


def test_a_reason_that_flaps_is_written_every_three_seconds_at_most() -> None:
    reader = waiting(1)
    for number in range(100):
        reader.say("p0", QUOTA if number % 2 else FAILED)
        reader.pass_time(0.1)
    assert 3 <= kinds(reader).count("condition") <= 5


def test_a_pod_that_changes_in_the_api_costs_no_write() -> None:
    reader = waiting(1)
    reader.say("p0", FAILED)
    reader.writes.clear()
    for number in range(20):
        reader.all(Put(own("p0", cpu="2", meta={"annotations": {"a": str(number)}})))
        reader.pass_time(1)
    assert reader.writes == []


def test_the_words_of_older_versions_can_be_counted_too() -> None:
    view = Predicates(ClusterCache())
    for number in range(3):
        view.cache.put_node(node(f"n{number}", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]))
    counts = NodeCounts(view, words_of_1_20)
    pod = own("p")
    view.cache.put_pod(pod)
    assert counts.get(pod) is None
    assert counts.count_due(0, lambda uid: True) == ["p"]
    found = counts.get(pod)
    assert found is not None
    text = refused(FAILED, found)
    assert text == "0/3 nodes are available: 3 node(s) had taint {a: b}, that the pod didn't tolerate."
    assert text == sentence(view.judge_all(pod), 3, words_of_1_20)
