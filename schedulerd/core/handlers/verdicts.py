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
from schedulerd.core.handlers import gangs, preemption, reservations, reserving, trials
from schedulerd.core.handlers.placements import place
from schedulerd.core.handlers.taking import Change
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.trial import Purpose, Trial
from schedulerd.core.preemption_facts import ReservationEnd
from schedulerd.core.specs import SECOND_NS
from schedulerd.core.turn import Turn


def connect(turn: Turn, rm: ResourceManager, command: ConnectCallbacks) -> None:
    """From now on it is asked, and told, what it says here. What an older stream was asked is void."""
    trials.forget_all(turn, rm)
    rm.callbacks.connect(command)


def disconnect(turn: Turn, rm: ResourceManager) -> None:
    """Nobody answers: what was asked is void, and its asks are placed on what the core knows itself (SEMANTICS B3)."""
    trials.forget_all(turn, rm)
    rm.callbacks.disconnect()


def check(turn: Turn, rm: ResourceManager, verdict: Verdict) -> Change:
    """The ask goes on, or may not run there; of two answers to one call the first counts."""
    trial = rm.callbacks.open_trials.get(verdict.call_id)
    if trial is None:
        reason = f"callID {verdict.call_id} is not open: it is answered, not wanted any longer, or was never asked"
        return partial(ignore, turn, rm, verdict, Mistake(RejectCode.INVALID_STATE, reason))
    if verdict.refusal:
        return partial(_refused, turn, trial, VerdictOutcome.REFUSED, verdict.refusal)
    if trial.purpose is Purpose.PREEMPT and not 0 <= verdict.index < (count := _offered(trial)):
        reason = f"index {verdict.index} is of none of the {count} victims it was asked about"
        return partial(_refused, turn, trial, VerdictOutcome.REFUSED, reason)
    return partial(_agreed, turn, trial, verdict.index)


def ignore(turn: Turn, rm: ResourceManager, verdict: Verdict, mistake: Mistake) -> None:
    turn.say(ItemIgnored(rm.rm_id, "", str(verdict.call_id), mistake.code, mistake.reason))


def _offered(trial: Trial) -> int:
    """How many victims the call names."""
    return len(trial.victims) + len(trial.further)


def on_timeout(turn: Turn, trial: Trial) -> None:
    """There is no verdict in time, which is a refusal."""
    timeout_s = turn.cluster.timeouts.predicates_ns / SECOND_NS
    turn.say(VerdictNotWanted(trial.application.partition.rm_id, trial.call_id))
    _refused(turn, trial, VerdictOutcome.TIMED_OUT, f"no verdict within {timeout_s:g} s")


def _agreed(turn: Turn, trial: Trial, index: int) -> None:
    trials.finish(turn, trial, VerdictOutcome.AGREED, "")
    partition = trial.application.partition
    if trial.purpose is Purpose.SWAP and gangs.swap_agreed(turn, trial):
        return
    if trial.purpose is Purpose.PLACE and trial.reservation is None and _may_be_placed(trial):
        partition.moves += 1
        place(turn, trial.application, trial.ask, trial.node)
        return
    trials.give_back(trial)
    if trial.purpose is Purpose.KEEP:
        reserving.keep_agreed(turn, trial)
    elif trial.purpose is Purpose.PREEMPT:
        preemption.agreed(trial, index)
    elif trial.reservation is not None:
        trial.reservation.agreed_at = trial.changes
        partition.ready[trial.node] = None


def _refused(turn: Turn, trial: Trial, outcome: VerdictOutcome, reason: str) -> None:
    trials.finish(turn, trial, outcome, reason)
    if trial.purpose is not Purpose.PREEMPT:
        trials.remember(turn, trial, reason)
    trials.give_back(trial)
    if trial.purpose is Purpose.KEEP:
        reserving.keep_refused(turn, trial)
    elif trial.purpose is Purpose.PREEMPT:
        preemption.refused(trial, reason)
    elif trial.reservation is not None:
        reservations.end(turn, trial.reservation, ReservationEnd.NODE)


def _may_be_placed(trial: Trial) -> bool:
    """Whether the room it held, which is free again, can be its own, by nodes, quotas and limits as they are now."""
    application, ask, node = trial.application, trial.ask, trial.node
    partition, queue, group = application.partition, application.queue, ask.group
    assert queue is not None
    if group is None or not application.passes_on or not application.lets_stand(group):
        return False
    return partition.refusal(ask.shape, node) is None and queue.short_for(group.kind) is None
