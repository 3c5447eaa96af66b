"""A queue: its quotas, its ledgers, and the entities that wait in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.decide.shares import INT32_MAX, INT32_MIN, draining_queue_key, queue_key
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.parent_entity import BlockReason, ParentEntity
from schedulerd.core.model.pending_index import Key
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.quotas.rules import blocked
from schedulerd.core.quotas.usage import Usages
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.specs import (
    Acl,
    ApplicationOrder,
    LimitSpec,
    PriorityPolicy,
    QueueProperties,
    QueueSpec,
    TemplateSpec,
)

if TYPE_CHECKING:
    from schedulerd.core.model.application import Application


class Queue(ParentEntity):
    """A node of the queue tree. Leaves have applications, parents have queues."""

    __slots__ = (
        "above_max_alarm",
        "above_max_since_ns",
        "admin_acl",
        "allocated",
        "applications",
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
        "parent",
        "path",
        "path_to_root",
        "pending",
        "predicate_reserved",
        "properties",
        "quota_reserved",
        "running",
        "submit_acl",
        "template",
        "usages",
        "written_name",
    )

    def __init__(self, name: str, parent: Queue | None, *, is_leaf: bool, managed: bool = True) -> None:
        super().__init__(ancestor=parent)
        self.usages: Usages = parent.usages if parent is not None else Usages()
        """What users and groups use in the partition; one for the whole tree."""
        self.name = name.lower()
        """Names of queues ignore case: this is what they are compared by (SEMANTICS I15)."""
        self.written_name = name
        """As the file writes it, or the application for which it was created."""
        self.parent = parent
        self.path: str = f"{parent.path}.{self.name}" if parent else self.name
        """In lower case; what identifies the queue in facts, events and metrics. Sentences have `written`."""
        self.path_to_root: tuple[Queue, ...] = (self, *(parent.path_to_root if parent else ()))
        """This queue, its parent, and so on up to the root."""
        self.is_leaf = is_leaf
        self.managed = managed
        """False for a dynamic queue, which the file does not name."""
        self.draining = False
        self.guaranteed = Resources()
        self.max = Limits()
        self.max_applications = 0
        self.running = 0
        """Applications in it and below that count as running: from their first allocation until they complete."""
        self.properties = QueueProperties()
        self.limits: tuple[LimitSpec, ...] = ()
        self.template: TemplateSpec | None = None
        """What leaves start with that are created below it."""
        self.submit_acl = Acl()
        self.admin_acl = Acl()
        self.children: dict[str, Queue] = {}
        self.applications: dict[str, Application] = {}
        self.allocated = Resources()
        self.above_max_since_ns: int | None = None
        """Since when it uses more than a lowered max, if that may end what runs in it."""
        self.above_max_alarm: Alarm | None = None
        """When it has had time enough to come back by itself."""
        self.leaving = Resources()
        """Of that, what was asked to go and whose room nobody has taken in exchange."""
        self.quota_reserved = Resources()
        """What asks in it and below will use for which room is kept firmly on a node, or that wait for a result."""
        self.predicate_reserved = Resources()
        """Of that, what those hold that wait for a result: it counts in the order as if they were placed."""
        self.pending = Resources()
        self.gang_quota_promised = Resources()
        """What gangs that were let start in it and below have not placed yet (SEMANTICS G2)."""

    @classmethod
    def from_spec(cls, spec: QueueSpec, parent: Queue | None = None) -> Queue:
        """The queue of the file with everything below it."""
        queue = cls(spec.name, parent, is_leaf=spec.is_leaf)
        queue.configure(spec)
        queue.children = {child.key: cls.from_spec(child, queue) for child in spec.children}
        return queue

    def create(self, name: str, *, is_leaf: bool) -> Queue:
        """A dynamic queue below this one; `name` is as the application writes it."""
        queue = self.children[name.lower()] = self.planned(name, is_leaf=is_leaf)
        return queue

    def planned(self, name: str, *, is_leaf: bool) -> Queue:
        """What `create` would make, with what is handed down, and as a leaf with the template if there is one. This
        queue does not know it."""
        queue = Queue(name, self, is_leaf=is_leaf, managed=False)
        queue.properties = self.properties.for_child()
        queue.template = self.template
        if is_leaf and self.template is not None:
            queue.max_applications = self.template.max_applications
            queue.guaranteed = self.template.guaranteed
            queue.max = self.template.max
            queue.properties = self.template.properties or queue.properties
        return queue

    # configuration --------------------------------------------------------------------------------------------------

    def configure(self, spec: QueueSpec) -> None:
        """Takes over what the file says of this queue itself; what it does not say is default."""
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

    def set_draining(self, draining: bool) -> None:
        """Whether it and all below it take nothing new: what the file does not name any longer drains."""
        for queue in self.subtree():
            queue.draining = draining

    @property
    def is_unneeded(self) -> bool:
        """Whether nobody needs it any longer: empty, and not (or not any longer) named by the file."""
        return (self.draining or not self.managed) and not self.applications and not self.children

    def drop_unneeded(self) -> list[Queue]:
        """Removes all queues below this one that nobody needs, bottom up; gives them in this order."""
        dropped: list[Queue] = []
        for child in list(self.children.values()):
            dropped += child.drop_unneeded()
            if child.is_unneeded:
                del self.children[child.name]
                dropped.append(child)
        return dropped

    @property
    def written(self) -> str:
        """The path as its names are written; for sentences."""
        return ".".join([queue.written_name for queue in reversed(self.path_to_root)])

    # access ---------------------------------------------------------------------------------------------------------

    def may_submit(self, user: str, groups: tuple[str, ...]) -> bool:
        """Whether a submit or admin ACL here or above lets the user in; any grant on the way up counts."""
        return any(
            queue.submit_acl.allows(user, groups) or queue.admin_acl.allows(user, groups) for queue in self.path_to_root
        )

    # waiting --------------------------------------------------------------------------------------------------------

    def key(self) -> Key:
        """Its place among its siblings; before the applications, where its parent has become a leaf around it."""
        used = self.allocated.plus(self.predicate_reserved) if self.predicate_reserved else self.allocated
        if self.parent is not None and self.parent.is_leaf:
            return draining_queue_key(self.parent.properties, self.priority, used, self.guaranteed, self.name)
        sort_by_priority = self.parent is None or self.parent.properties.priority_sort
        return queue_key(
            self.priority, used, self.guaranteed, self.pending, self.name, sort_by_priority=sort_by_priority
        )

    def shown_priority(self, highest: int) -> int:
        """With its offset, and without what is inside if it is fenced (`priority.policy`)."""
        offset = self.properties.priority_offset
        if self.properties.priority_policy is PriorityPolicy.FENCE:
            return offset
        return max(INT32_MIN, min(INT32_MAX, highest + offset)) if highest > INT32_MIN else INT32_MIN

    def admit_next(self) -> None:
        """In a state-aware leaf one application starts at a time: the first submitted of those that want to.

        Looks at every application of the leaf at each change of one; the order is for small queues.
        """
        if self.properties.application_order is not ApplicationOrder.STATE_AWARE:
            return
        context = self.next_to_start()
        for one in list(self.applications.values()):
            waits = one.state is ApplicationState.ACCEPTED and one is not context
            if waits != one.awaits_start:
                one.awaits_start = waits
                one.on_state_changed()

    def next_to_start(self) -> Application | None:
        """Who may start here, if one at a time may; a swap in flight is a start that has begun."""
        applications = self.applications.values()
        if any(one.state is ApplicationState.STARTING for one in applications):
            return None
        accepted = [one for one in applications if one.state is ApplicationState.ACCEPTED]
        waiting = [one for one in accepted if one.groups or one.awaiting_placeholder]
        return min(waiting, key=lambda one: one.serial, default=None)

    def unblock_where_quota_allows(self) -> list[PendingClass]:
        """Usage went down or the quota up: pending classes that a quota or limit here blocked, and that it lets in now,
        are unblocked."""
        allowed = [
            pending_class
            for pending_class, block in self.pending_index.blocked_by.items()
            if block.origin is self
            and block.reason is BlockReason.QUOTA
            and blocked(self, pending_class.items, pending_class.quota_key) is None
        ]
        for pending_class in allowed:
            self.unblock(pending_class)
        return allowed

    # looking around -------------------------------------------------------------------------------------------------

    def subtree(self) -> list[Queue]:
        """This queue and all below it, parents before children, in the order of the file."""
        return list(self.walk())

    def walk(self) -> Iterator[Queue]:
        """The same one by one; no queue may come or go meanwhile."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def find(self, path: str) -> Queue | None:
        """The queue of a full path below this root, or None. Paths are compared in lower case."""
        names = path.lower().split(".")
        queue: Queue | None = self if names[0] == self.name else None
        for name in names[1:]:
            queue = queue.children.get(name) if queue is not None else None
        return queue
