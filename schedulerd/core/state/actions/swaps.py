"""Swaps of placeholders for real asks (gang design; SEMANTICS G3 to G5).

A swap has two phases. First the real ask awaits its placeholder, and the RM is asked to release the placeholder; no
room is freed yet. When the placeholder is gone, whatever cause the RM gives, the ask is allocated on the same node,
else on another node with room, else it is pending again. The ledgers change once.
"""

from __future__ import annotations

from schedulerd.amounts import amount, amount_text
from schedulerd.core.language.ask_tags import ask_name
from schedulerd.core.language.facts.fact import Fact, ReleaseCause, WithdrawCause
from schedulerd.core.language.facts.gangs import SwapRefused
from schedulerd.core.language.task_groups import MEMBER_SLOT
from schedulerd.core.state.actions import predicate_checks, releases
from schedulerd.core.state.actions.allocating import allocated, begin_execution_time
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import TaskGroup
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import admits_group, requeue, update_groups
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.step_context import StepContext


def swap_next(context: StepContext, partition: Partition, most: int) -> bool:
    """Starts the next swap of a real ask, and all those of a gang that declares its task groups: its members are
    allocated in one step, unless it is too large for that (`Gang.is_large`): then up to `most` of them. False if no
    ask can have one."""
    begun = 0
    while partition.swaps:
        application = next(iter(partition.swaps))
        found = application.gang.next_swap() if application.gang is not None else None
        if found is None or not application.propagates_demand:
            del partition.swaps[application]
            if begun:
                return True
            continue
        task_group, group = found
        if _begin(context, partition, application, task_group, group):
            begun += 1
            gang = application.gang
            if gang is None or not gang.declared or (gang.is_large and begun >= most):
                return True
    return False


def _begin(
    context: StepContext, partition: Partition, application: Application, task_group: TaskGroup, group: AskGroup
) -> bool:
    """Starts a swap for the first ask of the group; False if no node takes the ask, so its placeholder stays."""
    ask = group.first()
    if (own := _own_slot(partition, application, task_group, ask)) is not None:
        _swap(context, partition, application, ask, own)
        return True
    placeholder = task_group.fitting(ask.request_class)
    if placeholder is None:
        _refuse(context, application, task_group, ask)
        return True
    if partition.wants_predicates(ask.request_class):
        return _ask_first(context, application, task_group, ask)
    if placeholder.predicate_check is not None:  # another ask is tried for it
        fitting = task_group.all_fitting(ask.request_class)
        placeholder = next((one for one in fitting if one.predicate_check is None), placeholder)
    request_class = ask.request_class
    if request_class.required_node or request_class.constraint is not None:
        placeholder = _choose(partition, application, task_group, ask)
        if placeholder is None:
            partition.deny(application, group)
            return False
    _swap(context, partition, application, ask, placeholder)
    return True


def _own_slot(partition: Partition, application: Application, task_group: TaskGroup, ask: Ask) -> Allocation | None:
    """The slot that was held for this very member: on a node that takes it, as the slot asked for the same, and the RM
    was asked about it."""
    if application.gang is None or not application.gang.declared:
        return None
    slots = application.asks.get(MEMBER_SLOT + ask.key)
    if slots is None:
        return None
    if partition.wants_predicates(ask.request_class) and slots.request_class.skips_predicates:
        return None
    first = task_group.fitting(ask.request_class)
    if first is not None and first.ask is slots and first.predicate_check is None:
        return first
    return next(
        (one for one in slots.allocations.values() if one.releasing is None and one.predicate_check is None), None
    )


def _swap(
    context: StepContext, partition: Partition, application: Application, ask: Ask, placeholder: Allocation
) -> None:
    releases.withdraw_ask(
        context,
        partition,
        application,
        ask,
        WithdrawCause.AWAITING_PLACEHOLDER,
        None,
        "" if placeholder.spec.slot else f"takes the room of {placeholder.uuid}",
        count=1,
    )
    commit.await_placeholder(application, ask, placeholder)
    if application.gang is not None and application.gang.is_full(ask.task_group):
        update_groups(partition, application, placeholders=False)
    if application.gang is not None and application.gang.times.idle_since_ns is not None:
        application.gang.times.idle_since_ns = context.now_ns
    who = ask_name(application.application_id, ask.key, ask.spec.tags)
    message = f"{who} takes the room of placeholder {placeholder.key}"
    releases.request_release(context, partition, placeholder, ReleaseCause.REPLACED, message)


def _ask_first(context: StepContext, application: Application, task_group: TaskGroup, ask: Ask) -> bool:
    """Starts a predicate check for a swap: on the node of a placeholder without an open check, or on another node with
    room if the RM refused all nodes of placeholders. False if nothing can be asked now."""
    partition, predicate_history = context.partition_of(application), ask.predicate_history
    are_all_refused = True
    for placeholder in task_group.all_fitting(ask.request_class):
        node = placeholder.node
        if partition.objection(ask.request_class, node, (placeholder,)) is None:
            if predicate_history is not None and predicate_history.is_refused_with_room(node):
                continue
            if placeholder.predicate_check is None:
                task_group.move_last(placeholder)
                predicate_checks.swap(context, application, ask, placeholder, node)
                return True
            are_all_refused = False
    elsewhere = (
        predicate_checks.free_node(partition, ask, partition.first_fit(ask.request_class)) if are_all_refused else None
    )
    idle = next((one for one in task_group.all_fitting(ask.request_class) if one.predicate_check is None), None)
    if (
        elsewhere is not None
        and idle is not None
        and partition.objection(ask.request_class, elsewhere, (idle,)) is None
    ):
        task_group.move_last(idle)
        predicate_checks.swap(context, application, ask, idle, elsewhere)
        return True
    if are_all_refused and elsewhere is None:
        if predicate_history is None:
            partition.deny(application, application.groups[ask.group_key])
            return False
        predicate_checks.set_aside(context, application, ask)
        return True
    partition.deny(application, application.groups[ask.group_key])
    return False


