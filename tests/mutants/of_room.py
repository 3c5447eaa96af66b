"""Mutants of rooms of nodes."""

from __future__ import annotations

from typing import Any

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass
from tests.mutants.changes import By, Replaced, nothing
from tests.mutants.finders import Simulated
from tests.mutants.mutant import Mutant
from tests.mutants.of_amounts import one_more
from tests.mutants.proofs import ANY_WORLD
from tests.mutants.rules import Rule
from tests.sim.crowded_world import CrowdedWorld


def takes_daemons(original: By, partition: Partition, request_class: RequestClass, node: Node) -> Any:
    return None if request_class.required_node == node.node_id else original(partition, request_class, node)


def without_others(original: By, node: Node, capacity: Resources | None, occupied: Resources | None) -> None:
    original(node, capacity, occupied)
    node.available = node.capacity.minus(node.allocated)
    node.rescore()


MUTANTS = (
    Mutant(
        "an exact fit is none",
        Rule.ROOM,
        Replaced(Resources.lacks, lambda original, room, items: original(room, one_more(items))),
        (ANY_WORLD,),
    ),
    Mutant("a placeholder of any size will do", Rule.ROOM, Replaced(Resources.lacks, nothing), (ANY_WORLD,)),
    Mutant("a node that others occupy has room", Rule.ROOM, Replaced(Node.offer, without_others), (ANY_WORLD,)),
    Mutant(
        "a node that is not ready takes daemons",
        Rule.ROOM,
        Replaced(Partition._state_refusal, takes_daemons),
        (Simulated((CrowdedWorld,), steps=300, seeds=40),),
    ),
    Mutant("a drained node stays open", Rule.ROOM, Replaced(commit.close_node, nothing), (ANY_WORLD,)),
    Mutant("a swap takes room that is not there", Rule.ROOM, Replaced(Partition.refusal, nothing), (ANY_WORLD,)),
)
