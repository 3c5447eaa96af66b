"""No more is ever pending of an ask than it asks for and does not have, however often it comes (SEMANTICS E1).

The resource manager hears of the end of every ask with the right type, and of nothing else (SEMANTICS I7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from schedulerd.core.language.commands import Command, TerminationType, UpdateAllocations
from schedulerd.core.language.facts.fact import AskAdded, AskWithdrawn, EarlyAskReleased, Fact, WithdrawCause
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.views.values import ResourceManagerView
from tests.sim.rm_memory import ANSWERED, plain_name

Name = tuple[str, str, str, str]
"""Resource manager, partition, application and key."""


class AskInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._before: Sequence[ResourceManagerView] = ()

    def after(self, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]) -> Iterator[str]:
        """Of what too much is pending, and what is told wrongly, as sentences; `state` is the one after the step."""
        for fact in facts:
            if isinstance(fact, AskWithdrawn | EarlyAskReleased) and fact.termination not in _due(command, fact):
                yield f"the end of ask {fact.allocation_key} of {fact.application_id} is told with {fact.termination}"
        if isinstance(command, UpdateAllocations):
            yield from self._taken_while_failing(command, facts)
            wanted: dict[Name, int] = {}
            held: Counter[Name] | None = None
            for ask in command.asks:
                name = command.rm_id, plain_name(ask.partition), ask.application_id, ask.allocation_key
                wanted[name] = max(ask.max_allocations, wanted.get(name, 0))
            for fact in facts:
                if isinstance(fact, AskAdded) and not fact.awaited_placeholder:
                    name = fact.rm_id, fact.partition, fact.application_id, fact.allocation_key
                    held = held if held is not None else _held(self._before)
                    if fact.count + held[name] > wanted.get(name, fact.count + held[name]):
                        yield f"{fact.count} of {name} are pending and {held[name]} there, of {wanted[name]}"
        self._before = state

    def _taken_while_failing(self, command: UpdateAllocations, facts: Sequence[Fact]) -> Iterator[str]:
        """An application that is Failing takes no asks (SEMANTICS I14)."""
        if not command.asks:
            return
        failing = {
            (rm.rm_id, partition.name, one.application_id)
            for rm in self._before
            for partition in rm.partitions
            for one in partition.applications
            if one.state == ApplicationState.FAILING
        }
        for fact in facts:
            if not isinstance(fact, AskAdded) or fact.awaited_placeholder:
                continue
            if (fact.rm_id, fact.partition, fact.application_id) in failing:
                yield f"ask {fact.allocation_key} is taken while {fact.application_id} is Failing"


def _due(command: Command, fact: AskWithdrawn | EarlyAskReleased) -> list[TerminationType | None]:
    """With which types its resource manager may be told; None if it is not."""
    if isinstance(fact, AskWithdrawn) and fact.cause in (WithdrawCause.TIMEOUT, WithdrawCause.APPLICATION_ENDED):
        return [TerminationType.TIMEOUT]
    if isinstance(fact, AskWithdrawn) and fact.cause is WithdrawCause.APPLICATION_REMOVED:
        return [TerminationType.STOPPED_BY_RM]
    if isinstance(fact, AskWithdrawn) and fact.cause is not WithdrawCause.RELEASED_BY_RM:
        return [None]
    releases = command.ask_releases if isinstance(command, UpdateAllocations) else []
    return [
        one.termination
        for one in releases
        if plain_name(one.partition) == fact.partition
        and one.application_id in ("", fact.application_id)
        and one.allocation_key in ("", fact.allocation_key)
        and one.termination in ANSWERED
    ]


def _held(state: Sequence[ResourceManagerView]) -> Counter[Name]:
    """How many allocations of each ask there are."""
    return Counter(
        (rm.rm_id, partition.name, one.application_id, one.allocation_key)
        for rm in state
        for partition in rm.partitions
        for node in partition.nodes
        for one in node.allocations
    )
