"""Situations told move by move, as chance alone hardly ever gets there; what comes of them is up to chance again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from schedulerd.core.language.commands import (
    ApplicationRemoval,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from tests.sim.clusters import IDLE_NS, TIMEOUTS
from tests.sim.world import Move, Sleep

PARTITION = "default"
NAMES = ("rival-1", "rival-2")
RACK = "rack"
"""The only node with `tpu`."""


@dataclass(frozen=True, slots=True)
class Members:
    """One task group as it was planned."""

    name: str
    size: Resources
    count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A gang as its submitter sees it."""

    application: NewApplication
    groups: tuple[Members, ...]


Plot = tuple[list[Plan], list[Move]]


def two_for_a_rack(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """Two gangs of three that hold two each, on a rack that has room for four: the later one has to give way."""
    one = Members("g0", Resources(memory=1, tpu=1), 3)
    first, second = (_plan(name, style, one) for name in NAMES)
    return [first, second], [
        *_enter(rm_id, (first, second), tpu=4, rack_is_known=rack_is_known),
        *_asked(rm_id, [*_placeholders(first)[:2], *_placeholders(second)]),
        *_asked(rm_id, _placeholders(first)),
    ]


def two_for_a_quota(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """One gang holds a third of 60 and finds no room for the rest; one of 40 must not start beside it in 80."""
    size, leaf = Resources(memory=20), "root.batch.fifo"
    first = _plan(NAMES[0], style, Members("g0", size.plus(Resources(tpu=1)), 3), queue=leaf)
    second = _plan(NAMES[1], style, Members("g0", size, 2), queue=leaf)
    return [first, second], [
        *_enter(rm_id, (first, second), tpu=1, rack_is_known=rack_is_known),
        *_asked(rm_id, _placeholders(first)),
        *_asked(rm_id, _placeholders(second)),
    ]


def out_of_time_in_a_swap(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """A gang that never asks for all it announced is given up while a real ask waits for a placeholder to go."""
    plan = _plan(NAMES[0], style, Members("g0", Resources(memory=1, tpu=1), 3))
    return [plan], [
        *_enter(rm_id, (plan,), tpu=4, rack_is_known=rack_is_known),
        *_asked(rm_id, _placeholders(plan)[:2]),
        *_asked(rm_id, _reals(plan, "g0")[:1]),
        Sleep(TIMEOUTS.placeholder_ns),
    ]


def two_groups_alike(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """The real asks of one group find placeholders of their size in the other one as well."""
    size = Resources(memory=1, tpu=1)
    plan = _plan(NAMES[0], style, Members("g0", size, 2), Members("g1", size, 2))
    return [plan], [
        *_enter(rm_id, (plan,), tpu=4, rack_is_known=rack_is_known),
        *_asked(rm_id, _placeholders(plan)),
        *_asked(rm_id, _reals(plan, "g1")),
    ]


def a_rack_that_shrinks(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """Room is reserved for a gang beside a complete one, until the rack cannot hold the whole gang any longer."""
    one = Members("g0", Resources(memory=1, tpu=1), 3)
    first, second = (_plan(name, style, one) for name in NAMES)
    smaller = NodeUpdate(RACK, NodeAction.UPDATE, PARTITION, Resources(memory=100, tpu=2))
    return [first, second], [
        *_enter(rm_id, (first, second), tpu=4, rack_is_known=rack_is_known),
        *_asked(rm_id, _placeholders(first)),
        *_asked(rm_id, _placeholders(second)),
        Sleep(TIMEOUTS.reservation_delay_ns),
        RunCycle(50),
        UpdateNodes(rm_id, [smaller]),
        RunCycle(50),
    ]


def placeholders_that_no_ask_takes(rm_id: str, style: str, *, rack_is_known: bool) -> Plot:
    """A gang is complete, and its real asks do not come."""
    plan = _plan(NAMES[0], style, Members("g0", Resources(memory=1, tpu=1), 2))
    return [plan], [
        *_enter(rm_id, (plan,), tpu=4, rack_is_known=rack_is_known),
        *_asked(rm_id, _placeholders(plan)),
        Sleep(IDLE_NS),
    ]


PLOTS = (
    placeholders_that_no_ask_takes,
    two_for_a_rack,
    two_for_a_quota,
    out_of_time_in_a_swap,
    two_groups_alike,
    a_rack_that_shrinks,
)


def _plan(application_id: str, style: str, *groups: Members, queue: str = "root.open") -> Plan:
    whole = Resources()
    for group in groups:
        whole.add(group.size.items(), group.count)
    application = NewApplication(application_id, queue, PARTITION, user="ann", placeholder_ask=whole, gang_style=style)
    return Plan(application, groups)


def _enter(rm_id: str, plans: Sequence[Plan], *, tpu: int, rack_is_known: bool) -> list[Move]:
    """Whatever had their names goes, and they find a rack with so much of what only it has."""
    action = NodeAction.UPDATE if rack_is_known else NodeAction.CREATE
    return [
        UpdateApplications(rm_id, remove=[ApplicationRemoval(one, PARTITION) for one in NAMES]),
        UpdateNodes(rm_id, [NodeUpdate(RACK, action, PARTITION, Resources(memory=100, tpu=tpu))]),
        UpdateApplications(rm_id, new=[plan.application for plan in plans]),
    ]


def _asked(rm_id: str, asks: Iterable[NewAsk]) -> list[Move]:
    return [UpdateAllocations(rm_id, asks=list(asks)), RunCycle(50)]


def _placeholders(plan: Plan) -> list[NewAsk]:
    real = [ask for group in plan.groups for ask in _reals(plan, group.name)]
    return [replace(ask, allocation_key=f"ph-{ask.allocation_key[2:]}", placeholder=True) for ask in real]


def _reals(plan: Plan, name: str) -> list[NewAsk]:
    return [
        NewAsk(plan.application.application_id, f"r-{name}-{number}", group.size, PARTITION, task_group=name)
        for group in plan.groups
        if group.name == name
        for number in range(group.count)
    ]