def swap_agreed(context: StepContext, predicate_check: PredicateCheck) -> bool:
    """The RM agreed to the swap: starts it if it is still possible; else returns False."""
    application, ask, node, placeholder = (
        predicate_check.application,
        predicate_check.ask,
        predicate_check.node,
        predicate_check.placeholder,
    )
    assert placeholder is not None
    partition, group = context.partition_of(application), ask.group
    is_wanted = group is not None and application.propagates_demand and admits_group(partition, application, group)
    is_idle = placeholder.uuid in application.allocations and placeholder.releasing is None
    if not is_wanted or not is_idle or placeholder.request_class.resources.lacks(ask.request_class.items) is not None:
        return False
    is_here = node is placeholder.node
    against = (
        partition.objection(ask.request_class, node, (placeholder,))
        if is_here
        else partition.refusal(ask.request_class, node)
    )
    if against is not None:
        return False
    placeholder.swap_node = node
    _swap(context, partition, application, ask, placeholder)
    return True


def _choose(partition: Partition, application: Application, task_group: TaskGroup, ask: Ask) -> Allocation | None:
    """The placeholder to replace for an ask with a required node or a constraint: one on a node that takes the ask; any
    placeholder if another node takes the ask; else None."""
    for placeholder in task_group.all_fitting(ask.request_class):
        if partition.objection(ask.request_class, placeholder.node, (placeholder,)) is None:
            return placeholder
    return task_group.fitting(ask.request_class) if partition.first_fit(ask.request_class) is not None else None


def _refuse(context: StepContext, application: Application, task_group: TaskGroup, ask: Ask) -> None:
    """No placeholder is large enough: the ask becomes an ordinary ask, and the placeholders it cannot use are
    released."""
    partition, queue = context.partition_of(application), application.queue
    useless = task_group.oldest(ask.pending)
    reasons = [_why_too_small(placeholder, ask) for placeholder in useless]
    context.emit(
        SwapRefused(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            task_group=task_group.name,
            placeholders=len(useless),
            reason=reasons[0],
        )
    )
    for placeholder, reason in zip(useless, reasons, strict=True):
        releases.request_release(context, partition, placeholder, ReleaseCause.TOO_SMALL, reason)
    requeue(partition, application, ask, ask.request_class, "")


def _why_too_small(placeholder: Allocation, ask: Ask) -> str:
    name = placeholder.request_class.resources.lacks(ask.request_class.items)
    assert name is not None
    asked, held = ask.request_class.resources[name], placeholder.request_class.resources[name]
    who = ask_name(placeholder.application.application_id, ask.key, ask.spec.tags)
    return (
        f"{who} does not fit: it asks for {amount(name, asked)}, placeholder {placeholder.key} has "
        f"{amount_text(name, held)}"
    )


def complete_swap(context: StepContext, partition: Partition, placeholder: Allocation, ask: Ask, *, anew: bool) -> Fact:
    """The placeholder of a swap is gone: allocates the ask in its room and returns the fact about it.

    With `anew` (the node is gone too, or the RM is away) the ask is pending again instead. If the RM takes part in
    predicates, the ask is allocated only on the node that the RM agreed to; otherwise another node with room will do.
    """
    application, node = placeholder.application, placeholder.swap_node
    if anew or not _may_go_to(partition, placeholder, ask.request_class, node):
        other = (
            None if anew or partition.wants_predicates(ask.request_class) else partition.first_fit(ask.request_class)
        )
        if other is None:
            commit.demand(partition, application, ask, 1)
            update_groups(partition, application, placeholders=False)
            return releases.pending_again(application, ask, awaited_placeholder=True)
        node = other
    allocation = commit.allocate_swapped(partition, application, ask, node, context.cluster.new_uuid())
    assert application.gang is not None
    allocation.placeholder_asked_at_ns = placeholder.ask.asked_at_ns
    application.gang.task_groups[placeholder.spec.task_group].replaced += 1
    if ask.spec.execution_timeout_ms > 0:
        begin_execution_time(context, allocation)
    return allocated(allocation, ask.asked_at_ns, replaces=placeholder.uuid, replaces_slot=placeholder.spec.slot)


def _may_go_to(partition: Partition, placeholder: Allocation, request_class: RequestClass, node: Node) -> bool:
    """Whether the ask can be allocated on the node, now that the placeholder is gone."""
    if node is placeholder.node:
        return partition.refusal_for_swap(request_class, node) is None
    return partition.nodes.get(node.node_id) is node and partition.refusal(request_class, node) is None
