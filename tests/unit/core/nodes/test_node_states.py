"""Every legal move of a node through the scheduler, and every illegal one refused: the node stays as it is."""

from __future__ import annotations

from itertools import product

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import Fact, NodeChanged, NodeRejected
from schedulerd.core.language.lifecycles import NodeState as N
from schedulerd.core.language.lifecycles import NodeTrigger as A
from tests.loops import each_row
from tests.unit.core.builders import Conversation, a_conversation, a_node, only
from tests.unit.core.life_tables import NODE_TABLE

ACTIONS = {
    A.CREATE: (NodeAction.CREATE, {}),
    A.CREATE_DRAIN: (NodeAction.CREATE_DRAIN, {}),
    A.DRAIN: (NodeAction.DRAIN_NODE, {}),
    A.SCHEDULE: (NodeAction.DRAIN_TO_SCHEDULABLE, {}),
    A.READY: (NodeAction.UPDATE, {"ready": "true"}),
    A.NOT_READY: (NodeAction.UPDATE, {"ready": "false"}),
    A.DECOMMISSION: (NodeAction.DECOMISSION, {}),
}
LEAD_TO = {
    N.REMOVED: (),
    N.SCHEDULABLE: (A.CREATE,),
    N.NOT_READY: (A.CREATE, A.NOT_READY),
    N.DRAINING: (A.CREATE_DRAIN,),
}
"""The triggers that lead to a state."""


def fire(talk: Conversation, trigger: A) -> list[Fact]:
    action, attributes = ACTIONS[trigger]
    return talk.nodes(a_node("n1", {"memory": 10}, action=action, attributes=attributes))


@each_row(("state", "trigger"), list(product(N, A)))
def test_a_node_moves_by_its_table(state: N, trigger: A) -> None:
    talk = a_conversation()
    for before in LEAD_TO[state]:
        fire(talk, before)
    known = talk.model().nodes.get("n1")
    assert (known.state if known is not None else N.REMOVED) is state
    facts = fire(talk, trigger)
    if (state, trigger) in NODE_TABLE:
        assert only(NodeChanged, facts).state is NODE_TABLE[state, trigger]
    else:
        assert only(NodeRejected, facts) == facts[0]
        assert talk.model().nodes.get("n1") is known
        assert known is None or known.state is state


def test_a_node_that_is_not_ready_is_still_not_ready_when_it_drains_no_longer() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}, action=NodeAction.CREATE_DRAIN, attributes={"ready": "false"}))
    assert talk.node().state == N.DRAINING
    assert only(NodeChanged, fire(talk, A.SCHEDULE)).state is N.NOT_READY
