"""Which pods are those of a DaemonSet: such a pod is for one node, and others are preempted for it there.

A pod is one if its controller reference names a DaemonSet that exists in its namespace with that uid. The reference
alone proves nothing: every account that may create pods can write any reference.
"""

from __future__ import annotations

from schedulerd.kubernetes.metadata.pods import daemon_set_named, only_node
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Pod


class DaemonSets:
    """The DaemonSets that are known. `trusted` are the namespaces whose pods are believed while DaemonSets cannot be
    watched, and whose pods may preempt others of their own priority."""

    def __init__(self, trusted: frozenset[str]) -> None:
        self.trusted = trusted
        self.is_watched = True
        """False: the API server does not let this process watch them."""
        self._known: set[tuple[str, str]] = set()

    def put(self, metadata: ObjectMeta) -> None:
        self._known.add((metadata.namespace, metadata.uid))

    def remove(self, metadata: ObjectMeta) -> None:
        self._known.discard((metadata.namespace, metadata.uid))

    def required_node(self, pod: Pod) -> str:
        """The only node of the pod of a DaemonSet; empty for all others."""
        if not pod.metadata.owner_references or not (uid := daemon_set_named(pod)):
            return ""
        return only_node(pod) if self._is_believed(pod.metadata.namespace, uid) else ""

    def unseen(self, pod: Pod) -> str:
        """Uid of the DaemonSet that the pod names, and without which it is an ordinary pod; empty if there is none."""
        if not pod.metadata.owner_references or not (uid := daemon_set_named(pod)) or not only_node(pod):
            return ""
        return "" if self._is_believed(pod.metadata.namespace, uid) else uid

    def _is_believed(self, namespace: str, uid: str) -> bool:
        return (namespace, uid) in self._known if self.is_watched else namespace in self.trusted
