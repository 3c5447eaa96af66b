"""Which nodes a pod or volume can use by labels and name: `nodeSelector` and required node affinity, compiled.

Source: component-helpers `scheduling/corev1/nodeaffinity`; the rules are told in `node_affinity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schedulerd.kubernetes.objects.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from schedulerd.kubernetes.objects.pod import PodSpec
from schedulerd.kubernetes.predicates.selectors import IN, NOT_IN, MalformedSelector, Requirement, node_requirement

NAME_FIELD = "metadata.name"
_TERMS_SAID_MAX = 3


class NodeTerm(NamedTuple):
    """All requirements are to be met: on labels, and on fields, of which the name is the only one."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        for requirement in self.labels:
            if not requirement.holds(labels):
                return False
        return all(_field_holds(requirement, name) for requirement in self.fields)


class NodeRequirement(NamedTuple):
    """The pairs are to be equal, and, if there are terms (not None), one of them is to match."""

    pairs: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        for key, value in self.pairs:
            if labels.get(key) != value:
                return False
        if self.terms is None:
            return True
        return any(term.matches(name, labels) for term in self.terms)

    def unmet(self, name: str, labels: Mapping[str, str]) -> str | None:
        """What the node does not meet, for people; None if it matches."""
        if self.matches(name, labels):
            return None
        wanted = next((f"{key}={value}" for key, value in self.pairs if labels.get(key) != value), None)
        if wanted is not None:
            return f"node selector {wanted}"
        terms = self.terms or ()
        if not terms:
            return "node affinity that no node matches"
        unmet = (
            next((one for one in term.labels if not one.holds(labels)), None)
            or next(one for one in term.fields if not _field_holds(one, name))
            for term in terms[:_TERMS_SAID_MAX]
        )
        return f"node affinity {' or '.join(map(_said, unmet))}"

    @property
    def contradicts_itself(self) -> bool:
        """Every term names nodes, and none of the terms names one: no node can match."""
        if not self.terms:
            return False
        named = [_named(term) for term in self.terms]
        return all(names is not None and not names for names in named)


def _said(one: Requirement) -> str:
    """`zone In [a, b]`, as `kubectl describe` has it."""
    return f"{one.key} {one.operator}" + (f" [{', '.join(one.values)}]" if one.values else "")


ANY_NODE = NodeRequirement()


def of_pod(spec: PodSpec) -> NodeRequirement:
    """What the pod's spec demands; a term that cannot be read matches no node, and the others still may."""
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = node_affinity.required if node_affinity is not None else None
    if required is None and not spec.node_selector:
        return ANY_NODE
    return NodeRequirement(tuple(sorted((spec.node_selector or {}).items())), _terms(required))


def of_selector(selector: NodeSelector | None) -> NodeRequirement:
    """What a node selector by itself demands (a volume's)."""
    return ANY_NODE if selector is None else NodeRequirement((), _terms(selector))


def _terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    if selector is None:
        return None
    return tuple(sorted({term for source in selector.node_selector_terms or () for term in _readable(source)}))


def _readable(source: NodeSelectorTerm) -> Iterable[NodeTerm]:
    """The term; nothing if it is empty or cannot be read, as such a term matches no node."""
    try:
        labels = {node_requirement(one) for one in source.match_expressions or ()}
        fields = {_field(one) for one in source.match_fields or ()}
    except MalformedSelector:
        return ()
    return (NodeTerm(tuple(sorted(labels)), tuple(sorted(fields))),) if labels or fields else ()


def _field(source: NodeSelectorRequirement) -> Requirement:
    values = source.values or ()
    if source.operator not in (IN, NOT_IN) or len(values) != 1:
        raise MalformedSelector(f"a field needs In or NotIn with one value, not {source.operator[:30]!r}")
    return Requirement(source.key, source.operator, values)


def _field_holds(requirement: Requirement, name: str) -> bool:
    """Fields other than the name are empty."""
    value = name if requirement.key == NAME_FIELD else ""
    return (value == requirement.values[0]) == (requirement.operator == IN)


def _named(term: NodeTerm) -> frozenset[str] | None:
    """The nodes that all `metadata.name In` of the term name; None if there is no such requirement."""
    named: frozenset[str] | None = None
    for requirement in term.fields:
        if requirement.key == NAME_FIELD and requirement.operator == IN:
            names = frozenset(requirement.values)
            named = names if named is None else named & names
    return named
