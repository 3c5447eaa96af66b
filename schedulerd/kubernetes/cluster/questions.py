"""Answers to what the daemon asks on the callback stream. They change nothing but what is remembered of refusals, of
promises and of victims.

A promise: the node that was just called suitable for a pod, until the daemon allocates the pod there or elsewhere. The
daemon asks about many pods at once. If two pods that exclude each other were asked about, the node would be called
suitable for both, and the daemon would allocate both. The shim would have to give one back; if that is a placeholder,
the daemon has by then counted it as room that its gang holds. So a pod counts on the node from the answer on. The room
of a member that replaces a placeholder counts anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from schedulerd.kubernetes.cluster.gangs import giving_way, held_rooms, leaving
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.predicates.plugins import ALL, ALL_IN_PLACE, DELEGATED, DELEGATED_IN_PLACE, RESERVE
from schedulerd.kubernetes.predicates.refused_pods import NODES, Change, What
from schedulerd.kubernetes.predicates.words import reasons

PROMISE_KEPT_NS = 5 * SECOND_NS
"""The daemon waits for an answer for so long, and an allocation comes right after it."""
UNKNOWN_POD = "the pod is not known"


def prepare(model: Model, key: str) -> bool:
    """One step of what has to be done before a question about the pod can be answered; False if nothing is left of
    that. It changes no answer."""
    own = _asked(model, key)
    return own is not None and model.predicates.prepare(own.judged)


def predicates(model: Model, key: str, node: str, *, allocate: bool) -> str | None:
    """Why the pod may not run on the node; None if it may."""
    own = _asked(model, key)
    if own is None:
        return UNKNOWN_POD
    if key in model.pods:
        _withdraw_promise(model, key)  # the daemon asks about one node at a time
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
            promise(model, own, node)
        return None
    if own.is_placeholder:
        giving_way.schedule_check(model)
    model.predicates.note_refused(key, own.judged, node, refusals, ignores_pods=bool(gone))
    return ", ".join(reasons(refusals))


def preemption_predicates(model: Model, key: str, node: str, victims: Sequence[str], start: int) -> int | None:
    """Index of the last victim that has to go, so that the pod may run on the node; None if that is not enough."""
    own = _asked(model, key)
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
    own = model.pods.get(key)
    return own.is_placeholder if own is not None else key.rpartition("#")[0] in model.patterns


def _asked(model: Model, key: str) -> OwnPod | None:
    """The pod, or the pattern of a task group for whose members room is to be held."""
    return model.pods.get(key) or model.patterns.get(key)


def promise(model: Model, own: OwnPod, node: str) -> None:
    """The daemon is told that the node suits the pod, which it has asked for; or any pod like this pattern."""
    uid, pod = own.uid, own.judged
    if uid in model.patterns:
        model.promises += 1
        uid = f"{uid}#{model.promises}"
        pod = replace(pod, metadata=replace(pod.metadata, uid=uid))
    elif own.state is not PodState.ASKED:
        return
    model.cache.assume(pod, node, for_now=True)
    model.promised[uid] = model.now_ns + PROMISE_KEPT_NS
    model.timers.set(model.now_ns + PROMISE_KEPT_NS, Due.PROMISE, uid)
    if uid != own.uid:
        model.promised_like.setdefault((own.uid, node), []).append(uid)


def take_promise(model: Model, pattern: str, node: str) -> str:
    """The uid of what counts on the node since it was called suitable for the pattern; empty if nothing does."""
    uids = model.promised_like.pop((pattern, node), [])
    while uids:
        uid = uids.pop(0)
        if model.promised.pop(uid, None) is not None:
            if uids:
                model.promised_like[pattern, node] = uids
            return uid
    return ""


def promise_expired(model: Model, uid: str) -> None:
    if model.promised.get(uid, model.now_ns + 1) <= model.now_ns:
        _withdraw_promise(model, uid)


def _withdraw_promise(model: Model, uid: str) -> None:
    """The pod is allocated elsewhere, or nowhere."""
    if model.promised.pop(uid, None) is None:
        return
    if uid in model.pods:
        model.cache.forget_assumed(uid)
    else:
        model.cache.remove_pod(uid)
