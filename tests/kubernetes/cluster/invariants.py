"""What must hold of the shim's pods after every step, whatever has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import IMPLIES, PodState


def violations(model: Model) -> list[str]:
    """Each pod has what its state implies, and that is true."""
    return [problem for own in model.pods.values() for problem in problems_of(model, own)]


def problems_of(model: Model, own: OwnPod) -> Iterator[str]:
    implied = IMPLIES[own.state]
    has = (own.ask is not None, bool(own.node), bool(own.uuid), own.application is not None)
    for what, expected, found in zip(implied._fields, implied, has, strict=True):
        if expected is not None and expected != found:
            yield f"pod {own.uid} is {own.state} and has {'an' if found else 'no'} {what}"
    application = own.application
    if application is not None and application.pods.get(own.uid) is not own:
        yield f"pod {own.uid} is none of its application {application.id.name}"
    if not _HOLDS[own.state](model, own):
        yield f"pod {own.uid} is {own.state}, which does not hold"


def _is_asked_for(model: Model, own: OwnPod) -> bool:
    """The last ask is what the daemon was told; the pod has no node in the view, unless one was promised to it or room
    is held for it."""
    is_told = own.ask is not None and own.ask.key == own.uid and own.asks_sent > 0
    return is_told and (own.uid in model.promised or bool(own.hold_id) or not model.cache.has_node(own.uid))


def _is_assumed(model: Model, own: OwnPod) -> bool:
    """It counts on its node before the API server says so."""
    return model.cache.has_node(own.uid) and own.uid not in model.promised and not own.hold_id


def _is_on_node(model: Model, own: OwnPod) -> bool:
    there = model.cache.state.nodes.get(own.node)
    return there is None or own.uid in there.pods


def _is_without_node(model: Model, own: OwnPod) -> bool:
    return not model.cache.has_node(own.uid) and own.uid not in model.promised and not own.hold_id


_HOLDS: Mapping[PodState, Callable[[Model, OwnPod], bool]] = {
    PodState.NEW: _is_without_node,
    PodState.HELD: _is_without_node,
    PodState.ASKED: _is_asked_for,
    PodState.ASSUMED: _is_assumed,
    PodState.BOUND: _is_on_node,
    PodState.UNREPORTED: _is_on_node,
    PodState.SET_ASIDE: _is_on_node,
    PodState.LEAVING: _is_without_node,
}
"""One check for each state: whether it is true of a pod."""
