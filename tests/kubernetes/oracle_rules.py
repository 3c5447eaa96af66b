"""Where today's Kubernetes decides otherwise than 1.20: the old rules, to recognise what differs because of them.

The old rules are written naively, over all pods and nodes. A difference is explained only if all old rules together
give the recorded answer, and if the naive rules of today give ours; it has the name of the smallest set of old rules
that gives the recorded answer. A case is never looked up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from schedulerd.kubernetes.objects.affinity import Affinity, PodAffinity, Toleration
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod, PodStatus, Quantities, is_terminal
from schedulerd.kubernetes.predicates import node_resources_fit, plugins, pod_topology_spread
from schedulerd.kubernetes.predicates.node_resources_fit import EPHEMERAL_STORAGE, is_counted
from schedulerd.kubernetes.predicates.node_state import NodeFacts, read_facts
from schedulerd.kubernetes.predicates.pod_info import read_info, read_pending
from schedulerd.kubernetes.predicates.refusal import Kind
from schedulerd.kubernetes.predicates.terms import SpreadConstraint
from schedulerd.kubernetes.predicates.topology_counts import counts_node
from schedulerd.kubernetes.predicates.words import reasons, words_of_1_20
from schedulerd.kubernetes.quantity import nanos, to_millis, to_units
from schedulerd.kubernetes.resources import CPU, read_quantities
from tests.kubernetes.oracle_file import PASSED, Answer, Case, cluster_of

ENDED_PODS = "the plugins of 1.20 were given pods that have ended, of which a scheduler is not told"
NEW_FIELDS = "fields that 1.20 does not know (sidecars, namespaceSelector, minDomains, policies, matchLabelKeys, ...)"
ALL_RESOURCES = "1.20 compares processors, memory and storage that the pod does not request"
ROUNDED_EARLY = "1.20 rounds the requests of each container, not their sum"
OTHER_NODES = "1.20 counts matching pods on nodes that do not count for the constraint, in values that count"
EMPTY_VALUE = "1.20 counts nodes without the label where its value is empty"
NO_NODE_COUNTS = "1.20 takes the minimum as infinite if no node counts for the constraint"
SHARED_COUNTS = "1.20 adds up the constraints that have the same topology key"

FIT_RULES = (ALL_RESOURCES, ROUNDED_EARLY)
SPREAD_RULES = (OTHER_NODES, EMPTY_VALUE, NO_NODE_COUNTS, SHARED_COUNTS)

_Part = TypeVar("_Part")

_SPREAD = "node(s) didn't match pod topology spread constraints"


def explains(plugin: str, case: Case, node: Node, recorded: Answer, given: Answer) -> str:
    """The rules by which 1.20 gave the recorded answer of a plugin on a node, and not the given; empty if none do."""
    old = without_new_fields(case)
    as_old = given if old == case else judged(plugin, old, node)
    readings = [NEW_FIELDS] if as_old != given else []
    found = _old_rules(plugin, old, node, recorded, as_old)
    if found is None and any(is_terminal(pod) for pod in old.pods):
        old = replace(old, pods=tuple(map(_running, old.pods)))
        readings.append(ENDED_PODS)
        found = _old_rules(plugin, old, node, recorded, judged(plugin, old, node))
    return "" if found is None else "; ".join((*readings, *found))


def _old_rules(plugin: str, case: Case, node: Node, recorded: Answer, today: Answer) -> tuple[str, ...] | None:
    """The smallest set of old rules that gives the recorded answer; None if they do not explain it."""
    if recorded == today:
        return ()
    naive, rules = _OLD.get(plugin), _RULES.get(plugin, ())
    if naive is None or naive(case, node, ()) != today or naive(case, node, rules) != recorded:
        return None
    return next(some for some in _subsets(rules) if naive(case, node, some) == recorded)


def _running(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, phase="Running")) if is_terminal(pod) else pod


def judged(plugin: str, case: Case, node: Node) -> Answer:
    """What our plugin says of a node, as 1.20 would say it."""
    view, pod = cluster_of(case)
    refusals = view.judge(pod, node.metadata.name, [one for one in plugins.ALL if one.name == plugin])
    if not refusals:
        return PASSED
    return Answer(refusals[0].kind.value, tuple(reasons(refusals, words_of_1_20)))


def without_new_fields(case: Case) -> Case:
    """The case as 1.20 reads it: it skips fields that were added later."""
    return replace(case, pod=_old_pod(case.pod), pods=tuple(_old_pod(pod) for pod in case.pods))


def _old_pod(pod: Pod) -> Pod:
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            init_containers=_map(lambda one: replace(one, restart_policy=None), spec.init_containers),
            resources=None,
            affinity=_old_affinity(spec.affinity),
            tolerations=_map(_old_toleration, spec.tolerations),
            topology_spread_constraints=_map(
                lambda one: replace(
                    one, min_domains=None, node_affinity_policy=None, node_taints_policy=None, match_label_keys=None
                ),
                spec.topology_spread_constraints,
            ),
            scheduling_gates=None,
            resource_claims=None,
        ),
        status=PodStatus(phase=pod.status.phase),
    )


def _old_affinity(affinity: Affinity | None) -> Affinity | None:
    if affinity is None:
        return None
    return replace(
        affinity,
        pod_affinity=_old_terms(affinity.pod_affinity),
        pod_anti_affinity=_old_terms(affinity.pod_anti_affinity),
    )


def _old_terms(affinity: PodAffinity | None) -> PodAffinity | None:
    if affinity is None:
        return None
    return replace(affinity, required=_map(lambda one: replace(one, namespace_selector=None), affinity.required))


def _old_toleration(one: Toleration) -> Toleration:
    """Operators that 1.20 does not know tolerate nothing."""
    return replace(one, operator="unknown") if one.operator in ("Lt", "Gt") else one


def _map(function: Callable[[_Part], _Part], parts: tuple[_Part, ...] | None) -> tuple[_Part, ...] | None:
    return None if parts is None else tuple(map(function, parts))


def _subsets(rules: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The smallest first; none is left out, as the naive rules alone give today's answer."""
    for size in range(1, len(rules) + 1):
        yield from itertools.combinations(rules, size)


