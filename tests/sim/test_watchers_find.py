"""What watches a simulation from outside notices a fact that is lost or changed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from schedulerd.core.language.commands import (
    Command,
    NewApplication,
    RegisterResourceManager,
    RunCycle,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import Allocated, AskAdded, CheckFailed, Fact, RejectCode, Released
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import Acl, LimitSpec, PartitionSpec, QueueSpec
from schedulerd.core.views import view
from tests.loops import each_row
from tests.sim.auditor import Auditor
from tests.sim.file_invariants import FileInvariants
from tests.sim.oracle import misplaced, overlooked
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.simulation import START_NS, new_scheduler
from tests.sim.small_world import RM, SmallWorld

pytestmark = pytest.mark.interpreted

FactChange = Callable[[list[Fact]], list[Fact]]


def without(kind: type) -> FactChange:
    return lambda facts: [fact for fact in facts if not isinstance(fact, kind)]


def changed(kind: type, **fields: object) -> FactChange:
    def change(facts: list[Fact]) -> list[Fact]:
        for fact in (one for one in facts if isinstance(one, kind)):
            for name, value in fields.items():
                setattr(fact, name, value)
        return facts

    return change


def audited(change: FactChange) -> list[str]:
    world = SmallWorld()
    auditor = Auditor()
    for _, facts in world.facts:
        auditor.take(change(copy.deepcopy(facts)))
    return auditor.problems(view.resource_managers(world.scheduler.cluster))


LOST: dict[str, tuple[FactChange, str]] = {
    "an ask that is not told": (without(AskAdded), "less than nothing pending"),
    "a placement that is not told": (without(Allocated), "released without being allocated"),
    "a release that is not told": (without(Released), "allocated on node-"),
    "everything told twice": (lambda facts: facts * 2, "allocated twice"),
    "another node": (changed(Allocated, node_id="node-3"), "allocated on node-3"),
    "another queue": (changed(AskAdded, queue="root.nothing"), "pending in root.nothing"),
    "a check that failed": (
        lambda facts: [*facts, CheckFailed(RM, "NewAsk", "k", RejectCode.CHECK_FAILED, "KeyError")],
        "KeyError while NewAsk 'k' was checked",
    ),
    "another size": (changed(Released, resources=Resources(memory=1)), "as something else than it was allocated as"),
}


@each_row(("change", "sentence"), LOST.values(), ids=LOST.keys())
def test_the_auditor_notices(change: FactChange, sentence: str) -> None:
    found = audited(change)
    assert any(sentence in problem for problem in found), found


def test_the_auditor_is_content_with_the_story() -> None:
    assert audited(lambda facts: facts) == []


def remembered(change: Callable[[Command, list[Fact]], tuple[Command, list[Fact]]]) -> list[str]:
    world = SmallWorld()
    memory = ResourceManagerMemory(RM)
    found: list[str] = []
    for command, facts in world.facts:
        found += memory.hear(*change(command, copy.deepcopy(facts)))
    (state,) = view.resource_managers(world.scheduler.cluster)
    return found + memory.disagreements(state)


BROKEN_PROMISES: dict[str, tuple[FactChange, str]] = {
    "a release told twice": (
        lambda facts: [*facts, *(fact for fact in facts if isinstance(fact, Released))],
        "ends twice",
    ),
    "a release not told": (without(Released), "the scheduler does not"),
    "a placement not told": (without(Allocated), "rm-b does not"),
    "room that nobody gave up": (changed(Allocated, replaces="nothing"), "which was not given up for it"),
    "another kind at its end": (changed(Released, placeholder=True), "was placed as one kind and ends as the other"),
    "one UUID for all": (changed(Allocated, uuid="same"), "given out a second time"),
}


@pytest.mark.parametrize(("change", "sentence"), BROKEN_PROMISES.values(), ids=BROKEN_PROMISES.keys())
def test_the_memory_notices(change: FactChange, sentence: str) -> None:
    found = remembered(lambda command, facts: (command, change(facts)))
    assert any(sentence in problem for problem in found), found


def test_the_memory_notices_what_vanishes_without_a_word() -> None:
    def silent(command: Command, facts: list[Fact]) -> tuple[Command, list[Fact]]:
        return RunCycle(1), changed(Released, confirm=False)(facts)

    assert any("vanishes without a word" in problem for problem in remembered(silent))
    assert remembered(lambda command, facts: (command, facts)) == []


def test_the_oracle_notices_an_ask_that_is_not_tried_although_it_fits() -> None:
    world = SmallWorld()
    assert overlooked(view.resource_managers(world.scheduler.cluster)) == []
    world.node(1).available.update(memory=99)
    assert any(
        "big fits node-1 and sleeps" in text for text in overlooked(view.resource_managers(world.scheduler.cluster))
    )


def test_the_oracle_notices_a_placement_where_there_is_no_room() -> None:
    world = SmallWorld()
    placed = [fact for _, facts in world.facts for fact in facts if isinstance(fact, Allocated)]
    assert misplaced(view.resource_managers(world.scheduler.cluster), placed) == []
    world.node(1).available.update(memory=-1)
    world.queue("root.open").max.update(vcore=1)
    world.node(2).state = NodeState.DRAINING
    found = "\n".join(misplaced(view.resource_managers(world.scheduler.cluster), placed))
    assert "over-commits memory of node-1" in found
    assert "over the vcore of root.open" in found
    assert "node-2, which takes nothing new" in found


def test_the_oracle_decides_limits_by_itself() -> None:
    """app-2 of bob has two allocations of 10 in root.open, and one ask of 70 that no node fits."""
    world = SmallWorld()
    opened, big = world.queue("root.open"), "big fits node-1 and sleeps"
    placed = [fact for _, facts in world.facts for fact in facts if isinstance(fact, Allocated)]

    def sleeping() -> str:
        return "\n".join(overlooked(view.resource_managers(world.scheduler.cluster)))

    world.node(1).available.update(memory=99)
    for users in (("bob",), ("*",)):
        opened.limits = (LimitSpec(users=users, max=Limits(memory=89)),)
        assert big not in sleeping()
        opened.limits = (LimitSpec(users=users, max=Limits(memory=90), max_applications=1),)
        assert big in sleeping()
    opened.limits = (LimitSpec(users=("ann",), groups=("staff",), max=Limits(memory=0)),)
    assert big in sleeping()
    opened.limits = (LimitSpec(users=("bob",), max=Limits(memory=19)),)
    assert "over a limit in root.open" in "\n".join(misplaced(view.resource_managers(world.scheduler.cluster), placed))


def test_the_file_invariant_decides_which_group_counts_by_itself() -> None:
    """The user is in both groups that have limits in root.open; that of ops stands first."""
    limits = tuple(LimitSpec(groups=(group,), max_applications=5) for group in ("ops", "dev"))
    opened = QueueSpec("open", limits=limits)
    root = QueueSpec("root", parent=True, submit_acl=Acl(everybody=True), children=(opened,))
    register = RegisterResourceManager(RM, (PartitionSpec("default", root),))
    submit = UpdateApplications(RM, new=[NewApplication("app", "root.open", user="ann", groups=("dev", "ops"))])
    scheduler, invariants = new_scheduler(), FileInvariants()

    def judged(command: Command, facts: list[Fact]) -> list[str]:
        return list(invariants.after(command, facts, view.resource_managers(scheduler.cluster)))

    assert judged(register, scheduler.step(START_NS, register)) == []
    facts = scheduler.step(START_NS, submit)
    assert judged(submit, facts) == []
    scheduler.cluster.resource_managers[RM].partitions["default"].applications["app"].group = "dev"
    (found,) = judged(submit, facts)
    assert "app of ('dev', 'ops') counts for group 'dev', and 'ops' is the first" in found
