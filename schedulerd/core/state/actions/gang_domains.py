"""The domains that task groups of a gang are bound to, because their topology requires one: all that is pending of a
task group, and all that it asks for later, may run there only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from schedulerd.core.language.commands import Expression, NewAsk, Operator, PlacementConstraint
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import requeue, requeue_group
from schedulerd.core.state.pending.request_class import RequestClass


def bind(partition: Partition, application: Application, domains: Mapping[str, Sequence[Expression]]) -> None:
    """These task groups are in these domains from now on, whatever they were bound to before."""
    assert application.gang is not None
    for name, expressions in domains.items():
        application.gang.domains[name] = PlacementConstraint(tuple(expressions))
    if domains:
        _move(partition, application, domains.keys())


def unbind(partition: Partition, application: Application) -> None:
    """Its task groups may be in other domains from now on, but for those that have members, and for the domain that all
    have in common with these."""
    gang = application.gang
    assert gang is not None
    kept = {name: domain for name, domain in gang.domains.items() if gang.task_group(name).members}
    names = [name for name in gang.domains if name not in kept]
    levels = {partition.spec.topology_attribute(one.whole_required) for one in gang.declared.values()}
    common = next((one for domain in kept.values() for one in domain.node if one.key in levels), None)
    gang.domains = kept
    if common is not None:
        gang.domains = {**kept, **dict.fromkeys(names, PlacementConstraint((common,)))}
    _move(partition, application, names)


def stay(partition: Partition, application: Application, member: Allocation) -> None:
    """A member was allocated, or is there as the RM reports: a task group that is not bound yet is where it is. So the
    domain of a gang survives a registration."""
    gang, name = application.gang, member.spec.task_group
    if gang is None or name not in gang.declared or gang.state is GangState.GIVEN_UP:
        return
    group = gang.declared[name]
    known = gang.domains.get(name)
    whole = _domain_of(partition, member, group.whole_required)
    own = _domain_of(partition, member, group.required_topology)
    if not (whole or own) or (known is not None and len(known.node) == len(whole + own)):
        return
    found = {one: whole for one in gang.declared if whole and one not in gang.domains}
    bind(partition, application, {**found, name: whole + own})


def _domain_of(partition: Partition, member: Allocation, level: str) -> tuple[Expression, ...]:
    attribute = partition.spec.topology_attribute(level) if level else None
    value = member.node.attribute(attribute) if attribute is not None else None
    return () if attribute is None or value is None else (Expression(attribute, Operator.IN, (value,)),)


def request_class(partition: Partition, application: Application, spec: NewAsk) -> RequestClass:
    """The request class of an ask of the application: within the domain of its task group, if it is bound to one."""
    gang = application.gang
    domain = gang.domains.get(spec.task_group) if gang is not None and gang.domains else None
    if domain is None:
        return partition.request_class_of(spec)
    if spec.constraint is not None:
        domain = replace(spec.constraint, node=(*spec.constraint.node, *domain.node))
    return partition.request_class_of(replace(spec, constraint=domain))


def _move(partition: Partition, application: Application, names: Collection[str]) -> None:
    """Slots and members that are asked for already get the request class of their domain."""
    for group in [one for one in application.groups.values() if one.task_group in names]:
        asks = list(group)
        if _are_alike(group):
            wanted = request_class(partition, application, asks[0].spec)
            if requeue_group(partition, application, group, wanted):
                continue
        for ask in asks:
            wanted = request_class(partition, application, ask.spec)
            requeue(partition, application, ask, wanted, ask.task_group)
    known: dict[RequestClass, RequestClass] = {}
    for ask in application.asks.values():  # those that are allocated: they are there too if they are pending again
        if not ask.pending and ask.task_group in names:
            old = ask.request_class
            wanted = known.get(old) or request_class(partition, application, ask.spec)
            if old.constraint is None:
                known[old] = wanted
            ask.request_class = wanted


def _are_alike(group: AskGroup) -> bool:
    """Whether what all its asks demand of nodes is the same, whatever they are bound to."""
    constraint = next(iter(group)).spec.constraint
    return all(
        one.spec.constraint is constraint and not (one.spec.tags and NODE_SELECTOR_TAG in one.spec.tags)
        for one in group
    )
