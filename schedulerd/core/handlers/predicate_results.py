"""The resource manager's callback stream: it comes, it goes, and what it answers is carried out (SEMANTICS B3, B4).

A result is about the state it was asked in. Before anything is done it is judged again by the state it comes to, like
a decision that has been waiting; what does not hold any longer is left alone, and looked at anew by the next cycle.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.callback_facts import PredicateNotWanted, PredicateOutcome
from schedulerd.core.checks import Mistake
from schedulerd.core.commands import ConnectCallbacks, PredicateResult
from schedulerd.core.facts import ItemIgnored, RejectCode
from schedulerd.core.handlers import gangs, predicate_checks, preemption, reservations, reserving
from schedulerd.core.handlers.allocating import allocate
from schedulerd.core.handlers.taking import Change
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.preemption_facts import ReservationEnd
from schedulerd.core.quotas.rules import highest_blocked
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.step_context import StepContext


def connect(context: StepContext, rm: ResourceManager, command: ConnectCallbacks) -> None:
    """From now on it is asked, and told, what it says here. What an older stream was asked is void."""
    predicate_checks.forget_all(context, rm)
    rm.callbacks.connect(command)


def disconnect(context: StepContext, rm: ResourceManager) -> None:
    """Nobody answers: what was asked is void, and its asks are placed on what the core knows itself (SEMANTICS B3)."""
    predicate_checks.forget_all(context, rm)
    rm.callbacks.disconnect()


def check(context: StepContext, rm: ResourceManager, result: PredicateResult) -> Change:
    """The ask goes on, or may not run there; of two answers to one call the first counts."""
    predicate_check = rm.callbacks.open_predicate_checks.get(result.call_id)
    if predicate_check is None:
        reason = f"callID {result.call_id} is not open: it is answered, not wanted any longer, or was never asked"
        return partial(ignore, context, rm, result, Mistake(RejectCode.INVALID_STATE, reason))
    if result.refusal:
        return partial(_refused, context, predicate_check, PredicateOutcome.REFUSED, result.refusal)
    if predicate_check.purpose is Purpose.PREEMPT and not 0 <= result.index < (count := _offered(predicate_check)):
        reason = f"index {result.index} is of none of the {count} victims it was asked about"
        return partial(_refused, context, predicate_check, PredicateOutcome.REFUSED, reason)
    return partial(_agreed, context, predicate_check, result.index)


def ignore(context: StepContext, rm: ResourceManager, result: PredicateResult, mistake: Mistake) -> None:
    context.say(ItemIgnored(rm.rm_id, "", str(result.call_id), mistake.code, mistake.reason))


def _offered(predicate_check: PredicateCheck) -> int:
    """How many victims the call names."""
    return len(predicate_check.victims) + len(predicate_check.further)


def on_timeout(context: StepContext, predicate_check: PredicateCheck) -> None:
    """There is no result in time, which is a refusal."""
    timeout_s = context.cluster.timeouts.predicates_ns / SECOND_NS
    context.say(PredicateNotWanted(predicate_check.application.partition.rm_id, predicate_check.call_id))
    _refused(context, predicate_check, PredicateOutcome.TIMED_OUT, f"no result within {timeout_s:g} s")


def _agreed(context: StepContext, predicate_check: PredicateCheck, index: int) -> None:
    predicate_checks.finish(context, predicate_check, PredicateOutcome.AGREED, "")
    partition = predicate_check.application.partition
    if predicate_check.purpose is Purpose.SWAP and gangs.swap_agreed(context, predicate_check):
        return
    if (
        predicate_check.purpose is Purpose.PLACE
        and predicate_check.reservation is None
        and _may_be_placed(predicate_check)
    ):
        partition.moves += 1
        allocate(context, predicate_check.application, predicate_check.ask, predicate_check.node)
        return
    predicate_checks.give_back(predicate_check)
    if predicate_check.purpose is Purpose.KEEP:
        reserving.keep_agreed(context, predicate_check)
    elif predicate_check.purpose is Purpose.PREEMPT:
        preemption.agreed(predicate_check, index)
    elif predicate_check.reservation is not None:
        predicate_check.reservation.agreed_at = predicate_check.changes
        partition.ready[predicate_check.node] = None


def _refused(context: StepContext, predicate_check: PredicateCheck, outcome: PredicateOutcome, reason: str) -> None:
    predicate_checks.finish(context, predicate_check, outcome, reason)
    if predicate_check.purpose is not Purpose.PREEMPT:
        predicate_checks.remember(context, predicate_check, reason)
    predicate_checks.give_back(predicate_check)
    if predicate_check.purpose is Purpose.KEEP:
        reserving.keep_refused(context, predicate_check)
    elif predicate_check.purpose is Purpose.PREEMPT:
        preemption.refused(predicate_check, reason)
    elif predicate_check.reservation is not None:
        reservations.end(context, predicate_check.reservation, ReservationEnd.NODE)


def _may_be_placed(predicate_check: PredicateCheck) -> bool:
    """Whether the room it held, which is free again, can be its own, by nodes, quotas and limits as they are now."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    partition, queue, group = application.partition, application.queue, ask.group
    if group is None or not application.propagates_demand or not application.admits_group(group):
        return False
    key = group.pending_class.quota_key
    return (
        partition.refusal(ask.request_class, node) is None
        and highest_blocked(queue, ask.request_class.items, key) is None
    )
