"""Gangs are replaced over gRPC whatever happens on the way; `python -m tests.contract.gangs` is the same, large."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.gangs.faults import Fault, FaultKind, random_faults
from tests.contract.gangs.round import Outcome, Script, play
from tests.contract.gangs.truth import Plan, Truth

PLAN = Plan(gangs=8, members=6, nodes=8, slots=6)
LIMIT_S = 60.0

pytestmark = pytest.mark.timeout(150)


def a_round(*faults: Fault, writes_max: int, daemon: str = "schedulerd") -> Outcome:
    return asyncio.run(play(Script(PLAN, faults, writes_max, limit_s=LIMIT_S, daemon=daemon)))


# By the second of these seeds the daemon is killed before the next resource manager has found it.
@pytest.mark.parametrize(("writes_max", "seed"), [(1, 10), pytest.param(7, 1, marks=pytest.mark.nightly)])
def test_nothing_is_lost_or_doubled_when_processes_end_or_stand_still(writes_max: int, seed: int) -> None:
    faults = random_faults([FaultKind.RM_KILLED, *FaultKind], PLAN, seed)
    outcome = a_round(*faults, writes_max=writes_max)
    assert outcome.problems == []
    assert [fault for fault, _ in outcome.faults] == faults
    assert outcome.checked == PLAN.pods
    print(f"{len(faults)} faults survived, {outcome.checked} allocations checked")


@pytest.mark.parametrize("kind", [FaultKind.RM_KILLED, FaultKind.DAEMON_KILLED])
def test_a_daemon_killed_after_the_last_message_finds_the_state_as_it_was(kind: FaultKind) -> None:
    outcome = a_round(Fault(kind, PLAN.changes, then_bytes=1_000_000), writes_max=7)
    assert outcome.problems == []
    ((_, progress),) = outcome.faults
    assert progress.changes == PLAN.changes


def test_an_undisturbed_round_has_no_problems() -> None:
    assert a_round(writes_max=7).problems == []


def test_a_daemon_that_forgets_is_found_out() -> None:
    fault = Fault(FaultKind.RM_KILLED, after_changes=PLAN.changes // 3, then_bytes=1)
    outcome = a_round(fault, writes_max=7, daemon="tests.contract.gangs.forgetful_daemon")
    assert [struck for struck, _ in outcome.faults] == [fault]
    assert outcome.problems


@pytest.fixture
def truth() -> Truth:
    """One gang of two on two nodes with room for one pod each."""
    return Truth(Plan(gangs=1, members=2, nodes=2, slots=1))


def test_the_truth_is_done_when_every_real_pod_has_the_room_of_a_placeholder(truth: Truth) -> None:
    assert truth.bind("gang-000-held-000", "node-00000") == []
    created = truth.bind("gang-000-held-001", "node-00001")
    assert [pod.name for pod in created] == ["gang-000-real-000", "gang-000-real-001"]
    for number, pod in enumerate(created):
        assert not truth.is_done()
        truth.delete(f"gang-000-held-{number:03d}")
        truth.bind(pod.name, f"node-{number:05d}")
    assert truth.is_done()
    assert truth.problems == []
    assert str(truth.progress()) == "2 placeholders bound, 2 of them gone, 2 of 2 real pods bound"


def test_the_truth_takes_nothing_that_contradicts_it(truth: Truth) -> None:
    first, second = "gang-000-held-000", "gang-000-held-001"
    truth.bind("gang-000-real-000", "node-00000")
    truth.delete(first)
    truth.bind(first, "node-00000")
    truth.bind(first, "node-00001")
    truth.bind(second, "node-00000")
    truth.bind(second, "node-00002")
    truth.delete(first)
    truth.bind(first, "node-00001")
    assert truth.problems == [
        "pod gang-000-real-000 was to be bound to node-00000, and was never created",
        f"pod {first} was to be deleted, and is no placeholder that runs",
        f"pod {first} is bound to node-00000, and was to be bound to node-00001 once more",
        f"pod {second} was to be bound to node-00000, which has no room for it",
        f"pod {second} was to be bound to node-00002, which has no room for it",
        f"pod {first} was to be bound to node-00001, and is gone",
    ]
