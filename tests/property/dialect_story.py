"""One story that has everything in it, told by a resource manager in a dialect of its choice.

Only what both dialects can say is said. How the later one starts a preemption is a field of its asks, so here it is an
ask that may run on one node only, which is a tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedulerd.core.language.commands import (
    Command,
    NodeAction,
    NodeUpdate,
    ReportUtilization,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.specs import SECOND_NS
from tests.dialects import Heard, Speaker
from tests.unit.core.builders import (
    Conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    a_root,
    a_scheduler,
    an_app,
    an_ask,
    an_existing,
    of,
)
from tests.unit.core.gang_builders import a_gang, real
from tests.unit.core.preemption_builders import a_daemon, wait

WIRE_COMMANDS = (UpdateNodes, UpdateApplications, UpdateAllocations, ReportUtilization)


class Teller(Conversation):
    """Says everything in a dialect, or straight to the scheduler with None."""

    def __init__(self, speaker: Speaker | None) -> None:
        super().__init__(a_scheduler())
        self._speaker = speaker
        self.facts: list[Fact] = []
        self.heard: list[Heard] = []

    def step(self, command: Command) -> list[Fact]:
        told: list[Command] = [command]
        if self._speaker is not None and isinstance(command, WIRE_COMMANDS):
            told = self._speaker.through_the_wire(command)
        facts = [fact for one in told for fact in super(Teller, self).step(one)]
        self.facts += facts
        if self._speaker is not None:
            self.heard += self._speaker.told(facts, self.rm_id)
        return facts

    def confirm_all(self, facts: list[Fact]) -> list[Fact]:
        """Everything that was asked to go is gone."""
        answered: list[Fact] = []
        for request in of(ReleaseRequested, facts):
            answered += self.release(
                application_id=request.application_id, uuid=request.uuid, termination=request.termination
            )
        return answered + self.schedule()


def tell(talk: Teller) -> Teller:
    """Register, nodes, gang, replacement, preemption, timeouts, removal."""
    talk.register(a_partition_spec(a_root(a_queue_spec("a"), a_queue_spec("b", max={"memory": 30}))))
    talk.connect()
    _nodes(talk)
    _gang(talk)
    _preemption(talk)
    _timeouts(talk)
    _removal(talk)
    return talk


def _nodes(talk: Teller) -> None:
    talk.apps(an_app("old"), an_app("refused", "root.nowhere"))
    running = an_existing("e1", "k1", "old", memory=5, tags={"name": "it"}, priority=7)
    talk.nodes(a_node("n1", {"memory": 60}, running, attributes={"si/hostname": "one"}))
    talk.nodes(a_node("n2", {"memory": 20}), a_node("n2", {"memory": 1}))
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
    talk.nodes(a_node("n2", action=NodeAction.DRAIN_TO_SCHEDULABLE))
    talk.nodes(a_node("n2", {"memory": 40}, occupied={"memory": 10}, action=NodeAction.UPDATE))
    talk.nodes(a_node("unknown", action=NodeAction.UPDATE))
    talk.asks(an_ask("k2", app="old", priority=1000), an_ask("negative", -1, app="old"), an_ask("none", 1, 0, "old"))
    talk.schedule()
    talk.release(application_id="old", uuid="e1")
    talk.release(application_id="old", uuid="never was")


def _gang(talk: Teller) -> None:
    talk.apps(a_gang("gang", 20, tags={"a": "b"}), a_gang("large", 40, "root.b"))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(real("r", app="gang", tags={"pod": "r"}))
    talk.confirm_all(talk.schedule())
    talk.confirm_all(wait(talk, 900 * SECOND_NS))
    talk.asks(an_ask("taken back", 1000, app="gang"))
    talk.release_asks(application_id="gang", allocation_key="taken back")


def _preemption(talk: Teller) -> None:
    talk.apps(an_app("daemons"))
    talk.asks(an_ask("fill", 10, 9, "old"))
    talk.schedule()
    talk.asks(a_daemon("d", "n1"))
    talk.confirm_all(wait(talk, 60 * SECOND_NS))
    talk.release_asks(application_id="old", allocation_key="fill")


def _timeouts(talk: Teller) -> None:
    talk.nodes(a_node("n3", {"memory": 100}))
    talk.apps(an_app("short", execution_timeout_ms=5_000), a_gang("late", 30, execution_timeout_ms=1_000))
    talk.asks(an_ask("one", app="short"), an_ask("two", app="old", execution_timeout_ms=3_000))
    talk.asks(a_placeholder("q", 60, 3, "late"))
    talk.schedule()
    talk.confirm_all(wait(talk, 10 * SECOND_NS))


def _removal(talk: Teller) -> None:
    talk.remove("old", "unknown")
    talk.nodes(a_node("n3", action=NodeAction.DECOMISSION))
    talk.remove("gang", "daemons", "short", "late")
    wait(talk, 60 * SECOND_NS)


def _common_node(node: NodeUpdate) -> NodeUpdate:
    if node.action is NodeAction.CREATE_DRAIN:
        return replace(node, action=NodeAction.CREATE, action_number=0)
    return replace(node, action_number=99) if node.action is NodeAction.UNKNOWN else node


def commonly(command: Command) -> Iterator[Command]:
    """The command as both dialects can say it, in pieces that have one order in both."""
    if isinstance(command, UpdateNodes):
        for node in command.nodes:
            yield UpdateNodes(command.rm_id, [_common_node(node)])
    elif isinstance(command, UpdateApplications):
        yield UpdateApplications(command.rm_id, new=[replace(one, gang_style="") for one in command.new])
        yield UpdateApplications(command.rm_id, remove=command.remove)
    elif isinstance(command, UpdateAllocations):
        yield UpdateAllocations(
            command.rm_id,
            asks=[
                replace(one, originator=False, allow_preempt_self=True, allow_preempt_other=False)
                for one in command.asks
            ],
            releases=[replace(one, allocation_key="") for one in command.releases],
            ask_releases=[replace(one, termination=TerminationType.STOPPED_BY_RM) for one in command.ask_releases],
        )
    else:
        yield command
