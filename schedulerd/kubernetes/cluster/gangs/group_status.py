"""The condition `PodGroupScheduled` of PodGroups of Kubernetes (`scheduling.k8s.io`): False while pods of it find no
node, True once as many as it needs run, and never False again."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.effects import ObjectName, PatchGroupCondition
from schedulerd.kubernetes.cluster.gangs.declaration import known_group
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource, KnownGroup
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.reasons.sentences import UNSCHEDULABLE

EVERY_NS = 60 * SECOND_NS
"""Between two conditions of one PodGroup whose texts differ."""


def waits(model: Model, own: OwnPod, reason: str, message: str) -> None:
    """A pod of a PodGroup says why it has no node."""
    gang = own.gang
    known = _known(model, gang)
    if gang is None or known is None or known.is_scheduled or reason != UNSCHEDULABLE:
        return
    if gang.group_told_ns is not None and model.now_ns < gang.group_told_ns + EVERY_NS:
        return
    if gang.group_told_ns is None:
        gang.group_waits_since_ns = model.epoch_ns + model.now_ns
    gang.group_told_ns = model.now_ns
    _tell(model, gang, known, UNSCHEDULABLE, message, gang.group_waits_since_ns, is_true=False)


def running(model: Model, application: Application) -> None:
    """A pod of the application has a node."""
    gang = application.gang
    known = _known(model, gang)
    if gang is None or known is None or known.is_scheduled or gang.group_is_told:
        return
    if len(application.running) >= known.min_member:
        gang.group_is_told = True
        message = f"{len(application.running)} pods run, of which it needs {known.min_member}"
        _tell(model, gang, known, "Scheduled", message, model.epoch_ns + model.now_ns, is_true=True)


def _known(model: Model, gang: Gang | None) -> KnownGroup | None:
    if gang is None or gang.key is None or gang.key.source is not GangSource.KUBERNETES or not model.is_started:
        return None
    known = known_group(model, gang.key)
    return known if known is not None and known.uid else None


def _tell(
    model: Model, gang: Gang, known: KnownGroup, reason: str, message: str, since_ns: int, *, is_true: bool
) -> None:
    assert gang.key is not None
    group = ObjectName("PodGroup", gang.key.name, known.uid, gang.key.namespace)
    model.effects.append(PatchGroupCondition(group, is_true, reason, message, known.generation, since_ns))
