"""A small busy state, reached by commands alone, for tests that corrupt it on purpose."""

from __future__ import annotations

from copy import deepcopy

from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from tests.sim.clusters import PARTITIONS
from tests.sim.simulation import START_NS, new_scheduler

RM = "rm-b"

STORY: tuple[Command, ...] = (
    RegisterResourceManager(RM, PARTITIONS[RM]),
    ConnectResourceManager(RM),
    UpdateNodes(
        RM,
        [
            NodeUpdate("node-1", NodeAction.CREATE, capacity=Resources(memory=50, vcore=10)),
            NodeUpdate("node-2", NodeAction.CREATE, capacity=Resources(memory=60, vcore=10)),
            NodeUpdate("node-3", NodeAction.CREATE_DRAIN, capacity=Resources(memory=90, vcore=10)),
        ],
    ),
    UpdateApplications(
        RM,
        new=[
            NewApplication("app-1", "root.batch.fifo", user="ann"),
            NewApplication("app-2", "root.open", user="bob"),
            NewApplication("app-3", "root.batch.fair", user="ann"),
        ],
    ),
    UpdateAllocations(
        RM,
        asks=[
            NewAsk("app-1", "k1", Resources(memory=20, vcore=1), max_allocations=5),
            NewAsk("app-2", "k1", Resources(memory=10, vcore=1), max_allocations=2),
            NewAsk("app-2", "big", Resources(memory=70)),
            NewAsk("app-3", "k1", Resources(memory=10)),
        ],
    ),
    RunCycle(50),
    UpdateAllocations(RM, releases=[AllocationRelease("app-3", allocation_key="k1")]),
)
"""Ends with app-1 over its queue's quota with one ask, app-2 running with one no node fits, app-3 completing."""


class SmallWorld:
    """The state after the story, with what the corruptions below take hold of; nothing in it is shared with another."""

    def __init__(self) -> None:
        self.scheduler = new_scheduler()
        self.facts: list[tuple[Command, list[Fact]]] = []
        for command in deepcopy(STORY):
            self.facts.append((command, self.scheduler.step(START_NS, command)))

    @property
    def partition(self) -> Partition:
        return self.scheduler.cluster.resource_managers[RM].partitions["default"]

    def application(self, number: int) -> Application:
        return self.partition.applications[f"app-{number}"]

    def node(self, number: int) -> Node:
        return self.partition.nodes[f"node-{number}"]

    def queue(self, path: str) -> Queue:
        found = self.partition.root.find(path)
        assert found is not None
        return found
