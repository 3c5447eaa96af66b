"""What is known of one pod, for somebody who has asked the daemon, which has no ask of it."""

from __future__ import annotations

from collections.abc import Generator

from schedulerd.kubernetes.cluster.ended_pods import EndedPod
from schedulerd.kubernetes.cluster.model import Application, ApplicationState, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.reasons.sentences import REJECTED, rejected
from schedulerd.sentences.applications import rejected_pod

PODS_A_TURN = 2_000
"""Maximum number of pods that are compared in one turn of the loop: a fraction of a millisecond."""


def about_pod(model: Model, namespace: str, name: str) -> Generator[None, None, str]:
    """What is known of the pod, as sentences; '' if nothing is. Stops after every `PODS_A_TURN` pods."""
    for number, own in enumerate(list(model.pods.values()), 1):
        if number % PODS_A_TURN == 0:
            yield
        metadata = own.pod.metadata
        if metadata.name == name and metadata.namespace == namespace:
            return _of_living(model, own)
    ended = model.ended_pods.get(namespace, name)
    return _of_ended(ended) if ended is not None else ""


def _of_living(model: Model, own: OwnPod) -> str:
    application = own.application
    if application is None:
        return _state_of(own)
    said = _rejected(model, own, application) if _is_rejected(own, application) else _state_of(own)
    return f"{said} Its application is {application.id.name}."


def _is_rejected(own: OwnPod, application: Application) -> bool:
    waiting = own.reason.current
    return application.state is ApplicationState.WAITING and waiting is not None and waiting.event_reason == REJECTED


def _rejected(model: Model, own: OwnPod, application: Application) -> str:
    name = f"{own.pod.metadata.namespace}/{own.pod.metadata.name}"
    assert application.problem is not None
    reason, advice = rejected(application.problem.text, own.metadata.queue)
    left_ns = application.again_ns - model.now_ns
    return rejected_pod(name, model.epoch_ns + application.problem_ns, reason, advice, left_ns)


def _state_of(own: OwnPod) -> str:
    """What `kubectl describe` says of it too, where that says anything."""
    gates = own.pod.spec.scheduling_gates
    if gates:
        return f"Waits until its scheduling gates are removed: {', '.join(one.name for one in gates)}."
    match own.state:
        case PodState.ASSUMED | PodState.BOUND | PodState.UNREPORTED | PodState.SET_ASIDE:
            return f"Has its node: {own.node or own.pod.spec.node_name}."
        case PodState.LEAVING if own.failure is not None:
            return f"Fails before it runs: {own.failure.message.rstrip('.')}."
        case PodState.LEAVING:
            return "Is being deleted."
    waiting = own.reason.current
    why = own.reason.condition[1] or (waiting.text if waiting is not None else "")
    return f"Waits: {why.rstrip('.')}." if why else "Waits to be asked for."


def _of_ended(ended: EndedPod) -> str:
    where = f" on node {ended.node}" if ended.node else " before it had a node"
    how = f"Has ended{where}: {ended.phase}." if ended.phase else f"Was deleted{where}."
    return f"{how} Its application was {ended.application_id}." if ended.application_id else how
