"""A member that no node of a placeholder of its task group takes may go elsewhere, and a placeholder goes for it.

That must not strand another member: then the gang would run in part. So the member waits, unless the others of its task
group (the first 20 are tried) would find a place as well: in the room of the placeholders that are left, or on other
nodes.
"""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.predicates.plugins import ALL_IN_PLACE

STRANDS = "the gang of the pod holds room for it elsewhere, and another member would find none"
MEMBERS_MAX = 20
"""Maximum number of other members that are tried; each may be tried on all nodes."""


def strands_another(model: Model, own: OwnPod, node: str) -> bool:
    """Whether a member of its gang that waits would find no place if the pod goes to this node."""
    application = own.application
    if own.is_placeholder or not own.task_group or application is None or application.gang is None:
        return False
    if application.gang.is_past:
        return False
    of_group = [one for one in application.pods.values() if one.task_group == own.task_group and one is not own]
    idle = [one for one in of_group if one.is_placeholder and one.uuid and not one.is_release_wanted]
    if not idle:
        return False  # it replaces nothing
    waiting = [one for one in of_group if not one.is_placeholder and one.state in (PodState.ASKED, PodState.HELD)]
    assumed: list[OwnPod] = []
    with model.cache.refused.nothing_happens():
        _assume(model, own, node, assumed)
        is_stranded = not all(_finds_place(model, one, idle, assumed) for one in waiting[:MEMBERS_MAX])
        for one in assumed:
            model.cache.forget_assumed(one.uid)
    return is_stranded


def _finds_place(model: Model, own: OwnPod, idle: list[OwnPod], assumed: list[OwnPod]) -> bool:
    """One placeholder is left out: it goes for the pod that goes elsewhere."""
    if model.cache.has_node(own.uid):
        return True
    if len(idle) > 1:
        for one in idle:
            if not model.predicates.judge(own.judged, one.node, ALL_IN_PLACE, (one.uid,), first_only=True):
                idle.remove(one)
                return True
    for name in model.cache.node_names:
        if not model.predicates.judge(own.judged, name, first_only=True):
            _assume(model, own, name, assumed)
            return True
    return False


def _assume(model: Model, own: OwnPod, node: str, assumed: list[OwnPod]) -> None:
    if not model.cache.has_node(own.uid):
        model.cache.assume(own.judged, node, for_now=True)
        assumed.append(own)
