"""Binds a pod to a node.

The API server answers 409 to a bind of a pod that has a node, also if it is the same one: by a try whose answer was
lost, or by an earlier leader. So a 409 never says what is the case; the pod does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from schedulerd.kubernetes.api.errors import Refused
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.writes.base import Caller, Outcome, Result, Retry, Urgency, Write


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_POD = msgspec.json.Decoder(_Pod)


class Bind(Write):
    """DONE, CONFLICT (with the node on which the pod is), GONE (also if it is being deleted), REFUSED.

    The server adds the annotations to those of the pod in the write that gives it its node.

    Servers before 1.2x do not compare the UID: they bind whatever pod has the name now.
    """

    kind = "bind"
    urgency = Urgency.BIND
    seconds_max = 60.0

    def __init__(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        self.namespace, self.name, self.uid, self.node = namespace, name, uid, node
        metadata: dict[str, object] = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        self._body = msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
        )

    async def attempt(self, caller: Caller) -> Outcome | Retry:
        if self.in_doubt and (outcome := await self._look_up(caller)) is not None:
            return outcome
        path = PODS.path(self.namespace, self.name, "binding")
        try:
            answer = await caller.send("POST", PODS, path, self._body)
        except Refused as error:
            if error.status.code == 404:
                return Outcome(Result.GONE, error.status.message, 404)
            if error.status.code != 409:
                raise
            found = await self._look_up(caller, error.status.message)
            return found or Retry("conflict", error.status.message, None, 409)
        return Outcome(Result.DONE, code=answer.status, node=self.node)

    async def _look_up(self, caller: Caller, message: str = "") -> Outcome | None:
        """What the pod says; None if it has no node and could get one."""
        try:
            answer = await caller.get(PODS, PODS.path(self.namespace, self.name))
        except Refused as error:
            if error.status.code != 404:
                raise
            return Outcome(Result.GONE, error.status.message, 404)
        pod = _POD.decode(answer.body)
        node, was_in_doubt = pod.spec.node_name, self.in_doubt
        self.in_doubt = False
        if pod.metadata.uid != self.uid:
            return Outcome(Result.GONE, message or f"pod {self.name} has been replaced by another of its name")
        if was_in_doubt:
            caller.found_out(self, "performed" if node == self.node else "not_performed")
        if node == self.node:
            return Outcome(Result.DONE, message, node=node)
        if node:
            return Outcome(Result.CONFLICT, message, object=answer.body, node=node)
        if pod.metadata.deletion_timestamp is not None:
            return Outcome(Result.GONE, message or f"pod {self.name} is being deleted")
        return None
