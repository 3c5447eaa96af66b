"""Answers to what the daemon asks on the callback stream. They change nothing but what is remembered of refusals, of
promises and of victims."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.kubernetes.cluster import promises
from schedulerd.kubernetes.cluster.gangs import giving_way, held_rooms, leaving
from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.predicates.plugins import ALL, ALL_IN_PLACE, DELEGATED, DELEGATED_IN_PLACE, RESERVE
from schedulerd.kubernetes.predicates.refused_pods import NODES, Change, What
from schedulerd.kubernetes.predicates.words import reasons

UNKNOWN_POD = "the pod is not known"


def prepare(model: Model, key: str) -> bool:
    """One step of what has to be done before a question about the pod can be answered; False if nothing is left of
    that. It changes no answer."""
    own = model.pods.get(key) or model.virtual.get(key)
    return own is not None and model.predicates.prepare(own.judged)


def predicates(model: Model, key: str, node: str, *, allocate: bool) -> str | None:
    """Why the pod may not run on the node; None if it may."""
    own = model.pods.get(key) or model.virtual.get(key)
    if own is None:
        return UNKNOWN_POD
    promises.withdraw(model, key)  # the daemon asks about one node at a time
    gone = held_rooms.idle_on(model, own, node) if allocate and own.gang is not None else []
    if not allocate:
        plugins = RESERVE
    elif gone:
        plugins = ALL_IN_PLACE if own.needs_callback else DELEGATED_IN_PLACE
    else:
        plugins = ALL if own.needs_callback else DELEGATED
    refusals = model.predicates.judge(own.judged, node, plugins, gone, first_only=True)
    if not refusals:
        if allocate and not gone:
            if own.gang is not None and leaving.strands_another(model, own, node):
                model.cache.refused.add(key, (NODES, Change(What.ROOM, node)))
                return leaving.STRANDS
            promises.make(model, own, node)
        return None
    if own.is_placeholder:
        giving_way.schedule_check(model)
    model.predicates.note_refused(key, own.judged, node, refusals, ignores_pods=bool(gone))
    return ", ".join(reasons(refusals))


def preemption_predicates(model: Model, key: str, node: str, victims: Sequence[str], start: int) -> int | None:
    """Index of the last victim that has to go, so that the pod may run on the node; None if that is not enough."""
    own = model.pods.get(key) or model.virtual.get(key)
    if own is None:
        return None
    index = model.predicates.sufficient_victims(own.judged, node, victims, max(0, start))
    if index is None:
        return None
    if model.settings.respects_budgets:
        chosen = [key for key in victims[: index + 1] if not _is_placeholder(model, key)]  # those disrupt nothing
        if model.predicates.exceeded_budgets(chosen, model.now_ns):
            model.predicates.note_budgets_exceeded(key, node)
            return None
        model.predicates.expect_disruptions(chosen, model.now_ns)
    return index


def _is_placeholder(model: Model, key: str) -> bool:
    own = model.pods.get(key) or model.virtual.get(key)
    return own is not None and own.is_placeholder
