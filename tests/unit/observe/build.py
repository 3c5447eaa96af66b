"""Facts for tests, with everything filled in that the test at hand does not care about."""

from __future__ import annotations

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts import gangs as gang_facts
from schedulerd.core.language.facts import predicates as callback_facts
from schedulerd.core.language.facts import preemption as preemption_facts
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.language.lifecycles import ApplicationState, GangState, NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources

RM, PARTITION, QUEUE, APPLICATION = "rm-1", "default", "root.a.b", "app-1"


def resource_manager(state: ResourceManagerState, rm_id: str = RM) -> facts.ResourceManagerChanged:
    return facts.ResourceManagerChanged(rm_id, state, "test")


def node(
    node_id: str,
    old: NodeState | None,
    new: NodeState,
    capacity: dict[str, int] | None = None,
    occupied: dict[str, int] | None = None,
    rm_id: str = RM,
) -> facts.NodeChanged:
    return facts.NodeChanged(
        rm_id, PARTITION, node_id, old, new, Resources(capacity or {}), Resources(occupied or {}), "test"
    )


def application(
    old: ApplicationState | None, new: ApplicationState, application_id: str = APPLICATION, queue: str = QUEUE
) -> facts.ApplicationChanged:
    return facts.ApplicationChanged(RM, PARTITION, queue, application_id, old, new, "test", 0)


def forgotten(
    state: ApplicationState, application_id: str = APPLICATION, queue: str = QUEUE
) -> facts.ApplicationForgotten:
    return facts.ApplicationForgotten(RM, PARTITION, queue, application_id, state)


def ask(
    count: int = 1,
    queue: str = QUEUE,
    rm_id: str = RM,
    *,
    placeholder: bool = False,
    awaited_placeholder: bool = False,
    **resources: int,
) -> facts.AskAdded:
    size = Resources(resources)
    return facts.AskAdded(rm_id, PARTITION, queue, APPLICATION, "key-1", size, count, placeholder, awaited_placeholder)


def withdrawn(
    cause: facts.WithdrawCause, count: int = 1, *, placeholder: bool = False, **resources: int
) -> facts.AskWithdrawn:
    size = Resources(resources)
    return facts.AskWithdrawn(RM, PARTITION, QUEUE, APPLICATION, "key-1", size, count, placeholder, cause, None, "")


def allocated(
    uuid: str = "uuid-1",
    *,
    recovered: bool = False,
    asked_at_ns: int = 0,
    queue: str = QUEUE,
    placeholder: bool = False,
    replaces: str = "",
    **resources: int,
) -> facts.Allocated:
    return facts.Allocated(
        rm_id=RM,
        partition=PARTITION,
        queue=queue,
        application_id=APPLICATION,
        allocation_key="key-1",
        uuid=uuid,
        node_id="node-1",
        resources=Resources(resources),
        priority=0,
        tags={},
        task_group="",
        placeholder=placeholder,
        recovered=recovered,
        asked_at_ns=asked_at_ns,
        replaces=replaces,
    )


def release_requested(
    termination: TerminationType,
    cause: facts.ReleaseCause = facts.ReleaseCause.TIMED_OUT,
    *,
    queue: str = QUEUE,
    placeholder: bool = False,
) -> facts.ReleaseRequested:
    return facts.ReleaseRequested(
        RM, PARTITION, queue, APPLICATION, "key-1", "uuid-1", "node-1", placeholder, termination, cause, "message"
    )


def allocation_changed(cause: facts.ChangeCause = facts.ChangeCause.RESIZED) -> facts.AllocationChanged:
    size = Resources(vcore=1)
    return facts.AllocationChanged(
        RM, PARTITION, QUEUE, APPLICATION, "key-1", "uuid-1", "node-1", size, False, cause, "uuid-1", "node-1", size
    )


def released(
    termination: TerminationType = TerminationType.STOPPED_BY_RM,
    queue: str = QUEUE,
    *,
    placeholder: bool = False,
    **resources: int,
) -> facts.Released:
    return facts.Released(
        rm_id=RM,
        partition=PARTITION,
        queue=queue,
        application_id=APPLICATION,
        allocation_key="key-1",
        uuid="uuid-1",
        node_id="node-1",
        resources=Resources(resources),
        placeholder=placeholder,
        termination=termination,
        confirm=True,
        message="",
    )


