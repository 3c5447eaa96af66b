"""The report to a daemon that knows nothing: applications, nodes with the pods on them, asks by age."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import applications, nodes
from schedulerd.kubernetes.cluster.asking import consider, keep_age
from schedulerd.kubernetes.cluster.effects import AddApplication, Ask, CreateNode, Effect, Recovery
from schedulerd.kubernetes.cluster.events import Started
from schedulerd.kubernetes.cluster.gangs import life
from schedulerd.kubernetes.cluster.model import Model, OwnPod
from schedulerd.kubernetes.cluster.times import epoch_seconds


def started(model: Model, event: Started) -> None:
    """All objects are known: what follows from them is put into one report."""
    assert not model.is_started
    assert not model.effects
    model.epoch_ns = event.epoch_ns
    pods = sorted(model.pods.values(), key=_age)
    real = [own for own in pods if not own.is_placeholder]
    for own in real:
        if own.node and own.node in model.nodes.known:
            applications.join(model, own)
    for own in real:
        if not own.node:
            keep_age(own)
            consider(model, own)
    life.review(model)
    life.remove_unwanted(model)
    nodes.report_changes(model)
    model.is_started = True
    effects, model.effects = model.effects, []
    model.effects.append(_report(effects))


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
