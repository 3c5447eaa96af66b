"""The resource manager's callback stream: it comes, it goes, and what it answers is carried out (SEMANTICS B3, B4).

A verdict is about the state it was asked in. Before anything is done it is judged again by the state it comes to, like
a decision that has been waiting; what does not hold any longer is left alone, and looked at anew by the next cycle.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.callback_facts import VerdictNotWanted, VerdictOutcome
from schedulerd.core.checks import Mistake
from schedulerd.core.commands import ConnectCallbacks, Verdict
from schedulerd.core.facts import ItemIgnored, RejectCode
from schedulerd.core.handlers import gangs, predicate_checks, preemption, reservations, reserving
from schedulerd.core.handlers.placements import place
from schedulerd.core.handlers.taking import Change
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.predicate_check import PredicateCheck, Purpose
from schedulerd.core.preemption_facts import ReservationEnd
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.step_context import StepContext


def connect(turn: StepContext, rm: ResourceManager, command: ConnectCallbacks) -> None:
    """From now on it is asked, and told, what it says here. What an older stream was asked is void."""
    predicate_checks.forget_all(turn, rm)
    rm.callbacks.connect(command)


def disconnect(turn: StepContext, rm: ResourceManager) -> None:
    """Nobody answers: what was asked is void, and its asks are placed on what the core knows itself (SEMANTICS B3)."""
    predicate_checks.forget_all(turn, rm)
    rm.callbacks.disconnect()


def check(turn: StepContext, rm: ResourceManager, verdict: Verdict) -> Change:
    """The ask goes on, or may not run there; of two answers to one call the first counts."""
    predicate_check = rm.callbacks.open_predicate_checks.get(verdict.call_id)
    if predicate_check is None:
        reason = f"callID {verdict.call_id} is not open: it is answered, not wanted any longer, or was never asked"
        return partial(ignore, turn, rm, verdict, Mistake(RejectCode.INVALID_STATE, reason))
    if verdict.refusal:
        return partial(_refused, turn, predicate_check, VerdictOutcome.REFUSED, verdict.refusal)
    if predicate_check.purpose is Purpose.PREEMPT and not 0 <= verdict.index < (count := _offered(predicate_check)):
        reason = f"index {verdict.index} is of none of the {count} victims it was asked about"
        return partial(_refused, turn, predicate_check, VerdictOutcome.REFUSED, reason)
    return partial(_agreed, turn, predicate_check, verdict.index)


def ignore(turn: StepContext, rm: ResourceManager, verdict: Verdict, mistake: Mistake) -> None:
    turn.say(ItemIgnored(rm.rm_id, "", str(verdict.call_id), mistake.code, mistake.reason))


def _offered(predicate_check: PredicateCheck) -> int:
    """How many victims the call names."""
    return len(predicate_check.victims) + len(predicate_check.further)


def on_timeout(turn: StepContext, predicate_check: PredicateCheck) -> None:
    """There is no verdict in time, which is a refusal."""
    timeout_s = turn.cluster.timeouts.predicates_ns / SECOND_NS
    turn.say(VerdictNotWanted(predicate_check.application.partition.rm_id, predicate_check.call_id))
    _refused(turn, predicate_check, VerdictOutcome.TIMED_OUT, f"no verdict within {timeout_s:g} s")


def _agreed(turn: StepContext, predicate_check: PredicateCheck, index: int) -> None:
    predicate_checks.finish(turn, predicate_check, VerdictOutcome.AGREED, "")
    partition = predicate_check.application.partition
    if predicate_check.purpose is Purpose.SWAP and gangs.swap_agreed(turn, predicate_check):
        return
    if (
        predicate_check.purpose is Purpose.PLACE
        and predicate_check.reservation is None
        and _may_be_placed(predicate_check)
    ):
        partition.moves += 1
        place(turn, predicate_check.application, predicate_check.ask, predicate_check.node)
        return
    predicate_checks.give_back(predicate_check)
    if predicate_check.purpose is Purpose.KEEP:
        reserving.keep_agreed(turn, predicate_check)
    elif predicate_check.purpose is Purpose.PREEMPT:
        preemption.agreed(predicate_check, index)
    elif predicate_check.reservation is not None:
        predicate_check.reservation.agreed_at = predicate_check.changes
        partition.ready[predicate_check.node] = None


def _refused(turn: StepContext, predicate_check: PredicateCheck, outcome: VerdictOutcome, reason: str) -> None:
    predicate_checks.finish(turn, predicate_check, outcome, reason)
    if predicate_check.purpose is not Purpose.PREEMPT:
        predicate_checks.remember(turn, predicate_check, reason)
    predicate_checks.give_back(predicate_check)
    if predicate_check.purpose is Purpose.KEEP:
        reserving.keep_refused(turn, predicate_check)
    elif predicate_check.purpose is Purpose.PREEMPT:
        preemption.refused(predicate_check, reason)
    elif predicate_check.reservation is not None:
        reservations.end(turn, predicate_check.reservation, ReservationEnd.NODE)


def _may_be_placed(predicate_check: PredicateCheck) -> bool:
    """Whether the room it held, which is free again, can be its own, by nodes, quotas and limits as they are now."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    partition, queue, group = application.partition, application.queue, ask.group
    assert queue is not None
    if group is None or not application.propagates_demand or not application.admits_group(group):
        return False
    return partition.refusal(ask.request_class, node) is None and queue.short_for(group.pending_class) is None
