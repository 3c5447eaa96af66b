"""Pods that nodes have refused are asked for again when something changes, at a bounded rate."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import Ask
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import containers, node
from tests.kubernetes.cluster.play import Play, of, own

PORT = [{"containerPort": 80, "hostPort": 80}]


def with_port(name: str) -> Pod:
    return own(name, containers=[{**containers({"cpu": "1m"})[0], "ports": PORT}])


def running(name: str) -> Pod:
    return own(name, nodeName="n", containers=[{**containers({"cpu": "1m"})[0], "ports": PORT}])


@pytest.fixture
def play() -> Play:
    """250 pods that the node has refused because of a port, and 50 that have it there."""
    play = Play()
    refused = [with_port(f"r{number:03}") for number in range(250)]
    play.start(node("n"), *refused, *(running(f"b{number}") for number in range(50)))
    for pod in refused:
        assert play.cluster.predicates(pod.metadata.uid, "n", allocate=True)
    return play


def asked(play: Play, seconds: float) -> list[str]:
    return [ask.key for ask in of(play.wait(seconds), Ask)]


def test_a_hundred_leave_at_once_and_then_a_hundred_per_second(play: Play) -> None:
    for number in range(50):
        play.gone(running(f"b{number}"))
        play.now_ns += 100_000
    assert asked(play, 0.5) == [f"r{number:03}" for number in range(100)], "the oldest refusal is first"
    assert asked(play, 0.4) == []
    assert asked(play, 1) == [f"r{number:03}" for number in range(100, 200)]
    assert len(asked(play, 1)) == 50
    assert asked(play, 60) == []


def test_changes_meanwhile_do_not_make_it_faster(play: Play) -> None:
    counts = []
    for number in range(20):
        play.gone(running(f"b{number}"))
        counts.append(len(asked(play, 0.1)))
    assert sum(counts[:10]) == sum(counts[10:]) == 100
    play.gone(running("b49"))
    assert len(asked(play, 2)) == 50


def test_a_pod_that_is_refused_again_waits_for_the_next_change(play: Play) -> None:
    play.gone(running("b0"))
    assert len(asked(play, 0.5)) == 100
    for number in range(100):
        play.cluster.predicates(f"r{number:03}", "n", allocate=True)
    assert len(asked(play, 60)) == 150
    play.gone(running("b1"))
    assert len(asked(play, 60)) == 100


def test_pods_that_need_no_node_any_longer_are_not_waited_for(play: Play) -> None:
    play.gone(running("b0"))
    play.gone(*(with_port(f"r{number:03}") for number in range(250)))
    assert asked(play, 60) == []
    assert play.cluster.model.wake_times.due_ns is None
