"""One existing allocation of a node is booked for its application (SEMANTICS D, G7, I2)."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import ExistingAllocation, NewAsk
from schedulerd.core.language.facts.fact import RejectCode, WithdrawCause
from schedulerd.core.state.actions import (
    application_states,
    releases,
    relief_time,
    slots,
)
from schedulerd.core.state.actions.allocating import allocated
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.step_context import StepContext

ALLOW_PREEMPTION_TAG = "yunikorn.apache.org/allow-preemption"
"""Tag of an existing allocation. With the value `false` it means what `allowPreemptSelf: false` means for an ask,
because SI's Allocation has no preemption policy (SEMANTICS I1)."""


def kind_mistake(known: Allocation, existing: ExistingAllocation) -> Mistake | None:
    """A placeholder stays a placeholder, and a real allocation a real one."""
    if known.placeholder is (existing.placeholder and bool(existing.task_group)):
        return None
    kinds = ("a placeholder", "a real allocation")
    here, said = kinds if known.placeholder else kinds[::-1]
    return Mistake(
        RejectCode.INVALID_STATE,
        f"allocation {known.uuid} with this key on node {known.node.node_id} is {here}, and is reported as {said}; "
        "release it first",
    )


def take_over_one(context: StepContext, application: Application, node: Node, existing: ExistingAllocation) -> None:
    """Books an existing allocation, and makes up its ask from it if the ask is unknown (gang design, Application
    recovery)."""
    partition = context.partition_of(application)
    spec = NewAsk(
        application_id=existing.application_id,
        allocation_key=existing.allocation_key,
        resources=existing.resources,
        partition=existing.partition,
        priority=existing.priority,
        tags=existing.tags,
        task_group=existing.task_group,
        placeholder=existing.placeholder,
        allow_preempt_self=existing.tags.get(ALLOW_PREEMPTION_TAG, "").lower() != "false",
    )
    request_class = partition.request_class_of(spec)
    ask = application.asks.get(existing.allocation_key)
    if ask is None:
        ask = application.asks[existing.allocation_key] = Ask(
            spec, request_class, partition.next_serial(), context.now_ns
        )
    if ask.placed + ask.pending + ask.awaiting_placeholder >= ask.spec.max_allocations:
        if not ask.pending and ask.swaps:
            releases.end_placeholder_wait(context, next(iter(ask.swaps)))
        if ask.pending:
            releases.withdraw_ask(
                context,
                partition,
                application,
                ask,
                WithdrawCause.RECOVERED,
                None,
                "it exists on a node already",
                count=1,
            )
        else:  # so a placeholder that is released in a gang deadlock becomes pending again
            ask.spec = replace(ask.spec, max_allocations=ask.placed + 1)
    is_placeholder = existing.placeholder and bool(existing.task_group)
    application_states.on_ask(context, application, placeholder=is_placeholder, recovered=True)
    allocation = commit.take_over(
        partition, application, Allocation(existing.uuid, application, ask, node, spec, request_class)
    )
    if is_placeholder:
        slots.drop_declaration(context, partition, application)
    elif existing.task_group:
        slots.on_member_there(context, partition, allocation)
    for queue in application.queue.path_to_root:
        relief_time.watch(context, partition, queue)
    application_states.on_placed(context, application, allocation)
    context.emit(allocated(allocation, context.now_ns, recovered=True))
    application_states.on_taken_over(context, allocation)
