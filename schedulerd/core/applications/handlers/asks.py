"""Asks: new ones, updates of known ones, and their release (SI `AllocationRequest`; SEMANTICS E1)."""

from __future__ import annotations

from functools import partial

from schedulerd.core.language import ask_tags, checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import OF_RM, AskRelease, NewAsk
from schedulerd.core.language.facts.fact import AskAdded, AskRejected, RejectCode, ReleaseIgnored, WithdrawCause
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.language.task_groups import SLOT_KEYS
from schedulerd.core.state.actions import application_states, changes, releases, slot_room, slots
from schedulerd.core.state.actions import early_items as early
from schedulerd.core.state.constraints import checks as constraint_checks
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import reclassify
from schedulerd.core.state.pending.request_class import RequestClass
from schedulerd.core.state.pending.start_order import admit_next
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext
from schedulerd.core.state.unknown_application import unknown_application

MAX_ALLOCATIONS_MAX = 1_000_000
"""Most allocations in one ask."""


def check(context: StepContext, rm: ResourceManager, spec: NewAsk, *, may_wait: bool = True) -> Change:
    """Accepts the ask, or updates a known one; lets it wait for its application; or rejects it with the reason."""
    partition = rm.partition(spec.partition)
    mistake = _mistake(spec, partition)
    if mistake is not None or partition is None:
        return partial(reject, context, rm, spec, mistake or checks.unknown_partition(spec.partition, rm.partitions))
    application = partition.applications.get(spec.application_id)
    if application is None or (rm.early.backlogs and rm.early.has_backlog(partition.name, spec.application_id)):
        if may_wait and early.has_room(context, rm):
            return partial(early.hold, context, rm, spec, partition, spec.application_id)
        if application is None:
            return partial(reject, context, rm, spec, unknown_application(partition, spec.application_id))
    if application.placeholders or application.state is ApplicationState.FAILING:
        mistake = _state_mistake(application, spec)
        if mistake is not None:
            return partial(reject, context, rm, spec, mistake)
    if application.gang is not None and application.gang.declared and spec.allocation_key.startswith(SLOT_KEYS):
        reason = (
            f"allocationKey is {shown(spec.allocation_key)}; in an application that declares its task groups no key "
            f"begins with {SLOT_KEYS[0]!r} or {SLOT_KEYS[1]!r}"
        )
        return partial(reject, context, rm, spec, Mistake(RejectCode.DUPLICATE_ID, reason))
    known = application.asks.get(spec.allocation_key)
    if known is not None and _is_resize(known, spec):
        mistake = _resize_mistake(known, spec)
        if mistake is not None:
            return partial(reject, context, rm, spec, mistake)
        return partial(_resize, context, partition, application, spec)
    return partial(_take, context, partition, application, spec)


def _is_resize(ask: Ask, spec: NewAsk) -> bool:
    """Whether allocations of the ask are there, and have other amounts than are asked for now."""
    if not ask.allocations:
        return False
    wanted = spec.resources.canonical()
    return any(one.request_class.items != wanted for one in ask.allocations.values())


def _resize_mistake(ask: Ask, spec: NewAsk) -> Mistake | None:
    """An allocation is resized by its key, so there must be one of that key, and no more to come (SEMANTICS I17)."""
    if spec.max_allocations == 1 and len(ask.allocations) == 1:
        return None
    return Mistake(
        RejectCode.INVALID_COUNT,
        f"allocationKey {shown(spec.allocation_key)} has {len(ask.allocations)} allocations, and resourceAsk with "
        f"other amounts resizes an allocation; for that there must be one, and maxAllocations, which is "
        f"{spec.max_allocations}, must be 1",
    )


def _resize(context: StepContext, partition: Partition, application: Application, spec: NewAsk) -> None:
    """The allocation has the amounts of the ask, of which nothing more is to come, and is updated as usual."""
    ask = application.asks[spec.allocation_key]
    (allocation,) = ask.allocations.values()
    _take(context, partition, application, spec)
    changes.resize(context, allocation, spec.resources)
    application_states.on_resized(context, application, allocation)


