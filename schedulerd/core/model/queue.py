"""A queue: its quotas, its ledgers, and the contenders that wait in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.decide.shares import queue_key, shares
from schedulerd.core.model.host import ClosedFor, Host
from schedulerd.core.model.line import Key
from schedulerd.core.resources import Items, Limits, Resources
from schedulerd.core.specs import Acl, ApplicationOrder, QueueSpec

if TYPE_CHECKING:
    from schedulerd.core.model.application import Application


class Queue(Host):
    """A node of the queue tree. Leaves have applications, parents have queues."""

    __slots__ = (
        "admin_acl",
        "allocated",
        "application_order",
        "applications",
        "children",
        "draining",
        "guaranteed",
        "is_leaf",
        "lineage",
        "managed",
        "max",
        "name",
        "parent",
        "path",
        "pending",
        "submit_acl",
    )

    def __init__(self, name: str, parent: Queue | None, *, is_leaf: bool, managed: bool = True) -> None:
        super().__init__()
        self.name = name
        self.parent = parent
        self.path: str = f"{parent.path}.{name}" if parent else name
        self.lineage: tuple[Queue, ...] = (self, *(parent.lineage if parent else ()))
        """This queue, its parent, and so on up to the root."""
        self.is_leaf = is_leaf
        self.managed = managed
        """False for a dynamic queue, which the file does not name."""
        self.draining = False
        self.guaranteed = Resources()
        self.max = Limits()
        self.application_order = ApplicationOrder.FIFO
        self.submit_acl = Acl()
        self.admin_acl = Acl()
        self.children: dict[str, Queue] = {}
        self.applications: dict[str, Application] = {}
        self.allocated = Resources()
        self.pending = Resources()

    @classmethod
    def from_spec(cls, spec: QueueSpec, parent: Queue | None = None) -> Queue:
        """The queue of the file with everything below it."""
        queue = cls(spec.name, parent, is_leaf=spec.is_leaf)
        queue.configure(spec)
        queue.children = {child.name: cls.from_spec(child, queue) for child in spec.children}
        return queue

    # configuration --------------------------------------------------------------------------------------------------

    def configure(self, spec: QueueSpec) -> None:
        """Takes over what the file says of this queue itself; what it does not say is default."""
        self.is_leaf = spec.is_leaf
        self.managed = True
        self.draining = False
        self.guaranteed = spec.guaranteed
        self.max = spec.max
        self.application_order = spec.application_order
        self.submit_acl = spec.submit_acl
        self.admin_acl = spec.admin_acl

    def drain(self) -> None:
        """The file does not name it any longer: it and all below it take nothing new."""
        for queue in self.subtree():
            queue.draining = True

    def drop_empty(self) -> None:
        """Removes the draining queues from here upwards, and below, in which nothing is left."""
        for child in list(self.children.values()):
            if child.draining:
                child.drop_empty()
        queue: Queue | None = self
        while queue is not None and queue.draining and not queue.applications and not queue.children:
            if queue.parent is not None:
                queue.parent.children.pop(queue.name, None)
            queue = queue.parent

    # quotas ---------------------------------------------------------------------------------------------------------

    def lacks_quota(self, items: Items) -> str | None:
        """The first resource for which this queue's own quota has no room, or None."""
        return self.max.exceeded_by(self.allocated, items)

    def headroom(self) -> Limits:
        """What the quotas here and above still allow; cluster size is not a quota (SEMANTICS G2)."""
        left = Limits()
        for queue in self.lineage:
            left = left.tightest(queue.max.left(queue.allocated))
        return left

    def may_submit(self, user: str, groups: tuple[str, ...]) -> bool:
        """Whether a submit or admin ACL here or above lets the user in; any grant on the way up counts."""
        return any(
            queue.submit_acl.allows(user, groups) or queue.admin_acl.allows(user, groups) for queue in self.lineage
        )

    # waiting --------------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Queue | None:
        return self.parent

    def key(self) -> Key:
        """Its place among its siblings; before the applications, where its parent has become a leaf around it."""
        if self.parent is not None and self.parent.is_leaf:
            is_fair = self.parent.application_order is ApplicationOrder.FAIR
            return (shares(self.allocated, self.guaranteed), -1, self.name) if is_fair else (-1, self.name)
        return queue_key(self.allocated, self.guaranteed, self.pending, self.name)

    def reopen_where_quota_allows(self) -> None:
        """Usage went down or the quota up: what was closed here for want of quota, and has room now, opens again."""
        closed = self.lines.closed
        if closed:
            for shape in [
                shape
                for shape, closing in closed.items()
                if closing.origin is self
                and closing.reason is ClosedFor.QUOTA
                and self.lacks_quota(shape.items) is None
            ]:
                self.reopen(shape)

    # looking around -------------------------------------------------------------------------------------------------

    def subtree(self) -> list[Queue]:
        """This queue and all below it, parents before children, in the order of the file."""
        found = [self]
        for child in self.children.values():
            found.extend(child.subtree())
        return found

    def find(self, path: str) -> Queue | None:
        """The queue of a full path below this root, or None. Paths are compared in lower case."""
        names = path.lower().split(".")
        queue: Queue | None = self if names[0] == self.name else None
        for name in names[1:]:
            queue = queue.children.get(name) if queue is not None else None
        return queue
