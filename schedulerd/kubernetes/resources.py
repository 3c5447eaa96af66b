"""What a pod asks for, by Kubernetes' own rule: that of its scheduler and of the kubelet. The names of resources.

Source: component-helpers `resource.PodRequests` of Kubernetes 1.36, and KEPs 753 (sidecars), 1287 (in-place resize),
2837 (resources of the pod as a whole).

Containers and sidecars run together, so their requests are added. An init container runs before them, beside the
sidecars that were started earlier; the pod needs the larger of the two. All sums are exact; rounding is done last.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from schedulerd.kubernetes.objects.pod import Container, ContainerStatus, Pod, Quantities
from schedulerd.kubernetes.quantity import nanos, to_millis, to_units

CPU, MEMORY, PODS = "cpu", "memory", "pods"
VCORE = "vcore"
"""What Kubernetes calls `cpu` is `vcore` in the scheduler interface; all other names are the same."""
_HUGE_PAGES = "hugepages-"
_ALWAYS = "Always"

_NOTHING: Quantities = {}

Plain = tuple[tuple[tuple[str, str | int], ...], ...]

Nanos = dict[str, int]
"""Amounts in nanos by resource name."""


def pod_requests(pod: Pod) -> Mapping[str, int]:
    """What the pod needs of a node: cpu in thousandths, all else in whole units, rounded up, and always `pods: 1`.

    Pods of one template share what they get. Raises MalformedQuantity.
    """
    plain = plain_requests(pod)
    return requests_of_plain(plain) if plain is not None else {**rounded(_requests(pod)), PODS: 1}


def rounded(amounts: Mapping[str, int]) -> dict[str, int]:
    """Nanos as the scheduler counts them: cpu in thousandths, all else in whole units, rounded up."""
    return {name: to_millis(amount) if name == CPU else to_units(amount) for name, amount in amounts.items()}


def read_quantities(quantities: Mapping[str, str | int] | None) -> dict[str, int]:
    """Quantities as the scheduler counts them (a node's `allocatable`). Raises MalformedQuantity."""
    return rounded(_read(quantities))


def resize_state(pod: Pod) -> tuple[object, ...]:
    """What of the status has a part in `pod_requests`: equal for two states of a pod that request the same."""
    status = pod.status
    return (status.container_statuses, status.init_container_statuses, _is_resize_infeasible(pod))


def is_sidecar(init_container: Container) -> bool:
    """The init container goes on running beside the containers."""
    return init_container.restart_policy == _ALWAYS


def plain_requests(pod: Pod) -> Plain | None:
    """The requests of each container, if the pod has nothing else that counts: pods of one template are equal then."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return None
    for one in status.container_statuses or ():
        if one.resources is not None or one.allocated_resources is not None:
            return None
    containers = spec.containers
    if containers is not None and len(containers) == 1:
        return (tuple((containers[0].resources.requests or _NOTHING).items()),)
    return tuple([tuple((one.resources.requests or _NOTHING).items()) for one in containers or ()])


@lru_cache(4_096)
def requests_of_plain(containers: Plain) -> Mapping[str, int]:
    """What such containers need together. Raises MalformedQuantity."""
    total: Nanos = {}
    for requests in containers:
        _add(total, _read(dict(requests)))
    return {**rounded(total), PODS: 1}


def _requests(pod: Pod) -> Nanos:
    spec = pod.spec
    requests = _of_containers(pod)
    if spec.resources is not None:
        requests.update((name, amount) for name, amount in _read(spec.resources.requests).items() if _is_of_pods(name))
    _add(requests, _read(spec.overhead))
    return requests


def _of_containers(pod: Pod) -> Nanos:
    statuses = _statuses(pod)
    is_infeasible = bool(statuses) and _is_resize_infeasible(pod)
    running: Nanos = {}
    for container in pod.spec.containers or ():
        _add(running, _effective(container, statuses.get(container.name), is_infeasible))
    sidecars: Nanos = {}
    starting: Nanos = {}
    for container in pod.spec.init_containers or ():
        if is_sidecar(container):
            needed = _effective(container, statuses.get(container.name), is_infeasible)
            _add(running, needed)
            _add(sidecars, needed)
            _raise(starting, sidecars)
        else:
            needed = _read(container.resources.requests)
            _add(needed, sidecars)
            _raise(starting, needed)
    _raise(running, starting)
    return running


def _effective(container: Container, status: ContainerStatus | None, is_infeasible: bool) -> Nanos:
    """Requests of a container that may be resized: the largest of what is wanted, granted and set up.

    A resize that the node can never grant counts only with what is granted and set up.
    """
    if status is None:
        return _read(container.resources.requests)
    needed = {} if is_infeasible else _read(container.resources.requests)
    _raise(needed, _read(status.allocated_resources))
    if status.resources is not None:
        _raise(needed, _read(status.resources.requests))
    return needed


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """By container, those that say anything about resources."""
    both = (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
    return {
        status.name: status for status in both if status.resources is not None or status.allocated_resources is not None
    }


def _is_resize_infeasible(pod: Pod) -> bool:
    if pod.status.resize == "Infeasible":
        return True
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _is_of_pods(name: str) -> bool:
    """Whether the resource can be requested for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


def _read(quantities: Mapping[str, str | int] | None) -> Nanos:
    return {name: nanos(quantity) for name, quantity in quantities.items()} if quantities else {}


def _add(total: Nanos, more: Nanos) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Nanos, other: Nanos) -> None:
    """Raises each amount to that of the other, if it is smaller."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def scheduler_names(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts of pods or nodes under the names of the scheduler interface."""
    return {VCORE if name == CPU else name: amount for name, amount in amounts.items()}


def scheduler_amounts(quantities: Mapping[str, str | int] | None) -> dict[str, int]:
    """Kubernetes quantities as amounts of the scheduler interface. Raises MalformedQuantity."""
    return scheduler_names(read_quantities(dict(quantities or {})))


def amounts_asked(pod: Pod) -> Mapping[str, int]:
    """What the pod needs of a node, where that is more than nothing, as amounts of the scheduler interface.

    Pods of one template share what they get. Raises MalformedQuantity.
    """
    plain = plain_requests(pod)
    return _above_0(pod_requests(pod)) if plain is None else _asked_by_plain(plain)


@lru_cache(4_096)
def _asked_by_plain(containers: Plain) -> Mapping[str, int]:
    return _above_0(requests_of_plain(containers))


def _above_0(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in scheduler_names(amounts).items() if amount > 0}