def _take(context: StepContext, partition: Partition, application: Application, spec: NewAsk) -> None:
    ask = application.asks.get(spec.allocation_key)
    if ask is None:
        request_class = _request_class(partition, application, spec)
        asked_at_ns = context.now_ns if spec.asked_at_ns is None else _asked_at_ns(context, spec.asked_at_ns)
        ask = application.asks[spec.allocation_key] = Ask(spec, request_class, partition.next_serial(), asked_at_ns)
    else:
        if ask.request_class.refused:
            reclassify(partition, application, ask, refused=False)
        wanted = _request_class(partition, application, spec).identity, spec.task_group, spec.placeholder
        is_other = wanted != (ask.request_class.identity, ask.spec.task_group, ask.placeholder)
        releases.forget_swaps(context, ask, keep=0 if is_other else max(0, spec.max_allocations - ask.placed))
        releases.withdraw_ask(
            context, partition, application, ask, WithdrawCause.UPDATED, None, "replaced by an ask with the same key"
        )
        if is_other:
            ask.task_group = spec.task_group
        ask.renew(spec, _request_class(partition, application, spec))
        if spec.asked_at_ns is not None:
            ask.asked_at_ns = _asked_at_ns(context, spec.asked_at_ns)
    _demand(context, partition, application, ask)


def _request_class(partition: Partition, application: Application, spec: NewAsk) -> RequestClass:
    if application.gang is not None and application.gang.domains:
        return slot_room.request_class(partition, application, spec)
    return partition.request_class_of(spec)


def _asked_at_ns(context: StepContext, said_ns: int) -> int:
    """When the ask was made first; not in the future, whatever the clocks of its sender and this daemon are like."""
    return min(said_ns, context.now_ns)


def reject(context: StepContext, rm: ResourceManager, spec: NewAsk, mistake: Mistake) -> None:
    context.emit(
        AskRejected(
            rm_id=rm.rm_id,
            partition=rm.known_partition_name(spec.partition),
            application_id=spec.application_id,
            allocation_key=spec.allocation_key,
            code=mistake.code,
            reason=mistake.reason,
        )
    )


def check_release(context: StepContext, rm: ResourceManager, item: AskRelease) -> Change:
    """The RM withdraws asks: one by its key, or all of an application. Each is confirmed with the type of this release
    (gang design, AllocationAskRelease; SEMANTICS I7)."""
    if item.termination not in OF_RM:
        reason = f"terminationType {item.termination.name} confirms a release; nothing is to be released"
        return partial(ignore, context, rm, item, Mistake(RejectCode.INVALID_STATE, reason))
    partition = rm.partition(item.partition)
    if partition is None:
        return partial(ignore, context, rm, item, checks.unknown_partition(item.partition, rm.partitions))
    if not item.application_id and not item.allocation_key:
        reason = "applicationID and allocationKey are both empty; one of them must be set"
        return partial(ignore, context, rm, item, Mistake(RejectCode.EMPTY_ID, reason))
    return partial(_release, context, rm, partition, item)


def _release(context: StepContext, rm: ResourceManager, partition: Partition, item: AskRelease) -> None:
    dropped = early.drop_asks(context, rm, partition, item)
    if item.application_id:
        one = partition.applications.get(item.application_id)
        applications = [one] if one is not None else []
    else:
        applications = [one for one in partition.applications.values() if item.allocation_key in one.asks]
    found = False
    for application in applications:
        found |= _release_of(context, application, item)
    if not found and not dropped:
        ignore(context, rm, item, Mistake(RejectCode.INVALID_STATE, "no such ask is pending"))


def ignore(context: StepContext, rm: ResourceManager, item: AskRelease, mistake: Mistake) -> None:
    partition = rm.known_partition_name(item.partition)
    context.emit(ReleaseIgnored(rm.rm_id, partition, item.application_id, item.allocation_key, "", mistake.reason))


