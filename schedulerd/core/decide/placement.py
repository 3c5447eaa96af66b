"""Which queue an application goes to: the queue it names, or the recovery queue if it has to be taken in any case."""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import NewApplication
from schedulerd.core.facts import RejectCode
from schedulerd.core.model.queue import Queue

FORCE_CREATE_TAG = "application.create.force"
RECOVERY_QUEUE = "@recovery@"


@dataclass(frozen=True, slots=True)
class Placement:
    """The leaf to use: an existing queue, or the name of one to be made below `queue`."""

    queue: Queue
    create: str = ""


def place_application(root: Queue, application: NewApplication) -> Placement | Mistake:
    """Applies the `provided` rule: the named leaf, if it exists and its ACL lets the user in.

    With the tag `application.create.force` an application that runs already is never refused: it goes to
    `root.@recovery@`, where neither ACL nor quota holds, until its pods end.
    """
    provided = _provided(root, application)
    if isinstance(provided, Mistake) and application.tags.get(FORCE_CREATE_TAG, "").lower() == "true":
        existing = root.children.get(RECOVERY_QUEUE)
        return Placement(existing) if existing is not None else Placement(root, create=RECOVERY_QUEUE)
    return provided


def _provided(root: Queue, application: NewApplication) -> Placement | Mistake:
    named = application.queue.strip()
    path = named if named.lower() == root.name or named.lower().startswith(f"{root.name}.") else f"{root.name}.{named}"
    if not named:
        return Mistake(RejectCode.NOT_PLACED, f"queueName is empty; name a leaf queue, such as {_example(root)}")
    queue = root.find(path)
    if queue is None or queue.name == RECOVERY_QUEUE:
        return Mistake(
            RejectCode.NOT_PLACED, f"queueName {shown(named)} does not exist; leaf queues are {_leaves(root)}"
        )
    if not queue.is_leaf:
        return Mistake(
            RejectCode.NOT_PLACED,
            f"queueName {shown(named)} is a parent queue; applications go to leaf queues: {_leaves(queue)}",
        )
    if queue.draining:
        return Mistake(
            RejectCode.NOT_PLACED,
            f"queueName {shown(named)} is draining: the queue file does not name it any longer; "
            f"leaf queues are {_leaves(root)}",
        )
    if not queue.may_submit(application.user, application.groups):
        return Mistake(
            RejectCode.ACCESS_DENIED,
            f"user {shown(application.user)} with groups {list(application.groups)} may not submit to {queue.path}; "
            "no submitacl or adminacl of it or a parent queue lets them in",
        )
    return Placement(queue)


def _leaves(root: Queue, most: int = 10) -> str:
    paths = [
        queue.path for queue in root.subtree() if queue.is_leaf and not queue.draining and queue.name != RECOVERY_QUEUE
    ]
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return (", ".join(paths[:most]) or "none") + more


def _example(root: Queue) -> str:
    return _leaves(root, most=1).split(" and ")[0]