def fit_of_1_20(case: Case, node: Node, rules: Iterable[str]) -> Answer:
    rules = set(rules)
    there = [pod for pod in case.pods if pod.spec.node_name == node.metadata.name and not is_terminal(pod)]
    wanted = _requests(case.pod, rules)
    used = [_requests(pod, rules) for pod in there]
    has = read_quantities(node.status.allocatable)
    said = ["Too many pods"] if len(there) + 1 > has.get("pods", 0) else []
    always = (CPU, "memory", EPHEMERAL_STORAGE)
    if any(wanted.get(name, 0) for name in always) or any(name not in always for name in wanted):
        for name in (*always, *sorted(set(wanted) - set(always))):
            if ALL_RESOURCES not in rules and not wanted.get(name):
                continue
            if has.get(name, 0) < wanted.get(name, 0) + sum(one.get(name, 0) for one in used):
                said.append(f"Insufficient {name}")
    return Answer(Kind.UNSCHEDULABLE.value, tuple(said)) if said else PASSED


def _requests(pod: Pod, rules: set[str]) -> dict[str, int]:
    """What a pod requests without sidecars: the sum of its containers, or the largest init container; and overhead."""
    finest = ROUNDED_EARLY in rules
    total: dict[str, int] = {}
    for container in pod.spec.containers or ():
        for name, amount in _amounts(container.resources.requests, finest).items():
            total[name] = total.get(name, 0) + amount
    for container in pod.spec.init_containers or ():
        for name, amount in _amounts(container.resources.requests, finest).items():
            if amount > total.get(name, 0):  # so one that requests 0 of something does not request it
                total[name] = amount
    for name, amount in _amounts(pod.spec.overhead, finest).items():
        total[name] = total.get(name, 0) + amount
    return total if finest else {name: _rounded(name, amount) for name, amount in total.items()}


def _amounts(quantities: Quantities | None, is_rounded: bool) -> dict[str, int]:
    found = {
        name: nanos(quantity) for name, quantity in (quantities or {}).items() if is_counted(name) and name != "pods"
    }
    return {name: _rounded(name, amount) for name, amount in found.items()} if is_rounded else found


def _rounded(name: str, amount: int) -> int:
    return to_millis(amount) if name == CPU else to_units(amount)


def spread_of_1_20(case: Case, node: Node, rules: Iterable[str]) -> Answer:
    rules = set(rules)
    constraints = read_pending(case.pod, read_info(case.pod)).spread
    labels = node.metadata.labels or {}
    for constraint in constraints:
        value = labels.get(constraint.topology_key)
        if value is None:
            return Answer(Kind.UNRESOLVABLE.value, (f"{_SPREAD} (missing required label)",))
        counts = _counts(case, constraint, constraints, rules)
        minimum = min(counts.values(), default=math.inf if NO_NODE_COUNTS in rules else 0)
        if counts.get(value, 0) + constraint.counts_itself - minimum > constraint.max_skew:
            return Answer(Kind.UNSCHEDULABLE.value, (_SPREAD,))
    return PASSED


def _counts(
    case: Case, constraint: SpreadConstraint, constraints: tuple[SpreadConstraint, ...], rules: set[str]
) -> dict[str, int]:
    """Matching pods by value, for every value of a node that counts."""
    key = constraint.topology_key
    facts = [read_facts(node) for node in case.nodes]
    counting = [one for one in facts if counts_node(constraint.eligibility, one)]
    counts = {one.labels[key]: 0 for one in counting}
    added_up = [one for one in constraints if one.topology_key == key] if SHARED_COUNTS in rules else [constraint]
    for one in facts:
        if key not in one.labels:
            value = "" if EMPTY_VALUE in rules else None
        else:
            value = one.labels[key] if OTHER_NODES in rules or one in counting else None
        if value in counts:
            counts[value] += sum(_matching(case, one, each) for each in added_up)
    return counts


def _matching(case: Case, node: NodeFacts, constraint: SpreadConstraint) -> int:
    return sum(
        pod.spec.node_name == node.name
        and not is_terminal(pod)
        and pod.metadata.deletion_timestamp is None
        and constraint.pods.matches(pod.metadata.namespace, {}, pod.metadata.labels or {})
        for pod in case.pods
    )


_OLD: dict[str, Callable[[Case, Node, Iterable[str]], Answer]] = {
    node_resources_fit.NAME: fit_of_1_20,
    pod_topology_spread.NAME: spread_of_1_20,
}
_RULES = {node_resources_fit.NAME: FIT_RULES, pod_topology_spread.NAME: SPREAD_RULES}
