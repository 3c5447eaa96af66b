"""The callback stream of an RM connects and disconnects, and its predicate results are carried out (SEMANTICS B3, B4).

A result is about the state when the check began. It is judged again with the state at its arrival. If it no longer
holds, nothing is done, and the next cycle decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import ConnectCallbacks, PredicateResult
from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode
from schedulerd.core.language.facts.predicates import PredicateNotWanted, PredicateOutcome
from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.actions import predicate_checks, reservations, slots, swaps
from schedulerd.core.state.actions.allocating import allocate
from schedulerd.core.state.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import admits_group
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext


class OnAnswer(NamedTuple):
    """What the feature that asked does with an answer (`core.reactions`)."""

    agreed: Callable[[StepContext, PredicateCheck, int], None]
    """With the index that the RM answered."""
    refused: Callable[[StepContext, PredicateCheck, str], None]
    """With the reason."""


OnAnswers: TypeAlias = Mapping[Purpose, OnAnswer]


def connect(context: StepContext, rm: ResourceManager, command: ConnectCallbacks) -> None:
    """A callback stream connected: the RM takes part in what the command says. Checks of an older stream are void."""
    had_holds = rm.callbacks.holds
    predicate_checks.forget_all(context, rm)
    rm.callbacks.connect(command)
    _on_holds(context, rm, had_holds)


def disconnect(context: StepContext, rm: ResourceManager) -> None:
    """The callback stream is gone: open checks are void, and asks are allocated without predicates (SEMANTICS B3)."""
    had_holds = rm.callbacks.holds
    predicate_checks.forget_all(context, rm)
    rm.callbacks.disconnect()
    _on_holds(context, rm, had_holds)


def _on_holds(context: StepContext, rm: ResourceManager, had_holds: bool) -> None:
    """A stream is new or gone: whether the RM is asked about slots, and what it is to know of them."""
    for partition in rm.partitions.values():
        if rm.callbacks.holds:
            slots.tell_held(context, partition)
        if rm.callbacks.holds is not had_holds:
            slots.review_all(partition)


def check(on_answers: OnAnswers, context: StepContext, rm: ResourceManager, result: PredicateResult) -> Change:
    """Validates a predicate result. For two results of one call, the first counts."""
    predicate_check = rm.callbacks.open_predicate_checks.get(result.call_id)
    if predicate_check is None:
        reason = f"callID {result.call_id} is not open: it is answered already, no longer needed, or was never made"
        return partial(ignore, context, rm, result, Mistake(RejectCode.INVALID_STATE, reason))
    if result.refusal:
        return partial(_refused, on_answers, context, predicate_check, PredicateOutcome.REFUSED, result.refusal)
    if predicate_check.purpose is Purpose.PREEMPT and not 0 <= result.index < (count := _offered(predicate_check)):
        reason = f"index {result.index} is of none of the {count} victims it was asked about"
        return partial(_refused, on_answers, context, predicate_check, PredicateOutcome.REFUSED, reason)
    return partial(_agreed, on_answers, context, predicate_check, result.index)


def ignore(context: StepContext, rm: ResourceManager, result: PredicateResult, mistake: Mistake) -> None:
    context.emit(ItemIgnored(rm.rm_id, "", str(result.call_id), mistake.code, mistake.reason))


def _offered(predicate_check: PredicateCheck) -> int:
    """Number of allocations that the call names."""
    return len(predicate_check.victims) + len(predicate_check.further)


def on_timeout(on_answers: OnAnswers, context: StepContext, predicate_check: PredicateCheck) -> None:
    """No result arrived in time, which counts as a refusal."""
    timeout_s = context.cluster.timeouts.predicates_ns / SECOND_NS
    context.emit(PredicateNotWanted(predicate_check.application.rm_id, predicate_check.call_id))
    _refused(on_answers, context, predicate_check, PredicateOutcome.TIMED_OUT, f"no result within {timeout_s:g} s")


def _agreed(on_answers: OnAnswers, context: StepContext, predicate_check: PredicateCheck, index: int) -> None:
    predicate_checks.finish(context, predicate_check, PredicateOutcome.AGREED, "")
    partition = context.partition_of(predicate_check.application)
    if predicate_check.purpose is Purpose.SWAP and swaps.swap_agreed(context, predicate_check):
        return
    if (
        predicate_check.purpose is Purpose.ALLOCATE
        and predicate_check.reservation is None
        and _may_be_placed(partition, predicate_check)
    ):
        partition.moves += 1
        allocate(context, partition, predicate_check.application, predicate_check.ask, predicate_check.node)
        return
    predicate_checks.return_ask(partition, predicate_check)
    if predicate_check.purpose in on_answers:
        on_answers[predicate_check.purpose].agreed(context, predicate_check, index)
    elif predicate_check.reservation is not None:
        predicate_check.reservation.agreed_at = predicate_check.changes
        partition.reservations_to_check[predicate_check.node] = None


def _refused(
    on_answers: OnAnswers,
    context: StepContext,
    predicate_check: PredicateCheck,
    outcome: PredicateOutcome,
    reason: str,
) -> None:
    partition = context.partition_of(predicate_check.application)
    predicate_checks.finish(context, predicate_check, outcome, reason)
    if predicate_check.purpose is not Purpose.PREEMPT:
        predicate_checks.remember(context, predicate_check, reason)
    predicate_checks.return_ask(partition, predicate_check)
    if predicate_check.purpose in on_answers:
        on_answers[predicate_check.purpose].refused(context, predicate_check, reason)
    elif predicate_check.reservation is not None:
        reservations.end(context, predicate_check.reservation, ReservationEnd.NODE)


def _may_be_placed(partition: Partition, predicate_check: PredicateCheck) -> bool:
    """Whether the ask can be allocated in the room that the check held, by the current nodes, quotas and limits."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    queue, group = application.queue, ask.group
    if group is None or not application.propagates_demand or not admits_group(partition, application, group):
        return False
    key = group.pending_class.quota_key
    return (
        partition.refusal(ask.request_class, node) is None
        and highest_blocked(queue, ask.request_class.items, key) is None
    )
