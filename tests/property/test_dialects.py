"""What is said in either dialect is the same to the scheduler, and what it says is heard alike in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language import commands as said
from schedulerd.core.language.commands import (
    Command,
    NodeAction,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, ReleaseRequested
from schedulerd.core.language.resources import Resources
from tests.dialects import PRIORITY_CLASSES, Speaker, Speaker2021, Speaker2023, WireCommand
from tests.loops import each_seed
from tests.property.dialect_story import WIRE_COMMANDS, Teller, commonly, tell
from tests.sim.observations import Observations
from tests.sim.simulation import new_scheduler, simulate
from tests.unit.wire.facts import any_facts

RM = "rm-1"
ALL_KINDS = {
    "accepted application",
    "accepted node",
    "allocation",
    "ask release",
    "rejected application",
    "rejected ask",
    "rejected node",
    "release",
    "updated application",
}

TEXT = st.sampled_from(["", "a", "ä", "app-1"])
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
RESOURCES = st.dictionaries(TEXT, INT64, max_size=2).map(Resources)
TAGS = st.dictionaries(TEXT, TEXT, max_size=2)
EXPRESSIONS = st.lists(
    st.builds(
        said.Expression,
        TEXT,
        st.sampled_from(said.Operator),
        st.lists(TEXT, unique=True, max_size=2).map(sorted).map(tuple),
    ),
    max_size=2,
).map(tuple)
AFFINITIES = st.builds(said.AllocationAffinity, TEXT, EXPRESSIONS, INT32, INT32, st.booleans())
CONSTRAINTS = st.one_of(st.none(), st.builds(said.PlacementConstraint, EXPRESSIONS, st.none() | AFFINITIES)).filter(
    lambda constraint: constraint != said.PlacementConstraint()  # which constrains nothing, as None does
)
PRIORITIES = st.one_of(st.sampled_from(sorted(PRIORITY_CLASSES.values())), INT32)
ONLY_2023: dict[type, set[str]] = {
    said.NewAsk: {"originator", "allow_preempt_self", "allow_preempt_other"},
    said.NewApplication: {"gang_style"},
    said.AllocationRelease: {"allocation_key"},
    said.AskRelease: {"termination"},
}
ONLY_2021: dict[type, set[str]] = {said.NewAsk: {"constraint"}, said.ExistingAllocation: {"queue"}}
NEITHER = {"unreadable"}
"""What no message says as such: it is what could not be read."""


def any_item(item_type: type, unsaid: dict[type, set[str]], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Items with any content, but for the fields that the dialect does not have."""
    by_type = {
        "str": TEXT,
        "bool": st.booleans(),
        "Resources": RESOURCES,
        "Resources | None": st.none() | RESOURCES,
        "Mapping[str, str]": TAGS,
        "tuple[str, ...]": st.lists(TEXT, max_size=2).map(tuple),
        "TerminationType": st.sampled_from(TerminationType),
        "PlacementConstraint | None": CONSTRAINTS,
        "int": INT32,
    }
    fields = {
        field.name: given.get(field.name, by_type.get(str(field.type), st.nothing()))
        for field in dataclasses.fields(item_type)
        if field.name not in unsaid.get(item_type, set()) | NEITHER
    }
    return st.builds(item_type, **fields)


