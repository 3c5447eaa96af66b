"""Checks between the queues of a partition: names, and the sums and bounds of their resources.

A resource that a quota does not name is unlimited there (SEMANTICS D), so each comparison covers only the resources
that both sides name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.amounts import amount_text
from schedulerd.config.models import Partition, Queue
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.settings.problems import Finding, Path

ROOT = "root"


def top_queue(partition: Partition, at: Path) -> tuple[Queue, Path]:
    """The root queue of a partition and its path. A root is added above a list that is not exactly one queue named
    root."""
    queues = partition.queues or ()
    if len(queues) == 1 and queues[0].name.lower() == ROOT:
        return queues[0].model_copy(update={"name": ROOT, "parent": True}), (*at, "queues", 0)
    return Queue(name=ROOT, parent=True, queues=queues), at


def walk(queue: Queue, at: Path) -> Iterator[tuple[Queue, Path]]:
    """The queue and all below it, each with its place in the file, parents first."""
    yield queue, at
    for index, child in enumerate(queue.queues):
        yield from walk(child, (*at, "queues", index))


def check_structure(partition: Partition, at: Path) -> Iterator[Finding]:
    """Checks that queues have different names, that the root queue has no resources, which its nodes define, and that
    levels of the topology are told apart."""
    yield from _check_levels(partition, at)
    if partition.queues is None:
        yield (*at, "queues"), "missing; list the queues, at least one named root"
        return
    root, root_at = top_queue(partition, at)
    for kind in ("guaranteed", "max"):
        if getattr(root.resources, kind).items():
            yield (
                (*root_at, "resources", kind),
                "the root queue has what the nodes have; remove this and set it on the queues below",
            )
    for queue, queue_at in walk(root, root_at):
        yield from _check_child_names(queue, queue_at)


def _check_levels(partition: Partition, at: Path) -> Iterator[Finding]:
    known: set[str] = set()
    for index, level in enumerate(partition.topology):
        for key, text in (("name", level.name), ("attribute", level.attribute)):
            if not text:
                yield (*at, "topology", index, key), "missing; every level needs a name and a node attribute"
        if {level.name, level.attribute} & known - {""}:
            yield (*at, "topology", index), "its name or attribute is that of a level before it; they must differ"
        known |= {level.name, level.attribute}
    for index, key in enumerate(partition.topologykeys):
        if not key:
            yield (*at, "topologykeys", index), "missing; it needs a node attribute"
        elif key in known:
            yield (*at, "topologykeys", index), "it is a level, or a key before it; they must differ"
        known.add(key)


def _check_child_names(queue: Queue, at: Path) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, child in enumerate(queue.queues):
        child_at = (*at, "queues", index)
        if not child.name:
            yield (*child_at, "name"), "missing; every queue needs a name"
        elif (other := first.setdefault(child.name.lower(), index)) != index:
            same = queue.queues[other].name
            yield (
                (*child_at, "name"),
                f'the name is taken by queues[{other}] "{same}" beside it; names must differ in more than case',
            )


def check_resources(root: Queue, at: Path) -> Iterator[Finding]:
    """Checks that guaranteed and max of all queues fit together. Resources of the root do not count: it must have
    none."""
    findings: list[Finding] = []
    for index, queue in enumerate(root.queues):
        _check_resources(queue, (*at, "queues", index), Limits(), findings)
    yield from findings


def _check_resources(queue: Queue, at: Path, parent_max: Limits, findings: list[Finding]) -> Resources:
    """The guarantee of the queue: its own `guaranteed`, or the sum of its children's if it has none."""
    here = (*at, "resources")
    guaranteed, own_max = Resources(queue.resources.guaranteed.items()), Limits(queue.resources.max.items())
    for name, limit in _over(guaranteed, own_max):
        findings.append(
            (
                (*here, "guaranteed", name),
                f"{amount_text(name, guaranteed[name])} is more than the max of the queue, {amount_text(name, limit)}",
            )
        )
    for name, limit in _over(own_max, parent_max):
        own, most = amount_text(name, own_max[name]), amount_text(name, limit)
        findings.append(((*here, "max", name), f"{own} is more than the max of a queue above it, {most}"))
    path_max = own_max.tightest(parent_max)
    children = Resources()
    for index, child in enumerate(queue.queues):
        children.add(_check_resources(child, (*at, "queues", index), path_max, findings).items())
    for name, limit in _over(children, guaranteed):
        message = (
            f"{amount_text(name, limit)} is less than what the queues below are guaranteed together, "
            f"{amount_text(name, children[name])}"
        )
        findings.append(((*here, "guaranteed", name), message))
    # Without a guaranteed of its own the sum goes up to the queue whose max it is, which says it once.
    bounds = own_max if guaranteed.is_zero() else path_max
    for name, limit in _over(children, bounds):
        message = (
            f"the queues below are guaranteed {amount_text(name, children[name])} together, which is more than the "
            f"max, {amount_text(name, limit)}"
        )
        findings.append(((*here, "max", name), message))
    return children if guaranteed.is_zero() else guaranteed


def _over(amounts: Mapping[str, int], bounds: Mapping[str, int]) -> list[tuple[str, int]]:
    """The resources of which there is more than the bound, each with the bound."""
    return [(name, bounds[name]) for name, amount in amounts.items() if name in bounds and amount > bounds[name]]


def check_template(queue: Queue, at: Path) -> Iterator[Finding]:
    """Checks that the `guaranteed` of a child template is not above its `max`."""
    template = queue.childtemplate.resources
    guaranteed = template.guaranteed.items()
    for name, limit in _over(guaranteed, template.max.items()):
        here = (*at, "childtemplate", "resources", "guaranteed", name)
        yield (
            here,
            f"{amount_text(name, guaranteed[name])} is more than the max of the template, {amount_text(name, limit)}",
        )


def check_max_applications(queue: Queue, at: Path) -> Iterator[Finding]:
    """Checks `maxapplications`: below a queue that has a limit, each queue has one too, and none is larger."""
    for index, child in enumerate(queue.queues):
        child_at = (*at, "queues", index)
        if queue.maxapplications and not child.maxapplications:
            yield (
                (*child_at, "maxapplications"),
                f"missing or 0; the queue above has {queue.maxapplications}, so this one needs 1 to that",
            )
        elif queue.maxapplications and child.maxapplications > queue.maxapplications:
            yield (*child_at, "maxapplications"), f"more than the {queue.maxapplications} of the queue above"
        yield from check_max_applications(child, child_at)