def gang_completed(waited_ns: int = 0) -> gang_facts.GangCompleted:
    return gang_facts.GangCompleted(RM, PARTITION, QUEUE, APPLICATION, placeholders=3, waited_ns=waited_ns)


def gang_timed_out(state: ApplicationState = ApplicationState.RESUMING) -> gang_facts.GangTimedOut:
    return gang_facts.GangTimedOut(
        RM, PARTITION, QUEUE, APPLICATION, state, wanted=3, placed=2, replaced=0, timed_out=3
    )


def gang_declared() -> gang_facts.GangStateChanged:
    return gang_facts.GangStateChanged(RM, PARTITION, QUEUE, APPLICATION, None, GangState.FORMING, "", 3, 0)


def gang_gave_way() -> gang_facts.GangGaveWay:
    return gang_facts.GangGaveWay(RM, PARTITION, QUEUE, APPLICATION, placeholders=2, in_favour_of="app-0")


def swap_refused() -> gang_facts.SwapRefused:
    reason = "ask key-1 does not fit: it asks for 20 cpu, placeholder key-2 has 10"
    return gang_facts.SwapRefused(RM, PARTITION, QUEUE, APPLICATION, "key-1", "group", placeholders=1, reason=reason)


def reserved(entitled: bool = True) -> Reserved:
    size = Resources(vcore=10)
    return Reserved(RM, PARTITION, QUEUE, APPLICATION, "key-1", "node-1", size, entitled)


def reservation_ended(end: ReservationEnd, entitled: bool = True) -> ReservationEnded:
    return ReservationEnded(RM, PARTITION, QUEUE, APPLICATION, "key-1", "node-1", entitled, end, kept_ns=5)


def preempted(*victims: tuple[str, str], queue: str = QUEUE) -> preemption_facts.Preempted:
    """`victims` are queue and UUID of each."""
    why = "queue root.a is below its guarantee (0 of 10 cpu)"
    return preemption_facts.Preempted(RM, PARTITION, queue, APPLICATION, "key-1", "node-1", victims, why)


def victim(queue: str = QUEUE) -> facts.ReleaseRequested:
    return release_requested(TerminationType.PREEMPTED_BY_SCHEDULER, facts.ReleaseCause.PREEMPTED, queue=queue)


def quota_preempted(victims: int = 1, queue: str = QUEUE) -> preemption_facts.QuotaPreempted:
    return preemption_facts.QuotaPreempted(RM, PARTITION, queue, victims, "uses vcore 20 of max 10")


def room_made(waited_ns: int = 0) -> preemption_facts.RoomMade:
    return preemption_facts.RoomMade(RM, PARTITION, QUEUE, APPLICATION, "key-1", "node-1", waited_ns)


def preemption_refused(
    refusal: preemption_facts.PreemptionRefusal = preemption_facts.PreemptionRefusal.NO_NODE,
) -> preemption_facts.PreemptionRefused:
    reason = "nothing is preempted for ask key-1: for the sake of a test"
    return preemption_facts.PreemptionRefused(RM, PARTITION, QUEUE, APPLICATION, "key-1", refusal, reason)


def ask_rejected(code: facts.RejectCode, rm_id: str = RM) -> facts.AskRejected:
    return facts.AskRejected(rm_id, PARTITION, APPLICATION, "key-1", code, "because of a test")


def predicate_wanted() -> callback_facts.PredicateWanted:
    return callback_facts.PredicateWanted(RM, PARTITION, APPLICATION, "key-1", "node-1", 1, allocate=True)


def result_reached(outcome: callback_facts.PredicateOutcome, waited_ns: int = 0) -> callback_facts.PredicateAnswered:
    return callback_facts.PredicateAnswered(RM, PARTITION, APPLICATION, "key-1", "node-1", 1, outcome, "", waited_ns)


def node_recommended() -> NodeRecommended:
    return NodeRecommended(RM, PARTITION, "node-1", Resources(vcore=8), "others use vcore 2")
