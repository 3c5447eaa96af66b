"""Which part of the cluster an object's change goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedulerd.kubernetes.cluster import allocations, answers, conditions, daemon_sets, nodes, pods
from schedulerd.kubernetes.cluster.events import Gone, Put
from schedulerd.kubernetes.cluster.gangs import declaration, life
from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.metadata.namespaces import namespace_tags
from schedulerd.kubernetes.objects.cluster import (
    BetaPodDisruptionBudget,
    DaemonSet,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
)
from schedulerd.kubernetes.objects.meta import LabelSelector, ObjectMeta
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup, PodGroup, Workload
from schedulerd.kubernetes.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from schedulerd.kubernetes.predicates.refused_pods import ATTACHED, BUDGETS, STORAGE, Change

_Handler = Callable[[Model, Any], None]


def put(model: Model, event: Put) -> None:
    """The object is new, or has changed."""
    thing = event.object
    _PUT[type(thing)](model, thing)
    _note_change(model, thing)


def gone(model: Model, event: Gone) -> None:
    """The object is deleted."""
    thing = event.object
    _GONE[type(thing)](model, thing)
    _note_change(model, thing)


def _note_change(model: Model, thing: object) -> None:
    """The nodes may say something else of pods that wait."""
    if isinstance(thing, Node):
        conditions.note_nodes(model)
    if not isinstance(thing, (Pod, DaemonSet)) or (isinstance(thing, Pod) and thing.spec.node_name):
        model.reasons.counts.version += 1


def _put_namespace(model: Model, namespace: Namespace) -> None:
    name, tags = namespace.metadata.name, namespace_tags(namespace)
    model.cache.put_namespace(namespace)
    if model.namespaces.get(name) != tags:  # others write labels and conditions of namespaces all the time
        model.namespaces[name] = tags
        answers.namespace_changed(model, name)


def _gone_namespace(model: Model, namespace: Namespace) -> None:
    model.namespaces.pop(namespace.metadata.name, None)
    model.cache.remove_namespace(namespace.metadata.name)


def _put_priority_class(model: Model, priority_class: PriorityClass) -> None:
    model.priority_classes[priority_class.metadata.name] = priority_class


def _gone_priority_class(model: Model, priority_class: PriorityClass) -> None:
    model.priority_classes.pop(priority_class.metadata.name, None)


def _put_budget(model: Model, budget: PodDisruptionBudget) -> None:
    if isinstance(budget, BetaPodDisruptionBudget) and budget.spec.selector == LabelSelector():
        _gone_budget(model, budget)
    elif model.cache.budgets.put(budget):
        model.cache.refused.happened(BUDGETS)


def _gone_budget(model: Model, budget: PodDisruptionBudget) -> None:
    if model.cache.budgets.remove(*_key(budget.metadata)) is not None:
        model.cache.refused.happened(BUDGETS)


def _lifts(change: Change, handler: _Handler) -> _Handler:
    """Pods that were refused are asked for again if they wait for this."""

    def handle(model: Model, thing: object) -> None:
        handler(model, thing)
        model.cache.refused.happened(change)

    return handle


def _put_claim(model: Model, claim: PersistentVolumeClaim) -> None:
    model.cache.storage.put_claim(claim)
    allocations.volumes_changed(model, _key(claim.metadata))
    pods.claim_changed(model, _key(claim.metadata))


def _gone_claim(model: Model, claim: PersistentVolumeClaim) -> None:
    model.cache.storage.remove_claim(*_key(claim.metadata))
    allocations.volumes_changed(model, _key(claim.metadata))
    model.cache.refused.happened(STORAGE)


def _put_volume(model: Model, volume: PersistentVolume) -> None:
    model.cache.storage.put_volume(volume)
    reference = volume.spec.claim_ref
    claim = (reference.namespace, reference.name) if reference is not None else None
    allocations.volumes_changed(model, claim, volume.metadata.name)
    model.cache.refused.happened(STORAGE)


def _gone_volume(model: Model, volume: PersistentVolume) -> None:
    model.cache.storage.remove_volume(volume.metadata.name)
    allocations.volumes_changed(model, volume=volume.metadata.name)
    model.cache.refused.happened(STORAGE)  # it was promised to a claim that may take another one now


def _put_class(model: Model, storage_class: StorageClass) -> None:
    model.cache.storage.put_class(storage_class)
    pods.class_changed(model)


def _key(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace, metadata.name


def _put_group(model: Model, thing: CoschedulingPodGroup | PodGroup | Workload) -> None:
    key = declaration.put_group(model, thing)
    if key is not None:
        life.group_changed(model, key)


def _gone_group(model: Model, thing: CoschedulingPodGroup | PodGroup | Workload) -> None:
    life.group_changed(model, declaration.gone_group(model, thing))


_PUT: dict[type, _Handler] = {
    Pod: pods.put,
    Node: nodes.put,
    Namespace: _put_namespace,
    DaemonSet: pods.daemon_set_seen,
    PriorityClass: _put_priority_class,
    PodDisruptionBudget: _put_budget,
    BetaPodDisruptionBudget: _put_budget,
    PersistentVolume: _put_volume,
    PersistentVolumeClaim: _put_claim,
    StorageClass: _put_class,
    CSINode: _lifts(ATTACHED, lambda model, thing: model.cache.storage.put_csi_node(thing)),
    CSIDriver: _lifts(STORAGE, lambda model, thing: model.cache.storage.put_csi_driver(thing)),
    CSIStorageCapacity: _lifts(STORAGE, lambda model, thing: model.cache.storage.put_capacity(thing)),
    VolumeAttachment: lambda model, thing: model.cache.storage.put_attachment(thing),
    CoschedulingPodGroup: _put_group,
    PodGroup: _put_group,
    Workload: _put_group,
}

_GONE: dict[type, _Handler] = {
    Pod: pods.gone,
    Node: nodes.gone,
    Namespace: _gone_namespace,
    DaemonSet: daemon_sets.gone,
    PriorityClass: _gone_priority_class,
    PodDisruptionBudget: _gone_budget,
    BetaPodDisruptionBudget: _gone_budget,
    PersistentVolume: _gone_volume,
    PersistentVolumeClaim: _gone_claim,
    StorageClass: lambda model, thing: model.cache.storage.remove_class(thing.metadata.name),
    CSINode: _lifts(ATTACHED, lambda model, thing: model.cache.storage.remove_csi_node(thing.metadata.name)),
    CSIDriver: _lifts(STORAGE, lambda model, thing: model.cache.storage.remove_csi_driver(thing.metadata.name)),
    CSIStorageCapacity: lambda model, thing: model.cache.storage.remove_capacity(*_key(thing.metadata)),
    VolumeAttachment: _lifts(ATTACHED, lambda model, thing: model.cache.storage.remove_attachment(thing.metadata.name)),
    CoschedulingPodGroup: _gone_group,
    PodGroup: _gone_group,
    Workload: _gone_group,
}
