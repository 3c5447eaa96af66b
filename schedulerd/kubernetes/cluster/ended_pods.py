"""The last pods that have ended, by name: an explanation of such a pod does not say that it is unknown."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from schedulerd.kubernetes.objects.pod import Pod, is_terminal

ENDED_MAX = 10_000
"""Pods that are remembered; a few megabytes."""


class EndedPod(NamedTuple):
    phase: str
    """`Succeeded` or `Failed`; '' of a pod that was deleted before."""
    node: str
    application_id: str


class EndedPods:
    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], EndedPod] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def remember(self, pod: Pod, node: str, application_id: str) -> None:
        """The newest pod of a name counts, and only `ENDED_MAX` are kept."""
        name = pod.metadata.namespace, pod.metadata.name
        self._known.pop(name, None)
        phase = pod.status.phase if is_terminal(pod) else ""
        self._known[name] = EndedPod(phase, node, application_id)
        if len(self._known) > ENDED_MAX:
            self._known.popitem(last=False)

    def get(self, namespace: str, name: str) -> EndedPod | None:
        return self._known.get((namespace, name))