def any_command(unsaid: dict[type, set[str]]) -> st.SearchStrategy[WireCommand]:
    def items(item_type: type, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(any_item(item_type, unsaid, **given), max_size=3)

    existing = items(said.ExistingAllocation, priority=PRIORITIES)
    node = any_item(
        said.NodeUpdate,
        unsaid,
        action=st.sampled_from([action for action in NodeAction if action is not NodeAction.CREATE_DRAIN]),
        existing=existing,
        action_number=st.just(0),
        partition=st.just(""),  # it stands in the attributes
    ).map(_numbered)
    asks = items(said.NewAsk, priority=PRIORITIES, execution_timeout_ms=INT64)
    return st.one_of(
        st.builds(said.UpdateNodes, st.just(RM), st.lists(node, max_size=3).map(_creates_first)),
        st.builds(
            UpdateApplications,
            st.just(RM),
            items(said.NewApplication, execution_timeout_ms=INT64),
            items(said.ApplicationRemoval),
        ),
        st.builds(UpdateAllocations, st.just(RM), asks, items(said.AllocationRelease), items(said.AskRelease)),
    )


def _numbered(node: said.NodeUpdate) -> said.NodeUpdate:
    """With the number that its action has on the wire of 2023-06."""
    number = 99 if node.action is NodeAction.UNKNOWN else int(node.action)
    existing = node.existing if node.action is NodeAction.CREATE else []
    return dataclasses.replace(node, action_number=number, existing=existing)


def _creates_first(nodes: list[said.NodeUpdate]) -> list[said.NodeUpdate]:
    """In the order of 2021-02, where these are different lists."""
    return sorted(nodes, key=lambda node: node.action is not NodeAction.CREATE)


def _says_why(fact: Fact) -> bool:
    """An unknown termination type, which 2021-02 has not, only answers an unknown one."""
    return getattr(fact, "termination", None) is not TerminationType.UNKNOWN_TERMINATION_TYPE


def items_of(told: list[Command]) -> list[Any]:
    """All items, in the order in which the scheduler comes to them."""
    found: list[Any] = []
    for command in told:
        for field in dataclasses.fields(command):
            if field.name != "rm_id":
                found += getattr(command, field.name)
    for item in found:
        if isinstance(item, said.NodeUpdate) and item.action is not NodeAction.UNKNOWN:
            item.action_number = 0  # each dialect has its own
    return found


@given(any_command(ONLY_2021))
def test_every_command_survives_the_wire_of_2023(command: WireCommand) -> None:
    assert items_of(Speaker2023().through_the_wire(command)) == items_of([command])


@given(
    st.one_of(
        any_command(ONLY_2023),
        st.builds(
            said.ReportUtilization,
            st.just(RM),
            st.lists(st.builds(said.Utilization, TEXT, RESOURCES), max_size=3),
        ),
    )
)
def test_every_command_survives_the_wire_of_2021(command: WireCommand) -> None:
    assert items_of(Speaker2021().through_the_wire(command)) == items_of([command])


@given(CONSTRAINTS)
def test_every_constraint_survives_the_wire_of_2021(constraint: said.PlacementConstraint | None) -> None:
    """Few of the commands above have one, and fewer an affinity."""
    command = UpdateAllocations(RM, asks=[said.NewAsk("app", "k", Resources(), constraint=constraint)])
    assert items_of(Speaker2021().through_the_wire(command)) == items_of([command])


@given(any_facts(*get_args(Fact)))
def test_what_is_heard_is_the_same_in_both(told: list[Fact]) -> None:
    told = list(filter(_says_why, told))
    assert Speaker2021().told(told, RM) == Speaker2023().told(told, RM)


def test_the_story_of_a_resource_manager_is_the_same_in_both_dialects() -> None:
    stories = [tell(Teller(speaker)) for speaker in (Speaker2023(), Speaker2021(), None)]
    assert stories[0].facts == stories[1].facts == stories[2].facts
    assert stories[0].heard == stories[1].heard
    assert {heard.what for heard in stories[0].heard} == ALL_KINDS
    requested = {fact.termination for fact in stories[0].facts if isinstance(fact, ReleaseRequested)}
    assert requested == {
        TerminationType.TIMEOUT,
        TerminationType.PREEMPTED_BY_SCHEDULER,
        TerminationType.PLACEHOLDER_REPLACED,
    }


@each_seed([1, 2], few=0)
def test_a_long_history_gives_the_same_facts_in_both_dialects(seed: int) -> None:
    history = simulate(seed, 300, Observations())[0]

    def facts_by(speaker: Speaker) -> Iterator[list[Fact]]:
        scheduler = new_scheduler()
        for now_ns, command in history:
            for one in commonly(command):
                heard = speaker.through_the_wire(one) if isinstance(one, WIRE_COMMANDS) else [one]
                yield [fact for each in heard for fact in scheduler.step(now_ns, each)]

    placed = 0
    for in_2023, in_2021 in zip(facts_by(Speaker2023()), facts_by(Speaker2021()), strict=True):
        assert in_2023 == in_2021
        placed += sum(isinstance(fact, Allocated) for fact in in_2023)
    assert placed > 20
