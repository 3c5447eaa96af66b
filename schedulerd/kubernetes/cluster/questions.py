"""Answers to what the daemon asks on the callback stream. They change nothing but what is remembered of refusals and of
victims."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.predicates.plugins import ALL, DELEGATED, RESERVE
from schedulerd.kubernetes.predicates.words import reasons

UNKNOWN_POD = "the pod is not known"


def prepare(model: Model, key: str) -> bool:
    """One step of what has to be done before a question about the pod can be answered; False if nothing is left of
    that. It changes no answer."""
    own = model.pods.get(key) or model.virtual.get(key)
    return own is not None and model.view.prepare(own.pod)


def predicates(model: Model, key: str, node: str, *, allocate: bool) -> str | None:
    """Why the pod may not run on the node; None if it may."""
    own = model.pods.get(key) or model.virtual.get(key)
    if own is None:
        return UNKNOWN_POD
    plugins = RESERVE if not allocate else ALL if own.needs_callback else DELEGATED
    gone = _giving_way(own, node) if allocate else []
    refusals = model.view.judge(own.pod, node, plugins, gone, first_only=True)
    if not refusals:
        return None
    model.view.note_refused(key, own.pod, node, refusals, ignores_pods=bool(gone))
    return ", ".join(reasons(refusals))


def _giving_way(own: OwnPod, node: str) -> list[str]:
    """The placeholders on the node that may go for the pod, if it is a member of a gang: they are still there when the
    daemon asks."""
    if own.is_placeholder or own.application is None or own.application.gang is None:
        return []
    return [one.uid for one in own.application.pods.values() if one.is_placeholder and one.node == node]


def preemption_predicates(model: Model, key: str, node: str, victims: Sequence[str], start: int) -> int | None:
    """Index of the last victim that has to go, so that the pod may run on the node; None if that is not enough."""
    own = model.pods.get(key) or model.virtual.get(key)
    if own is None:
        return None
    index = model.view.sufficient_victims(own.pod, node, victims, max(0, start))
    if index is None:
        return None
    if model.settings.respects_budgets:
        chosen = victims[: index + 1]
        if model.view.exceeded_budgets(chosen, model.now_ns):
            model.view.note_budgets_exceeded(key, node)
            return None
        model.view.expect_disruptions(chosen, model.now_ns)
    return index
