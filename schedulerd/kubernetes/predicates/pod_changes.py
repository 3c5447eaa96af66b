"""Whether an event of a pod changes anything that predicates read: most do not."""

from __future__ import annotations

from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates.pod_info import PodInfo
from schedulerd.kubernetes.resources import resize_state


def occupies_alike(old: Pod, new: Pod) -> bool:
    """Nothing has changed for which other pods are held against a pod that is on a node."""
    before, after = old.spec, new.spec
    return (
        before.containers == after.containers
        and before.init_containers == after.init_containers
        and before.affinity == after.affinity
        and before.volumes == after.volumes
        and before.overhead == after.overhead
        and before.resources == after.resources
        and old.metadata.labels == new.metadata.labels
        and old.metadata.name == new.metadata.name
        and old.metadata.namespace == new.metadata.namespace
        and (old.metadata.deletion_timestamp is None) == (new.metadata.deletion_timestamp is None)
        and resize_state(old) == resize_state(new)
    )


def is_alike(old: Pod, new: Pod) -> bool:
    """Nothing that the predicates read has changed, as in most events of a pod."""
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and before.labels == after.labels
        and before.name == after.name
        and before.namespace == after.namespace
        and (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        and resize_state(old) == resize_state(new)
    )


def counts_alike(old: PodInfo, new: PodInfo) -> bool:
    """A pod on a node counts as before for all constraints, and holds the same but for what it requests."""
    return (
        old.labels == new.labels
        and old.namespace == new.namespace
        and old.is_terminating == new.is_terminating
        and old.anti_affinity == new.anti_affinity
        and holds_alike(old, new)
    )


def holds_alike(old: PodInfo, new: PodInfo) -> bool:
    """A pod has the ports, claims and disks that it had; the API server lets none of them change."""
    return old.ports == new.ports and old.claims == new.claims and old.disks == new.disks
