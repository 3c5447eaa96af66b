"""Mutants of the Kubernetes shim: what is tried again, when and how often."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import answers, asking, conditions
from schedulerd.kubernetes.cluster.model import OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.meta import epoch_seconds
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.counters import Counters
from schedulerd.kubernetes.predicates.daemon_sets import DaemonSets
from schedulerd.kubernetes.predicates.refused_pods import Change, RefusedPods, What
from schedulerd.kubernetes.predicates.topology_counts import TopologyCounter
from tests.kubernetes import test_refused_pods_property
from tests.kubernetes.cluster import (
    test_allocations,
    test_daemon_sets,
    test_lost_writes,
    test_namespaces,
    test_start,
    test_wakes,
)
from tests.mutants.changes import By, Replaced, Within, gives, left_out, nothing
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule


def as_old_as_the_pod(original: By, own: OwnPod) -> None:
    original(own)
    own.asked_at_ns = epoch_seconds(own.pod.metadata.creation_timestamp) * SECOND_NS


def only_counts(original: By, counter: TopologyCounter, value: str, by: int) -> None:
    counter._sum(value, by)


def but_not(what: What) -> By:
    """Changes of this kind wake nobody."""

    def happened(original: By, refused_pods: RefusedPods, change: Change) -> None:
        if change.what is not what:
            original(refused_pods, change)

    return happened


MUTANTS = (
    Mutant(
        "a pod that is asked for again is as old as the pod",
        Rule.SHIM_ASKS,
        Replaced(asking.keep_age, as_old_as_the_pod),
        (TestsOf(test_start),),
    ),
    Mutant(
        "pods that come, go or change their labels lift no refusals",
        Rule.SHIM_ASKS,
        Within(TopologyCounter.pods_changed, TopologyCounter._change, only_counts),
        (TestsOf(test_wakes),),
    ),
    Mutant(
        "nodes that change their zone or are removed lift no refusals because of pods",
        Rule.SHIM_ASKS,
        Within(TopologyCounter.node_changed, TopologyCounter._change, only_counts),
        (TestsOf(test_wakes),),
    ),
    Mutant(
        "what a pod leaves on its node lifts no refusals",
        Rule.SHIM_ASKS,
        Replaced(ClusterCache._freed, nothing),
        (TestsOf(test_wakes),),
    ),
    Mutant(
        "no first pod in a zone lifts a refusal",
        Rule.SHIM_ASKS,
        Replaced(RefusedPods.happened, but_not(What.FIRST)),
        (TestsOf(test_wakes),),
    ),
    Mutant(
        "a minimum that rises lifts no refusal",
        Rule.SHIM_ASKS,
        Replaced(RefusedPods.happened, but_not(What.MINIMUM)),
        (TestsOf(test_wakes),),
    ),
    Mutant(
        "counters are not kept for pods that wait for them",
        Rule.SHIM_ASKS,
        left_out(RefusedPods._watch, Counters.acquire),
        (TestsOf(test_refused_pods_property),),
    ),
    Mutant(
        "a daemon pod that could not be bound is asked for again at once",
        Rule.SHIM_BINDINGS,
        Within(asking._waits_after_failure, DaemonSets.required_node, gives("")),
        (TestsOf(test_allocations),),
    ),
    Mutant(
        "whoever names a DaemonSet as controller is believed",
        Rule.SHIM_BINDINGS,
        Within(DaemonSets.required_node, DaemonSets._is_believed, gives(True)),
        (TestsOf(test_daemon_sets),),
    ),
    Mutant(
        "a quota that changes does not help an application that was rejected",
        Rule.SHIM_NAMESPACES,
        Within(answers.namespace_changed, answers._add_again, nothing),
        (TestsOf(test_namespaces),),
    ),
    Mutant(
        "a condition that was lost is not written again",
        Rule.SHIM_REASONS,
        Replaced(conditions.lost, nothing),
        (TestsOf(test_lost_writes),),
    ),
)
