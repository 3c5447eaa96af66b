"""Applications: added, and removed with all they have (SI `ApplicationRequest`; SEMANTICS E4)."""

from __future__ import annotations

from schedulerd.core import checks, commit
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import (
    AllocationRelease,
    ApplicationRemoval,
    NewApplication,
    NewAsk,
    NodeUpdate,
    TerminationType,
)
from schedulerd.core.decide.placement import place_application
from schedulerd.core.facts import (
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationRejected,
    ItemIgnored,
    RejectCode,
    WithdrawCause,
)
from schedulerd.core.fsm import is_legal
from schedulerd.core.handlers import application_states, asks, departures, early, gang_time, nodes, queues, releases
from schedulerd.core.lifecycles import APPLICATION, ApplicationState, ApplicationTrigger
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.early import EarlyItem
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.specs import ApplicationOrder
from schedulerd.core.turn import Turn


def add(turn: Turn, rm: ResourceManager, spec: NewApplication) -> None:
    """Takes an application into its queue, and then what has been waiting for it; or rejects it with the reason."""
    mistake = _mistake(spec)
    partition = rm.partition(spec.partition)
    if mistake is None and partition is None:
        mistake = checks.unknown_partition(spec.partition, rm.partitions)
    if mistake is not None or partition is None:
        _reject(turn, rm, spec, mistake)
        return
    if spec.application_id in partition.applications:
        state = partition.applications[spec.application_id].state
        _reject(
            turn,
            rm,
            spec,
            Mistake(
                RejectCode.DUPLICATE_ID,
                f"applicationID {shown(spec.application_id)} is in use by an application in state {state}; "
                "an id is free again once its application is removed, completed, failed or rejected",
            ),
        )
        return
    placement = place_application(partition.root, partition.spec.rules, spec)
    if isinstance(placement, Mistake):
        _remember_rejected(turn, partition, spec, placement)
        _reject(turn, rm, spec, placement)
        for held in early.take(turn, rm, partition, spec.application_id):
            replay(turn, rm, held, may_wait=False)
        return
    leaf = queues.leaf_for(turn, partition, placement, spec.tags)
    refused = _gang_mistake(leaf, spec)
    if refused is not None:
        queues.take_back(turn, partition, placement)
        _remember_rejected(turn, partition, spec, refused)
        _reject(turn, rm, spec, refused)
        for held in early.take(turn, rm, partition, spec.application_id):
            replay(turn, rm, held, may_wait=False)
        return
    _accept(turn, partition, leaf, spec)
    for held in early.take(turn, rm, partition, spec.application_id):
        replay(turn, rm, held, may_wait=True)


def remove(turn: Turn, rm: ResourceManager, item: ApplicationRemoval) -> None:
    """Removes an application: its asks and allocations are released and each of them confirmed."""
    partition = rm.partition(item.partition)
    application = partition.applications.get(item.application_id) if partition is not None else None
    if partition is None or application is None or application.queue is None:
        mistake = (
            checks.unknown_partition(item.partition, rm.partitions)
            if partition is None
            else early.unknown_application(item.application_id)
        )
        turn.say(
            ItemIgnored(
                rm.rm_id, rm.known_partition_name(item.partition), item.application_id, mistake.code, mistake.reason
            )
        )
        return
    _remove(turn, partition, application, f"application {item.application_id} was removed by the resource manager")


def replay(turn: Turn, rm: ResourceManager, held: EarlyItem, *, may_wait: bool) -> None:
    """Handles an item that had to wait as if it came now; `may_wait` if it may wait again, for something else."""
    match held.item:
        case NewAsk():
            asks.add(turn, rm, held.item, may_wait=may_wait)
        case AllocationRelease():
            releases.release(turn, rm, held.item, may_wait=may_wait)
        case NodeUpdate():
            nodes.update(turn, rm, held.item, may_wait=may_wait)


def _mistake(spec: NewApplication) -> Mistake | None:
    return (
        checks.identifier("applicationID", spec.application_id)
        or checks.text("queueName", spec.queue)
        or checks.user(spec.user, spec.groups)
        or checks.tags("tags", spec.tags)
        or checks.text("gangSchedulingStyle", spec.gang_style)
        or checks.not_negative("placeholderAsk", spec.placeholder_ask)
    )


def _gang_mistake(leaf: Queue, spec: NewApplication) -> Mistake | None:
    """Why a gang can never run in this leaf, or None if there is none or it can (SEMANTICS G1)."""
    ask = spec.placeholder_ask
    if ask.is_zero():
        return None
    if leaf.properties.application_order is ApplicationOrder.FAIR:
        return Mistake(
            RejectCode.QUEUE_NOT_FIFO,
            f"placeholderAsk is set, and queue {leaf.path} has application.sort.policy fair, under which several gangs "
            "would get a part each; it must be fifo or stateaware",
        )
    for queue in leaf.lineage:
        name = queue.max.exceeded_by({}, ask.items())
        if name is not None:
            return Mistake(
                RejectCode.OVER_QUOTA,
                f"placeholderAsk wants {name} {ask[name]}, but max of queue {queue.path} is {queue.max[name]}: "
                "the gang could never be placed",
            )
    return None


def _accept(turn: Turn, partition: Partition, queue: Queue, spec: NewApplication) -> None:
    application = Application(spec, partition, queue, partition.next_serial(), turn.now_ns)
    application.account()
    partition.applications[spec.application_id] = application
    queue.applications[spec.application_id] = application
    turn.say(ApplicationAccepted(partition.rm_id, partition.name, queue.path, spec.application_id))
    turn.say(
        ApplicationChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=spec.application_id,
            old_state=None,
            state=ApplicationState.NEW,
            cause="submitted",
            at_ns=turn.now_ns,
        )
    )


def _remove(turn: Turn, partition: Partition, application: Application, message: str) -> None:
    """Everything it has goes at once, and nothing is remembered. One without allocations is completed by that."""
    assert application.queue is not None
    stopped = TerminationType.STOPPED_BY_RM
    departures.withdraw_all(turn, application, WithdrawCause.APPLICATION_REMOVED, None, message)
    _complete(turn, application)
    if not application.allocations:
        _complete(turn, application)
    if application.is_terminal:
        application_states.forget(turn, application)
        return
    for allocation in list(application.allocations.values()):
        departures.free(turn, allocation)
        turn.say(departures.released(allocation, stopped, confirm=True, message=message))
    gang_time.end(turn, application)
    commit.retire(application)
    queues.leave(turn, application)
    application_states.forget(turn, application)


def _complete(turn: Turn, application: Application) -> None:
    """One step towards its end, if its state has one."""
    completing = application.state is ApplicationState.COMPLETING
    if is_legal(APPLICATION, application.state, ApplicationTrigger.COMPLETE) and not (
        completing and application.allocations
    ):
        application_states.fire(turn, application, ApplicationTrigger.COMPLETE)


def _reject(turn: Turn, rm: ResourceManager, spec: NewApplication, mistake: Mistake | None) -> None:
    assert mistake is not None
    partition = rm.known_partition_name(spec.partition)
    turn.say(ApplicationRejected(rm.rm_id, partition, spec.application_id, mistake.code, mistake.reason))


def _remember_rejected(turn: Turn, partition: Partition, spec: NewApplication, mistake: Mistake) -> None:
    """A rejected application is remembered for a while, so that one can see later why it never ran."""
    application = Application(spec, partition, None, partition.next_serial(), turn.now_ns)
    application_states.fire(turn, application, ApplicationTrigger.REJECT, mistake.reason)
