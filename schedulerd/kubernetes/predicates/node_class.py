"""Classes of pods: pods of one class can use the same nodes, as far as nodes' labels, taints and names decide.

A class is decided once per node, and sent to the daemon as an attribute of the nodes it admits, so that its pods need
no callback. What a plain node selector can say is left out of it, which keeps classes few. The class covers the plugins
NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, VolumeZone and, for bound volumes, VolumeBinding.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from schedulerd.kubernetes.predicates.node_requirement import ANY_NODE, NodeRequirement
from schedulerd.kubernetes.predicates.node_state import NodeFacts
from schedulerd.kubernetes.predicates.pod_info import PendingPod
from schedulerd.kubernetes.predicates.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    MalformedSelector,
    Requirement,
    label_key,
    label_value,
)
from schedulerd.kubernetes.predicates.storage import Storage, is_bound, is_reachable, is_usable, says_where
from schedulerd.kubernetes.predicates.tolerations import UNSCHEDULABLE_TAINT, Tolerated, first_untolerated, is_tolerated
from schedulerd.kubernetes.predicates.volume_index import Zone

PREFER_NO_SCHEDULE = "PreferNoSchedule"
ATTRIBUTE_PREFIX = "c/"
_REFUSAL_PREFIX = "c!/"
_WHY_LENGTH_MAX = 160
"""Characters: a node has one such text for each class at most, and attributes are bounded."""
HOST_NAME_ATTRIBUTE = "si/hostname"
_RESERVED_LABELS = frozenset({"ready", "hostname"})
_RESERVED_PREFIXES = ("si/", ATTRIBUTE_PREFIX)

_SELECTOR_LENGTH_MAX = 16_384
"""Characters of the tag `schedulerd.io/node-selector`."""

_EXPRESSIONS_MAX = 100
"""Requirements of the tag."""


class VolumePlace(NamedTuple):
    """The nodes that a bound volume can be used on. Volumes of one zone have equal places."""

    requirement: NodeRequirement
    zones: tuple[Zone, ...]


class NodeClass(NamedTuple):
    """Canonical: pods that can use the same nodes for the same reasons have equal classes."""

    requirement: NodeRequirement = ANY_NODE
    tolerations: tuple[Tolerated, ...] = ()
    volumes: tuple[VolumePlace, ...] = ()
    node_name: str = ""

    def admits(self, facts: NodeFacts) -> bool:
        """Pods of the class may run on the node, as far as the class decides."""
        if facts.unschedulable and not is_tolerated(UNSCHEDULABLE_TAINT, self.tolerations):
            return False
        if self.node_name and self.node_name != facts.name:
            return False
        if first_untolerated(facts.taints, self.tolerations) is not None:
            return False
        return self.requirement.matches(facts.name, facts.labels) and all(_admits(one, facts) for one in self.volumes)

    def why_not(self, facts: NodeFacts) -> str:
        """Why the node does not admit the class, for people: the taint or the term by its name."""
        taint = first_untolerated(facts.taints, self.tolerations)
        if facts.unschedulable and not is_tolerated(UNSCHEDULABLE_TAINT, self.tolerations):
            said = "unschedulable"
        elif self.node_name and self.node_name != facts.name:
            said = f"not node {self.node_name}"
        elif taint is not None:
            value = f"={taint.value}" if taint.value else ""
            said = f"taint {taint.key}{value}:{taint.effect}, which the pod does not tolerate"
        elif (unmet := self.requirement.unmet(facts.name, facts.labels)) is not None:
            said = unmet
        else:
            said = "where a volume cannot be used"
        return said if len(said) <= _WHY_LENGTH_MAX else f"{said[: _WHY_LENGTH_MAX - 3]}..."

    @property
    def attribute(self) -> str:
        """Name of the node attribute that stands for the class: the same in every process."""
        return ATTRIBUTE_PREFIX + hashlib.sha256(repr(self).encode()).hexdigest()[:16]


class PlainAndRest(NamedTuple):
    """A class in two parts, both of which a node has to meet."""

    selector: str
    """What a node selector over labels and `si/hostname` can say; empty for nothing."""
    rest: NodeClass
    """What it cannot say: at least the tolerations, as nodes refuse by taints."""


def refusal_attribute(attribute: str) -> str:
    """Name of the attribute of a node that does not admit the class, whose value says why."""
    return _REFUSAL_PREFIX + attribute.removeprefix(ATTRIBUTE_PREFIX)


def class_of(pod: PendingPod, storage: Storage) -> NodeClass:
    """The class of the pod. Claims that are not bound, or whose volume is not known, are left to the callback."""
    places: tuple[VolumePlace, ...] = ()
    if pod.info.claims:
        found = {_place(pod.info.namespace, use.name, storage) for use in pod.info.claims}
        places = tuple(sorted((place for place in found if place is not None), key=repr))
    return NodeClass(
        requirement=pod.requirement,
        tolerations=tuple([one for one in pod.tolerations if one.effect != PREFER_NO_SCHEDULE]),
        volumes=places,
        node_name=pod.node_name,
    )


def split(node_class: NodeClass) -> PlainAndRest:
    """The largest part of the class that a plain node selector can say, and the rest."""
    requirement = node_class.requirement
    pairs = [Requirement(key, IN, (value,)) for key, value in requirement.pairs]
    plain = [one for one in pairs if _is_plain(one)]
    pairs_left = tuple(pair for pair, one in zip(requirement.pairs, pairs, strict=True) if not _is_plain(one))
    terms = requirement.terms
    if terms is not None and len(terms) == 1 and not terms[0].fields and all(map(_is_plain, terms[0].labels)):
        plain += terms[0].labels
        terms = None
    said = [_said(one) for one in plain]
    name = Requirement(HOST_NAME_ATTRIBUTE, IN, (node_class.node_name,))
    is_name_plain = bool(node_class.node_name) and _can_be_said(name)
    if is_name_plain:
        said.append(_said(name))
    selector = ",".join(dict.fromkeys(said))
    if len(said) > _EXPRESSIONS_MAX or len(selector) > _SELECTOR_LENGTH_MAX:
        return PlainAndRest("", node_class)
    left = NodeRequirement(pairs_left, terms)
    node_name = "" if is_name_plain else node_class.node_name
    return PlainAndRest(selector, node_class._replace(requirement=left, node_name=node_name))


def _admits(place: VolumePlace, facts: NodeFacts) -> bool:
    if not is_usable(place.requirement, facts.labels):
        return False
    return not says_where(facts.labels) or all(is_reachable(zone, facts.labels) for zone in place.zones)


def _place(namespace: str, name: str, storage: Storage) -> VolumePlace | None:
    """Where the claim's volume can be used; None if that is everywhere, or not known yet."""
    claim = storage.claims.get((namespace, name))
    volume = storage.volumes.get(claim.spec.volume_name) if claim is not None and is_bound(claim) else None
    if volume is None:
        return None
    place = VolumePlace(volume.requirement, volume.zones)
    return place if place != VolumePlace(ANY_NODE, ()) else None


def is_attribute(label: str) -> bool:
    """Whether nodes have the label as an attribute. Some names mean something else to the daemon, or stand for
    classes: pods that select nodes by such a label have a class for it."""
    return label not in _RESERVED_LABELS and not label.startswith(_RESERVED_PREFIXES)


def _is_plain(one: Requirement) -> bool:
    """A node selector of the daemon can say it: no empty values, no comparisons, names as Kubernetes has them, and
    labels that nodes have as attributes."""
    return is_attribute(one.key) and _can_be_said(one)


def _can_be_said(one: Requirement) -> bool:
    try:
        label_key(one.key)
        has_all = all(label_value(value) for value in one.values)
    except MalformedSelector:
        return False
    return has_all and one.operator in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)


def _said(one: Requirement) -> str:
    match one.operator:
        case "In" if len(one.values) == 1:
            return f"{one.key}={one.values[0]}"
        case "In":
            return f"{one.key} in ({','.join(one.values)})"
        case "NotIn":
            return f"{one.key} notin ({','.join(one.values)})"
        case "Exists":
            return one.key
        case _:
            return f"!{one.key}"
