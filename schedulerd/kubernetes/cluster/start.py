"""The report to a daemon that knows nothing: applications, nodes with the pods on them, asks by age."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, joining, nodes
from schedulerd.kubernetes.cluster.asking import consider, keep_age
from schedulerd.kubernetes.cluster.effects import AddApplication, Ask, CreateNode, Effect, Recovery
from schedulerd.kubernetes.cluster.events import Started
from schedulerd.kubernetes.cluster.gangs import life
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.objects.meta import epoch_seconds


def started(model: Model, event: Started) -> None:
    """All objects are known: what follows from them is put into one report."""
    assert not model.is_started
    assert not model.effects
    model.epoch_ns = event.epoch_ns
    pods = sorted(model.pods.values(), key=_age)
    real = [own for own in pods if not own.is_placeholder]
    for own in reversed(real):
        model.oldest_at_start[own.metadata.application_id] = _age(own)[0]
    there = [own for own in real if own.node and own.node in model.nodes.known]
    waiting = [own for own in real if not own.node]
    later = _joining_later(model, there, waiting)
    for own in there:
        if own.uid not in later:
            applications.join(model, own)
    for own in waiting:
        keep_age(own)
        consider(model, own)
    for own in later.values():
        applications.join(model, own)
    life.review(model)
    life.remove_unwanted(model)
    nodes.report_changes(model)
    model.oldest_at_start.clear()
    model.is_started = True
    effects, model.effects = model.effects, []
    model.effects.append(_report(effects))


def _joining_later(model: Model, there: list[OwnPod], waiting: list[OwnPod]) -> dict[str, OwnPod]:
    """The pods with a node that would take the application of an older pod without one."""
    oldest: dict[tuple[ApplicationId, str], OwnPod] = {}
    for own in waiting:
        if not own.pod.spec.scheduling_gates:
            oldest.setdefault((own.metadata.application_id, own.pod.metadata.namespace), own)
    found = {}
    for own in there if oldest else ():
        older = oldest.get((own.metadata.application_id, own.pod.metadata.namespace))
        if older is not None and joining.joins_after(model, own, older):
            found[own.uid] = own
    return found


def _age(own: OwnPod) -> tuple[int, bool, str, str]:
    """Times are whole seconds: of pods that were created in the same one, those that declare a gang come first."""
    metadata = own.pod.metadata
    return epoch_seconds(metadata.creation_timestamp), not own.declares_gang, metadata.namespace, metadata.name


def _report(effects: list[Effect]) -> Recovery:
    return Recovery(
        tuple(effect for effect in effects if isinstance(effect, AddApplication)),
        tuple(effect for effect in effects if isinstance(effect, CreateNode)),
        tuple(effect for effect in effects if isinstance(effect, Ask)),
        tuple(effect for effect in effects if not isinstance(effect, AddApplication | CreateNode | Ask)),
    )
