"""What a file may say that this version reads and checks but does not act on yet: each is told as a warning.

A quota or limit that is silently without effect is worse than none, so nothing is passed over (SEMANTICS H). A line
goes from here in the change that makes the core act on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schedulerd.config.hierarchy import walk
from schedulerd.config.models import Partition, Queue
from schedulerd.config.placement import RULES, chain
from schedulerd.config.problems import Finding, Path, did_you_mean, suggest
from schedulerd.config.properties import CHECKS, ENFORCED, SORT_POLICY, STATE_AWARE

_UNENFORCED = "read, but not enforced by this version"
_PARTITION_KEYS = ("placementrules", "limits", "usergroupresolver")
_QUEUE_KEYS = ("maxapplications", "limits", "childtemplate")
_RESOURCES = ("memory", "vcore", "ephemeral-storage", "pods")


def warn_partition(partition: Partition, at: Path) -> Iterator[Finding]:
    """What of the partition's own keys has no effect."""
    for key in _PARTITION_KEYS:
        if getattr(partition, key) != Partition.model_fields[key].default:
            yield (*at, key), _UNENFORCED
    if partition.preemption.quotapreemptionenabled:
        yield (*at, "preemption", "quotapreemptionenabled"), _UNENFORCED
    for index, rule in enumerate(partition.placementrules):
        for part, here in chain(rule, (*at, "placementrules", index)):
            if part.name and part.name.lower() not in RULES:
                yield (*here, "name"), f"no such rule, so it places nothing; {suggest(part.name, RULES)}"


def warn_queues(root: Queue, root_at: Path) -> Iterator[Finding]:
    """What of the keys of a queue or of those below it has no effect, or not the one that is likely meant."""
    for queue, at in walk(root, root_at):
        for key in _QUEUE_KEYS:
            if getattr(queue, key) != Queue.model_fields[key].default:
                yield (*at, key), _UNENFORCED
        yield from _warn_properties(queue.properties, (*at, "properties"))
        yield from _warn_properties(queue.childtemplate.properties, (*at, "childtemplate", "properties"), told=True)
        for kind in ("guaranteed", "max"):
            yield from _warn_resources(getattr(queue.resources, kind).items(), (*at, "resources", kind))


def _warn_properties(values: Mapping[str, str], at: Path, told: bool = False) -> Iterator[Finding]:
    """`told` if it was said already that all of this has no effect."""
    for name, value in values.items():
        if name not in CHECKS:
            yield (*at, name), f"unknown property, ignored; {suggest(name, CHECKS)}"
        elif name not in ENFORCED and not told:
            yield (*at, name), _UNENFORCED
        elif name == SORT_POLICY and value.lower() == STATE_AWARE:
            yield (*at, name), "an older name for fifo, and treated as fifo; write fifo"


def _warn_resources(amounts: Mapping[str, int], at: Path) -> Iterator[Finding]:
    for name in amounts:
        if name not in _RESOURCES and (hint := did_you_mean(name, _RESOURCES)):
            yield (*at, name), f"{hint} As it stands this is a resource of its own"
