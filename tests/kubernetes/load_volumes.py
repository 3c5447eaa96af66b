"""Claims that wait for their first consumer, on a fake API server: who makes them, the controller and the provisioner.

They change the stored objects directly, past all faults. Half of the claims get a volume that exists, on a node that is
drawn; for the others one is made, or the provisioner gives up.
"""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.resources import Resource
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.failures import Failure
from tests.kubernetes.fake.store import Object
from tests.kubernetes.volume_controller import BIND_COMPLETED, HOST, MERGE, SELECTED_NODE, volume_body

LOCAL, MADE = "local", "made"
PROVISIONERS = {LOCAL: "kubernetes.io/no-provisioner", MADE: "disks.example.com"}
GIVES_UP = 0.2


class LoadVolumes:
    def __init__(self, fake: FakeCluster, random: Random, namespace: str, nodes: list[str]) -> None:
        self.given_up = 0
        self._fake = fake
        self._random = random
        self._namespace = namespace
        self._nodes = nodes
        for name, provisioner in PROVISIONERS.items():
            fake.create(r.STORAGE_CLASSES, name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")

    def claim(self, name: str) -> Object:
        """Makes a claim; the fields of the spec of a pod that uses it."""
        of_class = self._random.choice((LOCAL, MADE))
        spec = {"storageClassName": of_class, "resources": {"requests": {"storage": "5Gi"}}}
        self._fake.create(r.PERSISTENT_VOLUME_CLAIMS, name, self._namespace, spec=spec)
        if of_class == LOCAL:
            self._create(volume_body(f"for-{name}", LOCAL, self._random.choice(self._nodes)), "Available")
        return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}

    def act(self) -> None:
        """What is to be done about each claim."""
        volumes = self._all(r.PERSISTENT_VOLUMES)
        promised = {one["spec"].get("claimRef", {}).get("uid"): one for one in volumes}
        for claim in self._all(r.PERSISTENT_VOLUME_CLAIMS):
            metadata = claim["metadata"]
            annotations = metadata.get("annotations") or {}
            if claim["spec"].get("volumeName"):
                continue
            if metadata["uid"] in promised:
                self._bind(claim, promised[metadata["uid"]])
            elif SELECTED_NODE not in annotations or self._random.random() < 0.3:
                continue
            elif self._random.random() < GIVES_UP:
                self.given_up += 1
                self._patch(r.PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            else:
                body = volume_body(f"pvc-{metadata['uid']}", MADE, annotations[SELECTED_NODE])
                body["spec"]["claimRef"] = {key: metadata[key] for key in ("namespace", "name", "uid")}
                self._create(body, "Bound")

    def problems(self) -> list[str]:
        """What does not hold of the pods that a client has bound."""
        bound = {path for method, path in self._fake.server.performed if method == "POST" and path.endswith("/binding")}
        claims = {one["metadata"]["name"]: one for one in self._all(r.PERSISTENT_VOLUME_CLAIMS)}
        volumes = {one["metadata"]["name"]: one for one in self._all(r.PERSISTENT_VOLUMES)}
        found = []
        for pod in self._all(r.PODS):
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if r.PODS.path(self._namespace, name, "binding") not in bound:
                continue
            for one in pod["spec"].get("volumes") or ():
                claim = claims[one["persistentVolumeClaim"]["claimName"]]
                volume = volumes.get(claim["spec"].get("volumeName", ""))
                if volume is None:
                    found.append(f"{name} runs without a volume")
                elif (at := _node_of(volume)) != node:
                    found.append(f"{name} runs on {node}, its volume is on {at}")
        return found

    def _all(self, resource: Resource) -> list[Object]:
        return list(self._fake.store.of(self._fake.kind(resource)).values())

    def _bind(self, claim: Object, volume: Object) -> None:
        self._patch(r.PERSISTENT_VOLUMES, volume, {"status": {"phase": "Bound"}}, "status")
        name = volume["metadata"]["name"]
        bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
        self._patch(r.PERSISTENT_VOLUME_CLAIMS, claim, bound)

    def _create(self, body: Object, phase: str) -> None:
        made = self._fake.create(r.PERSISTENT_VOLUMES, body["metadata"]["name"], spec=body["spec"])
        self._patch(r.PERSISTENT_VOLUMES, made, {"status": {"phase": phase}}, "status")

    def _patch(self, resource: Resource, thing: Object, patch: dict[str, Any], subresource: str = "") -> None:
        metadata = thing["metadata"]
        kind = self._fake.kind(resource)
        with contextlib.suppress(Failure):
            self._fake.operations.patch(
                kind, metadata.get("namespace", ""), metadata["name"], patch, subresource, MERGE
            )


def _node_of(volume: Object) -> str:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert expression["key"] == HOST
    return str(expression["values"][0])
