"""What kubelets do with pods, on order of the test: run them, end them, and take those away that are being deleted."""

from __future__ import annotations

import copy

from tests.kubernetes.fake.operations import PODS, Operations
from tests.kubernetes.fake.store import Object


class Kubelet:
    """Of all nodes."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def run(self, namespace: str, name: str) -> Object:
        return self.set_phase(namespace, name, "Running")

    def succeed(self, namespace: str, name: str) -> Object:
        return self.set_phase(namespace, name, "Succeeded")

    def fail(self, namespace: str, name: str, reason: str = "Error") -> Object:
        return self.set_phase(namespace, name, "Failed", reason)

    def set_phase(self, namespace: str, name: str, phase: str, reason: str = "") -> Object:
        pod = copy.deepcopy(self._operations.get(PODS, namespace, name))
        pod["status"]["phase"] = phase
        if reason:
            pod["status"]["reason"] = reason
        return self._operations.store.put(PODS, pod)

    def finish(self, namespace: str, name: str) -> Object:
        """A pod that is being deleted has ended: the object goes."""
        pod = self._operations.get(PODS, namespace, name)
        assert "deletionTimestamp" in pod["metadata"], f"{namespace}/{name} is not being deleted"
        return self._operations.delete(PODS, namespace, name, {"gracePeriodSeconds": 0})

    def finish_all(self) -> list[str]:
        """All pods that are being deleted have ended; their names."""
        ending = [key for key, pod in self._operations.store.of(PODS).items() if "deletionTimestamp" in pod["metadata"]]
        for namespace, name in ending:
            self.finish(namespace, name)
        return [name for _, name in ending]
