"""What a file may say that has no effect, or not the one that is likely meant: each is told as a warning.

A quota or limit that is silently without effect is worse than none, so nothing is passed over (SEMANTICS H). A property
that this version does not act on is one without a field in `PROPERTIES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schedulerd.config.hierarchy import walk
from schedulerd.config.models import ChildTemplate, Limit, Partition, Queue, ResolverType
from schedulerd.config.placement import NEEDS_VALUE, chain, warn_filters
from schedulerd.config.properties import PROPERTIES
from schedulerd.core.language.specs import Acl
from schedulerd.settings.problems import Finding, Path, did_you_mean, suggest

_RESOURCES = ("memory", "vcore", "ephemeral-storage", "pods")
_MEANT = {
    **dict.fromkeys(("cpu", "cpus", "core", "cores", "vcore", "vcores", "vcpu", "vcpus", "milli-cpu"), "vcore"),
    **dict.fromkeys(("mem", "memory", "ram"), "memory"),
    **dict.fromkeys(("gpu", "gpus", "nvidia-gpu", "nvidia.com/gpus", "nvidia/gpu"), "nvidia.com/gpu"),
    **dict.fromkeys(("storage", "disk", "ephemeral_storage", "ephemeralstorage"), "ephemeral-storage"),
    **dict.fromkeys(("pod", "pods"), "pods"),
}
"""Names under which people look for a resource, in lower case, and its name."""
_TOO_SMALL = "{amount} {unit}, less than any pod asks for; did you mean {meant}?"
_NOBODY = (
    "missing, so nobody may submit here: no submitacl or adminacl of the queue, of those above or of those below names "
    'anybody; write submitacl: "*" for everybody'
)
_RESOLVERS = (ResolverType.NONE, ResolverType.OS)


def warn_partition(partition: Partition, at: Path) -> Iterator[Finding]:
    """What of the partition's own keys has no effect."""
    if partition.usergroupresolver.type not in _RESOLVERS:
        yield (
            (*at, "usergroupresolver", "type"),
            f"not supported by this version, groups come from the request only; use {' or '.join(_RESOLVERS)}",
        )
    for index, rule in enumerate(partition.placementrules):
        for part, here in chain(rule, (*at, "placementrules", index)):
            if part.value and part.name not in NEEDS_VALUE:
                yield (*here, "value"), f"without effect: a {part.name} rule has no value; remove it"
            yield from warn_filters(part, here)
    yield from _warn_limits(partition.limits, at)


def warn_queues(root: Queue, root_at: Path) -> Iterator[Finding]:
    """What of the keys of a queue or of those below it has no effect, or not the one that is likely meant."""
    for queue, at in walk(root, root_at):
        yield from _warn_properties(queue.properties, (*at, "properties"))
        yield from _warn_properties(queue.childtemplate.properties, (*at, "childtemplate", "properties"))
        if queue.childtemplate != ChildTemplate() and not queue.is_parent:
            yield (
                (*at, "childtemplate"),
                "without effect: nothing is created below a leaf; add parent: true or remove it",
            )
        for kind in ("guaranteed", "max"):
            yield from _warn_resources(getattr(queue.resources, kind).items(), (*at, "resources", kind))
            amounts = getattr(queue.childtemplate.resources, kind).items()
            yield from _warn_resources(amounts, (*at, "childtemplate", "resources", kind))
        yield from _warn_limits(queue.limits, at)


def _warn_limits(limits: Iterable[Limit], at: Path) -> Iterator[Finding]:
    for index, limit in enumerate(limits):
        yield from _warn_resources(limit.maxresources.items(), (*at, "limits", index, "maxresources"))


def _warn_properties(values: Mapping[str, str], at: Path) -> Iterator[Finding]:
    for name in values:
        if name not in PROPERTIES:
            yield (*at, name), f"unknown property, ignored; {suggest(name, PROPERTIES)}"
        elif not PROPERTIES[name].field:
            yield (*at, name), "read, but not enforced by this version"


def warn_nobody(root: Queue, root_at: Path) -> Iterator[Finding]:
    """Queues that nobody may submit to, the uppermost ones: no access list above, there or below names anybody."""
    if _lets_in(root):
        return
    if not any(_lets_in(queue) for queue, _ in walk(root, root_at)):
        yield (*root_at, "submitacl"), _NOBODY
        return
    for index, child in enumerate(root.queues):
        yield from warn_nobody(child, (*root_at, "queues", index))


def _lets_in(queue: Queue) -> bool:
    """Whether the access lists of the queue itself name anybody; its queues below are then open to them too."""
    return queue.submitacl != Acl() or queue.adminacl != Acl()


def _warn_resources(amounts: Mapping[str, int], at: Path) -> Iterator[Finding]:
    for name, amount in amounts.items():
        meant = _MEANT.get(name.lower())
        if meant not in (None, name.lower()):
            yield (*at, name), f'without effect unless a node reports "{name}"; Kubernetes nodes report {meant}'
        elif name not in _RESOURCES and (hint := did_you_mean(name, _RESOURCES)):
            yield (*at, name), f"{hint} As it stands this is a resource of its own"
        elif 0 < amount < _least(name):
            yield (*at, name), _TOO_SMALL.format(amount=amount, unit=_unit(name), meant=_plausible(name, amount))


def _least(name: str) -> int:
    """Smaller amounts are hardly meant: less than any pod asks for."""
    if name == "vcore":
        return 10
    return 1 << 20 if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-") else 0


def _unit(name: str) -> str:
    return "thousandths of a core" if name == "vcore" else "bytes"


def _plausible(name: str, amount: int) -> str:
    return f"{amount} (cores)" if name == "vcore" else f"{amount}Mi or {amount}Gi"
