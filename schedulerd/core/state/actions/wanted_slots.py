"""The slots that a gang needs, as asks: one for each member that it lacks, as large as that and with its tags; or as
its task group says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG
from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.task_groups import GROUP_SLOT, MEMBER_SLOT, DeclaredGroup
from schedulerd.core.state.actions import gang_domains
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.partition import Partition

_WITHOUT_PREDICATES = {PREDICATES_TAG: NO_PREDICATES}
"""The RM is not told of holds: it is asked about the member, when it takes the room of the slot."""


def least(groups: Iterable[DeclaredGroup]) -> Resources:
    """What the gang holds at least when it is whole: without groups whose members are not known."""
    total = Resources()
    for group in groups:
        if group.resources is not None:
            total.add(group.resources.items(), group.min)
    return total


def asked(application: Application, name: str) -> int:
    """How many members of the task group are asked for."""
    groups = application.groups.values()
    return sum(group.pending for group in groups if group.task_group == name and not group.placeholder)


def wanted(partition: Partition, application: Application) -> list[NewAsk]:
    """The slots of all task groups, as asks."""
    gang = application.gang
    assert gang is not None
    return [
        slot
        for group in gang.declared.values()
        for slot in (
            _slots(partition, application, gang, group)
            if gang.gathering.each_has_slot or group.resources is not None
            else _slots_by_class(partition, application, gang, group)
        )
    ]


def _slots_by_class(
    partition: Partition, application: Application, gang: Gang, group: DeclaredGroup
) -> Iterator[NewAsk]:
    """One ask for all members of a request class, with the tags of the first: while nothing is held, and for a gang
    that is large. It keeps its key while there are members of the class."""
    name, needed = group.name, gang.missing(group)
    if not needed:
        return
    groups = [one for one in application.groups.values() if one.task_group == name and not one.placeholder]
    if sum(one.pending for one in groups) == needed:
        counts = {one: one.pending for one in groups}
    elif len(groups) == 1:
        counts = {groups[0]: needed}
    else:
        counts = {}
        left = needed
        for ask in sorted((ask for one in groups for ask in one), key=_order):
            if left and ask.group is not None:
                counts[ask.group] = counts.get(ask.group, 0) + min(left, ask.pending)
                left -= min(left, ask.pending)
    known = {one.request_class: one for one in application.asks.values() if one.spec.slot and one.task_group == name}
    for one, count in counts.items():
        spec = _slot_of(partition, next(iter(one)), count)
        same = known.get(gang_domains.request_class(partition, application, spec))
        key = f"{GROUP_SLOT}{name} as {spec.allocation_key}"
        while same is None and key in application.asks:
            key += "'"
        yield replace(spec, allocation_key=key) if same is None else replace(same.spec, max_allocations=count)


def _slot_of(partition: Partition, ask: Ask, count: int) -> NewAsk:
    """A slot for so many members like this one, with its key."""
    return replace(
        ask.spec,
        max_allocations=count,
        execution_timeout_ms=0,
        tags={**ask.spec.tags, **_predicate_tags(partition)},
        placeholder=True,
        slot=True,
    )


def _predicate_tags(partition: Partition) -> Mapping[str, str]:
    return {} if partition.callbacks.holds else _WITHOUT_PREDICATES


def _slots(partition: Partition, application: Application, gang: Gang, group: DeclaredGroup) -> Iterator[NewAsk]:
    """The slots of a task group, as asks: one for each member, or for all if members have a known size."""
    name, left = group.name, gang.missing(group)
    if group.resources is not None:
        if not left:
            return
        yield NewAsk(
            application.application_id,
            GROUP_SLOT + name,
            group.resources,
            application.partition_name,
            left,
            group.priority,
            tags={**group.tags, **_predicate_tags(partition)},
            task_group=name,
            placeholder=True,
            allow_preempt_self=group.allow_preempt_self,
            allow_preempt_other=group.allow_preempt_other
            or any(
                one.preempting_asks for one in application.groups.values() if one.task_group and not one.placeholder
            ),
            slot=True,
        )
        return
    members = [
        ask for one in application.groups.values() if one.task_group == name and not one.placeholder for ask in one
    ]
    for ask in islice(sorted(members, key=_order), left):
        count = min(left, ask.pending)
        if count:
            yield replace(_slot_of(partition, ask, count), allocation_key=MEMBER_SLOT + ask.key)
        left -= count


def _order(ask: Ask) -> tuple[int, int, int]:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial
