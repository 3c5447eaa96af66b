"""What a partition knows about one placement constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.language.commands import Operator
from schedulerd.core.state.constraints.expressions import first_unmet

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.affinity import Affinity
    from schedulerd.core.state.constraints.constraint import Constraint
    from schedulerd.core.state.model.node import Node


class Rule:
    __slots__ = ("affinity", "constraint", "listed", "others", "visits")

    def __init__(self, constraint: Constraint, affinity: Affinity | None) -> None:
        self.constraint = constraint
        self.affinity = affinity
        self.listed = tuple(one for one in constraint.node if one.operator is Operator.IN)
        """The IN expressions about nodes. Their values lead to groups of nodes."""
        self.others = tuple(one for one in constraint.node if not self.listed or one is not self.listed[0])
        """All expressions about nodes except the first IN expression."""
        self.visits = 0
        """Nodes visited by walks beyond `constraints.WALK_VISITS` for each, since this rule was made or pools were last
        dropped."""

    def allows(self, node: Node) -> bool:
        """Whether the attributes of the node meet the expressions."""
        return first_unmet(self.constraint.node, node.attribute) is None