def _release_of(context: StepContext, application: Application, item: AskRelease) -> bool:
    """Releases what `item` names of this application; False if nothing of that is pending."""
    if item.allocation_key:
        named = [application.asks[item.allocation_key]] if item.allocation_key in application.asks else []
    else:
        named = sorted(application.asks.values(), key=lambda ask: ask.serial)
    named = [
        ask
        for ask in named
        if ask.pending or ask.awaiting_placeholder or any(one.ask_again_when_gone for one in ask.allocations.values())
    ]
    message, partition = checks.message(item.message), context.partition_of(application)
    for ask in named:
        releases.forget_swaps(context, ask)
        releases.cancel_yield(ask.allocations.values())
        count = ask.pending
        releases.withdraw_ask(
            context, partition, application, ask, WithdrawCause.RELEASED_BY_RM, item.termination, message
        )
        if ask.placeholder and count:
            commit.withdraw_promise(application, ask.request_class.items, count)
            partition.note_free_quota(application.queue)
        commit.forget_if_done(application, ask)
    if named:
        partition.note_members(application)
        application_states.on_fewer_asks(context, application)
    return bool(named)


def _demand(context: StepContext, partition: Partition, application: Application, ask: Ask) -> None:
    """Makes pending what the ask still lacks; allocations made before an update count (SEMANTICS E1)."""
    partition.note_members(application)
    count = max(0, ask.spec.max_allocations - ask.placed - ask.awaiting_placeholder)
    if not count:
        commit.forget_if_done(application, ask)
        application_states.on_fewer_asks(context, application)
        return
    if application.state is not ApplicationState.RUNNING:
        application_states.on_ask(context, application, placeholder=ask.placeholder)
    commit.demand(partition, application, ask, count)
    if application.queue.properties.application_order is ApplicationOrder.STATE_AWARE:
        admit_next(partition, application.queue)
    context.emit(  # not by `releases.ask_added`: each further module on the way of an ask costs its readers
        AskAdded(
            application.rm_id,
            application.partition_name,
            application.queue.path,
            application.application_id,
            ask.key,
            ask.request_class.resources,
            count,
            ask.placeholder,
        )
    )
    if ask.placeholder:
        slots.drop_declaration(context, partition, application)


def _state_mistake(application: Application, spec: NewAsk) -> Mistake | None:
    """Why an application that is Failing or has placeholders cannot take the ask (SEMANTICS I14); None if it can."""
    if application.state is ApplicationState.FAILING:
        return Mistake(
            RejectCode.INVALID_STATE,
            f"applicationID {shown(spec.application_id)} is an application in state {application.state}, which takes "
            "no asks",
        )
    known = application.asks.get(spec.allocation_key)
    if known is None or (spec.placeholder and spec.task_group):
        return None
    if any(one.placeholder for one in known.allocations.values()):
        return Mistake(
            RejectCode.DUPLICATE_ID,
            f"allocationKey {shown(spec.allocation_key)} is that of a placeholder that is still there; a real ask "
            "must have a key of its own",
        )
    return None


def _mistake(spec: NewAsk, partition: Partition | None) -> Mistake | None:
    count = spec.max_allocations
    if not 1 <= count <= MAX_ALLOCATIONS_MAX:
        return Mistake(
            RejectCode.INVALID_COUNT, f"maxAllocations is {count}; it must be between 1 and {MAX_ALLOCATIONS_MAX}"
        )
    is_known_size = partition is not None and partition.request_classes.knows_size(spec.resources)
    return (
        checks.identifier("allocationKey", spec.allocation_key)
        or checks.identifier("applicationID", spec.application_id)
        or (None if is_known_size else checks.request("resourceAsk", spec.resources))
        or (checks.tags("tags", spec.tags) or ask_tags.mistake(spec.tags) if spec.tags else None)
        or (checks.text("taskGroupName", spec.task_group) if spec.task_group else None)
        or (_constraint_mistake(spec, partition) if spec.tags or spec.constraint is not None else None)
        or (Mistake(RejectCode.INVALID_FIELD, spec.unreadable) if spec.unreadable else None)
    )


def _constraint_mistake(spec: NewAsk, partition: Partition | None) -> Mistake | None:
    sent = spec.constraint
    is_known = sent is not None and partition is not None and partition.sent_constraints.knows(sent)
    return constraint_checks.constraint(spec, is_known=is_known)
