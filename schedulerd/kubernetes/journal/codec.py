"""Events, questions and effects as JSON, and events back from it.

Objects have the fields that the shim decodes, and no others: environment variables of containers are not among them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import Effect
from schedulerd.kubernetes.cluster.events import Event, Gone, KubernetesObject, Put
from schedulerd.kubernetes.objects.cluster import BetaPodDisruptionBudget

_EVENTS: dict[str, Any] = {one.__name__: one for one in get_args(Event)}
_OBJECTS: dict[str, Any] = {one.__name__: one for one in (*get_args(KubernetesObject), BetaPodDisruptionBudget)}
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation has a whole object, with all that is left out of it here."""
_JSON = msgspec.json.Encoder(order="deterministic")


class Step(NamedTuple):
    """`effects` is None if the step raised."""

    now_ns: int
    events: list[Event]
    effects: list[Effect] | None = None


class Question(NamedTuple):
    """Of the daemon, whether a pod may run on a node. Questions change what is remembered of refusals."""

    key: str
    node: str
    allocate: bool
    answer: str | None = None


class PreemptionQuestion(NamedTuple):
    """Of the daemon, which victims have to go."""

    key: str
    node: str
    victims: list[str]
    start: int
    answer: int | None = None


Entry: TypeAlias = Step | Question | PreemptionQuestion


def to_text(entry: Entry) -> bytes:
    """A line, without what came of it."""
    if isinstance(entry, Step):
        # One by one: the encoder holds the interpreter's lock, and with it the event loop.
        events = b",".join([_JSON.encode(_event_values(event)) for event in entry.events])
        return b'{"now":%d,"events":[%b]}' % (entry.now_ns, events)
    return _JSON.encode({"question" if isinstance(entry, Question) else "preemption": entry[:-1]})


def result_text(entry: Entry) -> bytes:
    """What came of it."""
    if isinstance(entry, Step):
        return _JSON.encode([(type(effect).__name__, effect) for effect in entry.effects or ()])
    return _JSON.encode(entry.answer)


def from_values(values: dict[str, Any]) -> Entry:
    """Raises `ValueError`, `KeyError` or `TypeError` if it is no entry."""
    if "question" in values:
        return Question(*msgspec.convert(values["question"], tuple[str, str, bool]))
    if "preemption" in values:
        return PreemptionQuestion(*msgspec.convert(values["preemption"], tuple[str, str, list[str], int]))
    return Step(msgspec.convert(values["now"], int), [_event(*one) for one in values["events"]])


def played(entry: Entry, cluster: Cluster) -> Entry:
    """The entry with what comes of it now."""
    match entry:
        case Step():
            return entry._replace(effects=cluster.step(entry.now_ns, entry.events))
        case Question():
            return entry._replace(answer=cluster.predicates(entry.key, entry.node, allocate=entry.allocate))
        case PreemptionQuestion():
            return entry._replace(answer=cluster.preemption_predicates(*entry[:-1]))


def _event_values(event: Event) -> tuple[Any, ...]:
    name = type(event).__name__
    if isinstance(event, Put | Gone):
        return (name, type(event.object).__name__, _without_applied(event.object))
    return (name, event)


def _without_applied(thing: Any) -> Any:
    annotations = thing.metadata.annotations
    if not annotations or _APPLIED not in annotations:
        return thing
    kept = {key: value for key, value in annotations.items() if key != _APPLIED}
    return replace(thing, metadata=replace(thing.metadata, annotations=kept))


def _event(name: str, *values: Any) -> Event:
    if name in (Put.__name__, Gone.__name__):
        kind, fields = values
        event: Event = _EVENTS[name](msgspec.convert(fields, _OBJECTS[kind]))
        return event
    (fields,) = values
    converted: Event = msgspec.convert(fields, _EVENTS[name])
    return converted
