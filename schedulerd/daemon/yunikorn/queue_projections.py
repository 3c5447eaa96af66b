"""Queues in the peer's shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schedulerd.config import ShownConfiguration
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import PreemptionPolicy, PriorityPolicy
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.sort_keys import INT32_MIN
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn.application_projections import highest_priority
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, duration, go_object, percentages, quota

Amounts = dict[str, int]

_ALWAYS = frozenset(
    {
        "queuename",
        "partition",
        "isLeaf",
        "isManaged",
        "currentPriority",
        "prioritySorting",
        "preemptionEnabled",
        "isPreemptionFence",
        "isPriorityFence",
    }
)
_RUNS = frozenset({ApplicationState.STARTING, ApplicationState.RUNNING, ApplicationState.COMPLETING})
_NOT_INHERITED = {"priority.offset": "0", "priority.policy": "default", "preemption.policy": "default"}
"""Properties that a child does not take over from its parent, with their values in the child."""


@dataclass(slots=True)
class QueueObjects:
    """Makes the objects of one partition, for one answer."""

    partition: Partition
    shown: ShownConfiguration
    """The queue file, for the texts of properties."""
    preempting: Mapping[Queue, Amounts] = field(default_factory=dict)
    """What allocations use that are being preempted."""
    allocating: Mapping[Queue, list[str]] = field(default_factory=dict)
    """Applications that have placeholders and do not run yet. The scheduler counts them as running already."""
    priorities: Mapping[Queue, int] = field(default_factory=dict)
    """The highest priority of pending asks, blocked ones too, with the offsets of the queues."""

    @classmethod
    async def of(cls, call: Call, rm: ResourceManager, partition: Partition) -> QueueObjects:
        """Collects what the queues themselves do not know. Raises `PeerError` if that cannot be had now."""
        shown = await call.rest.configurations.of(rm)
        preempting = await _preempting(call, partition)
        return cls(partition, shown, preempting, *await _of_applications(call, partition))

    def tree(self, root: Queue) -> Fields:
        """A queue with all queues below it. Only the top of the tree names the partition."""
        return {**self._fields(root, self._path_down(root), with_children=True), "partition": self.partition.name}

    def queue(self, queue: Queue, *, with_children: bool) -> Fields:
        """One queue; the names of its children are there in any case."""
        return self._fields(queue, self._path_down(queue), with_children=with_children)

    def _path_down(self, queue: Queue) -> _Inherited:
        """What comes down to this queue from the root."""
        inherited = _Inherited(None, {})
        for one in reversed(queue.path_to_root[1:]):
            inherited = self._below(one, inherited)
        return inherited

    def _below(self, queue: Queue, inherited: _Inherited) -> _Inherited:
        return _Inherited(self._headroom(queue, inherited.headroom), self._properties(queue, inherited.properties))

    def _fields(self, queue: Queue, inherited: _Inherited, *, with_children: bool) -> Fields:
        own = self._below(queue, inherited)
        most, properties = self._max(queue), queue.properties
        children = list(queue.children.values())
        order = properties.application_order if queue.is_leaf else properties.queue_order
        policy = properties.preemption_policy
        return go_object(
            {
                "queuename": queue.path,
                "status": _status(queue),
                "partition": "",
                "pendingResource": amounts(queue.pending),
                "maxResource": quota(most),
                "guaranteedResource": amounts(queue.guaranteed),
                "allocatedResource": amounts(queue.allocated),
                "preemptingResource": amounts(self.preempting.get(queue, {})),
                "headroom": quota(own.headroom),
                "isLeaf": queue.is_leaf,
                "isManaged": queue.managed,
                "properties": dict(sorted(own.properties.items())),
                "parent": queue.parent.path if queue.parent is not None else "",
                "template": self._template(queue),
                "children": Listed(self._children(children, own)) if with_children and children else None,
                "childNames": Listed(one.path for one in children) if children else None,
                "absUsedCapacity": percentages(queue.allocated, most or {}),
                "maxRunningApps": queue.max_applications,
                "runningApps": queue.running - len(self.allocating.get(queue, ())),
                "currentPriority": self.priorities.get(queue, INT32_MIN),
                "allocatingAcceptedApps": self.allocating.get(queue),
                "sortingPolicy": order.value,
                "prioritySorting": properties.priority_sort,
                "preemptionEnabled": policy is not PreemptionPolicy.DISABLED,
                "isPreemptionFence": policy is PreemptionPolicy.FENCE,
                "preemptionDelay": duration(properties.preemption_delay_ns),
                "quotaPreemptionDelay": duration(properties.quota_preemption_delay_ns),
                "isPriorityFence": properties.priority_policy is PriorityPolicy.FENCE,
                "priorityOffset": properties.priority_offset,
            },
            _ALWAYS,
        )

    def _children(self, children: list[Queue], own: _Inherited) -> Iterator[Fields]:
        for one in children:
            if one.parent is not None and one.parent.children.get(one.name) is one:
                yield self._fields(one, own, with_children=True)

    def _max(self, queue: Queue) -> Mapping[str, int] | None:
        """The queue's own max. That of the root is what the nodes offer."""
        if queue.parent is None:
            return amounts(self.partition.total())
        return queue.max

    def _headroom(self, queue: Queue, above: Amounts | None) -> Amounts | None:
        """What the queue and those above it leave; None: there is no limit."""
        most = self._max(queue)
        if not most:
            return above
        used = queue.allocated
        own = {name: amount - used[name] for name, amount in most.items()}
        if above is None:
            return own
        return {name: min(own.get(name, left), left) for name, left in above.items()} | {
            name: left for name, left in own.items() if name not in above
        }

    def _properties(self, queue: Queue, above: Mapping[str, str]) -> dict[str, str]:
        """The properties as written, with those that are inherited."""
        inherited = {
            name: text if text == "disabled" and name == "preemption.policy" else _NOT_INHERITED.get(name, text)
            for name, text in above.items()
        }
        written = self.shown.properties(self.partition.name, queue.path) if queue.managed else {}
        if not queue.managed and queue.is_leaf and queue.template is not None and queue.template.properties is not None:
            return self._template_properties(queue)
        return {**inherited, **written}

    def _template_properties(self, queue: Queue) -> dict[str, str]:
        """As written in the nearest template."""
        for one in queue.path_to_root:
            if found := self.shown.template_properties(self.partition.name, one.path):
                return dict(found)
        return {}

    def _template(self, queue: Queue) -> Fields:
        template = queue.template
        if template is None or queue.is_leaf:
            return {}
        return go_object(
            {
                "maxApplications": template.max_applications,
                "maxResource": quota(template.max),
                "guaranteedResource": amounts(template.guaranteed),
                "properties": dict(sorted(self._template_properties(queue).items())),
            }
        )


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What a queue hands down."""

    headroom: Amounts | None
    properties: Mapping[str, str]


async def _of_applications(call: Call, partition: Partition) -> tuple[dict[Queue, list[str]], dict[Queue, int]]:
    """`QueueObjects.allocating` and `QueueObjects.priorities`."""
    allocating: dict[Queue, list[str]] = {}
    highest: dict[Queue, int] = {}
    for number, app in enumerate(list(partition.applications.values())):
        if number % 256 == 0:
            await call.work.breathe()
        if app.allocations and not app.has_run and app.state not in _RUNS:
            for queue in app.queue.path_to_root:
                allocating.setdefault(queue, []).append(app.application_id)
        if app.groups:
            highest[app.queue] = max(highest.get(app.queue, INT32_MIN), highest_priority(app))
    for number, queue in enumerate(reversed(partition.root.subtree())):  # children before parents
        if number % 256 == 0:
            await call.work.breathe()
        if queue in highest:
            highest[queue] = queue.shown_priority(highest[queue])
            if queue.parent is not None:
                highest[queue.parent] = max(highest.get(queue.parent, INT32_MIN), highest[queue])
    return allocating, highest


async def _preempting(call: Call, partition: Partition) -> dict[Queue, Amounts]:
    """Looks only where something is being released."""
    found: dict[Queue, Amounts] = {}
    leaves = [one for one in partition.root.subtree() if one.is_leaf and one.leaving] if partition.root.leaving else []
    for leaf in leaves:
        for app in list(leaf.applications.values()):
            await call.work.breathe()
            for number, one in enumerate(list(app.allocations.values())):
                if number % 256 == 0:
                    await call.work.breathe()
                if one.releasing is None or one.releasing.name != "PREEMPTED_BY_SCHEDULER":
                    continue
                for queue in leaf.path_to_root:
                    total = found.setdefault(queue, {})
                    for name, amount in one.request_class.items:
                        total[name] = total.get(name, 0) + amount
    return found


def _status(queue: Queue) -> str:
    """As the peer names the states of a queue: one that an operator stopped, itself or above it, is Stopped."""
    if queue.draining:
        return "Draining"
    return "Active" if queue.stopped_by() is None else "Stopped"
