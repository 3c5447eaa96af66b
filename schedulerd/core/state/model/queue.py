"""A queue: its quotas, its ledgers, and the entities that wait in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    Acl,
    LimitSpec,
    PriorityPolicy,
    QueueOrder,
    QueueProperties,
    QueueSpec,
    TemplateSpec,
)
from schedulerd.core.state.pending.ask_group import PendingCounts
from schedulerd.core.state.pending.capacity import SchedulableCapacity
from schedulerd.core.state.pending.parent_entity import ParentEntity
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.sort_keys import (
    APPLICATION_ORDERS,
    INT32_MAX,
    INT32_MIN,
    draining_queue_key,
    queue_key,
)
from schedulerd.core.state.quotas.usage import Usages

if TYPE_CHECKING:
    from schedulerd.core.state.model.application import Application


class Queue(ParentEntity):
    """A queue in the queue tree. Leaf queues have applications, parent queues have queues."""

    __slots__ = (
        "above_max_alarm",
        "above_max_since_ns",
        "admin_acl",
        "allocated",
        "allocated_to_root",
        "applications",
        "capacity",
        "children",
        "draining",
        "gang_quota_promised",
        "guaranteed",
        "is_leaf",
        "leaving",
        "limits",
        "managed",
        "max",
        "max_applications",
        "name",
        "nearest_max",
        "parent",
        "path",
        "path_to_root",
        "pending",
        "pending_counts",
        "pending_to_root",
        "predicate_reserved",
        "properties",
        "quota_reserved",
        "running",
        "stopped",
        "submit_acl",
        "template",
        "usages",
        "written_name",
    )

    def __init__(self, name: str, parent: Queue | None, *, is_leaf: bool, managed: bool = True) -> None:
        super().__init__(ancestor=parent)
        self.usages: Usages = parent.usages if parent is not None else Usages()
        """What users and groups use in the partition; one for the whole tree."""
        self.capacity: SchedulableCapacity = parent.capacity if parent is not None else SchedulableCapacity()
        """What the schedulable nodes of the partition offer; one for the whole tree."""
        self.pending_counts: PendingCounts = parent.pending_counts if parent is not None else PendingCounts()
        """What is pending in each leaf by pending class; one for the whole tree."""
        self.name = name.lower()
        """In lower case, because queue names ignore case (SEMANTICS I15)."""
        self.written_name = name
        """As written in the file, or by the application for which the queue was created."""
        self.parent = parent
        self.path: str = f"{parent.path}.{self.name}" if parent else self.name
        """In lower case; identifies the queue in facts, events and metrics. Sentences use `written`."""
        self.path_to_root: tuple[Queue, ...] = (self, *(parent.path_to_root if parent else ()))
        """This queue, its parent, and so on up to the root; without this queue once it is removed."""
        self.is_leaf = is_leaf
        self.managed = managed
        """False for a dynamic queue, which the file does not name."""
        self.draining = False
        self.stopped = False
        """Whether an operator stopped this queue. Queue files do not change it."""
        self.guaranteed = Resources()
        self.max = Limits()
        self.nearest_max: Limits = parent.nearest_max if parent is not None else self.max
        """For each resource type the max of this queue, or of the nearest queue above that has one."""
        self.max_applications = 0
        self.running = 0
        """Running applications in it and below: from their first allocation until they complete."""
        self.properties = QueueProperties()
        self.limits: tuple[LimitSpec, ...] = ()
        self.template: TemplateSpec | None = None
        """What a leaf that is created below it starts with."""
        self.submit_acl = Acl()
        self.admin_acl = Acl()
        self.children: dict[str, Queue] = {}
        self.applications: dict[str, Application] = {}
        self.allocated = Resources()
        self.allocated_to_root: tuple[Resources, ...] = (
            self.allocated,
            *(parent.allocated_to_root if parent else ()),
        )
        """`allocated` of all queues of `path_to_root`."""
        self.above_max_since_ns: int | None = None
        """Since when it uses more than a lowered max, if quota relief is enabled for it; None otherwise."""
        self.above_max_alarm: Alarm | None = None
        """Rings when quota relief begins, or goes on."""
        self.leaving = Resources()
        """What allocations use that are being released, except those that are being replaced in a swap."""
        self.quota_reserved = Resources()
        """What entitled reservations and open predicate checks hold for asks in it and below."""
        self.predicate_reserved = Resources()
        """What open predicate checks hold for asks in it and below; its sort key counts this as allocated."""
        self.pending = Resources()
        self.pending_to_root: tuple[Resources, ...] = (self.pending, *(parent.pending_to_root if parent else ()))
        """`pending` of all queues of `path_to_root`."""
        self.gang_quota_promised = Resources()
        """What gangs in it and below that have passed the gang gate still lack (SEMANTICS G2)."""

    @classmethod
    def from_spec(cls, spec: QueueSpec, parent: Queue | None = None) -> Queue:
        """Creates the queue of the file with all queues below it."""
        queue = cls(spec.name, parent, is_leaf=spec.is_leaf)
        queue.configure(spec)
        queue.children = {child.key: cls.from_spec(child, queue) for child in spec.children}
        return queue

    def create(self, name: str, *, is_leaf: bool) -> Queue:
        """Creates a dynamic queue below this one; `name` is as the application writes it."""
        queue = self.children[name.lower()] = self.planned(name, is_leaf=is_leaf)
        return queue

    def planned(self, name: str, *, is_leaf: bool) -> Queue:
        """The queue that `create` would add, with inherited properties, and for a leaf with the template if there is
        one. It is not added."""
        queue = Queue(name, self, is_leaf=is_leaf, managed=False)
        if is_leaf and self.template is not None:
            queue.max_applications = self.template.max_applications
            queue.guaranteed = self.template.guaranteed
            queue.max = self.template.max
        queue.inherit()
        return queue

    # configuration --------------------------------------------------------------------------------------------------

    def configure(self, spec: QueueSpec) -> None:
        """Takes over the file's settings of this queue; settings that the file does not name are default again."""
        self.written_name = spec.name
        self.is_leaf = spec.is_leaf
        self.managed = True
        self.draining = False
        self.guaranteed = spec.guaranteed
        self.max = spec.max
        self.max_applications = spec.max_applications
        self.properties = spec.properties
        self.limits = spec.limits
        self.template = spec.template
        self.submit_acl = spec.submit_acl
        self.admin_acl = spec.admin_acl
        self.update_nearest_max()

    def inherit(self) -> None:
        """Takes over what the queue has from those above it, after one of them changed; from top to bottom. A dynamic
        queue has all its properties from there; of its quotas only the first values are."""
        parent = self.parent
        if not self.managed and parent is not None:
            self.template = parent.template
            own = parent.template.properties if self.is_leaf and parent.template is not None else None
            self.properties = own or parent.properties.for_child()
        self.update_nearest_max()

    def update_nearest_max(self) -> None:
        """To be called after its max changed; for the queues below as well, which must follow from top to bottom."""
        above = self.parent.nearest_max if self.parent is not None else None
        if not above:
            self.nearest_max = self.max
        else:
            self.nearest_max = Limits({**above, **self.max}) if self.max else above

    def set_draining(self, draining: bool) -> None:
        """Sets whether this queue and all below it drain: queues that the file no longer names take nothing new."""
        for queue in self.subtree():
            queue.draining = draining

    @property
    def is_unneeded(self) -> bool:
        """Whether it can be removed: it is empty, and the file does not name it (any longer). A dynamic queue that is
        stopped stays, because a new one of its name would not be stopped."""
        is_leftover = self.draining or not (self.managed or self.stopped)
        return is_leftover and not self.applications and not self.children

    def stopped_by(self) -> Queue | None:
        """The queue at or above this one that is stopped; None if this queue takes new applications."""
        return next((queue for queue in self.path_to_root if queue.stopped), None)

    def drop_unneeded(self) -> list[Queue]:
        """Removes all unneeded queues below this one, bottom up; returns them in this order."""
        dropped: list[Queue] = []
        for child in list(self.children.values()):
            dropped += child.drop_unneeded()
            if child.is_unneeded:
                del self.children[child.name]
                child.be_removed()
                dropped.append(child)
        return dropped

    def be_removed(self) -> None:
        """Takes this queue out of its own path, as a removed queue that refers to itself would stay in memory until a
        full garbage collection. What refers to it, such as an application that has ended, still finds those above."""
        self.path_to_root = self.path_to_root[1:]

    @property
    def written(self) -> str:
        """The path with its names as written; for sentences."""
        queue = self
        written = queue.written_name
        while queue.parent is not None:
            queue = queue.parent
            written = f"{queue.written_name}.{written}"
        return written

    # access ---------------------------------------------------------------------------------------------------------

    def excess(self) -> Resources:
        """What the queue will use above its max after all pending releases."""
        left = self.allocated.minus(self.leaving)
        return Resources({name: left[name] - most for name, most in self.max.items() if left[name] > most})

    def may_submit(self, user: str, groups: tuple[str, ...]) -> bool:
        """Whether a submit or admin ACL here or above allows the user; one is enough."""
        return any(
            queue.submit_acl.allows(user, groups) or queue.admin_acl.allows(user, groups) for queue in self.path_to_root
        )

    # pending --------------------------------------------------------------------------------------------------------

    def key(self) -> Key:
        """Its position among its siblings; before the applications if its parent became a leaf and it drains there."""
        used = self.allocated.plus(self.predicate_reserved) if self.predicate_reserved else self.allocated
        if self.parent is not None and self.parent.is_leaf:
            return draining_queue_key(
                self.parent.properties,
                self.priority,
                used,
                self.guaranteed,
                self.nearest_max,
                self.capacity.amounts,
                self.name,
            )
        properties = self.properties if self.parent is None else self.parent.properties
        return queue_key(
            properties,
            self.priority,
            used,
            self.guaranteed,
            self.nearest_max,
            self.capacity.amounts,
            self.pending,
            self.name,
        )

    @property
    def is_measured_by_capacity(self) -> bool:
        """Whether its position changes with the capacity of the nodes: it uses a resource type that is measured against
        it (`sort_keys.fair_share`)."""
        parent = self.parent
        if parent is None:
            return False
        if parent.is_leaf:
            return APPLICATION_ORDERS[parent.properties.application_order].share is not None
        has_own_measures = parent.properties.queue_order is QueueOrder.FAIR
        for used in (self.allocated, self.predicate_reserved):
            for name in used:
                if not (has_own_measures and (self.guaranteed[name] or name in self.nearest_max)):
                    return True
        return False

    def shown_priority(self, highest: int) -> int:
        """`highest` with the offset of this queue; only the offset if the queue has a priority fence
        (`priority.policy`)."""
        offset = self.properties.priority_offset
        if self.properties.priority_policy is PriorityPolicy.FENCE:
            return offset
        return max(INT32_MIN, min(INT32_MAX, highest + offset)) if highest > INT32_MIN else INT32_MIN

    # lookups --------------------------------------------------------------------------------------------------------

    def subtree(self) -> list[Queue]:
        """This queue and all below it, parents before children, in the order of the file."""
        return list(self.walk())

    def walk(self) -> Iterator[Queue]:
        """As `subtree`, but lazy; queues must not be added or removed during the iteration."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def find(self, path: str) -> Queue | None:
        """The queue with this full path, from this root; None if there is none. Case is ignored."""
        names = path.lower().split(".")
        queue: Queue | None = self if names[0] == self.name else None
        for name in names[1:]:
            queue = queue.children.get(name) if queue is not None else None
        return queue
