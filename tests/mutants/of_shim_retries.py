"""Mutants of the Kubernetes shim: what is tried again, when and how often."""

from __future__ import annotations

from schedulerd.kubernetes.cluster import answers, asking, conditions, nodes, pods, refused
from schedulerd.kubernetes.cluster.model import OwnPod
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.cluster.times import epoch_seconds
from schedulerd.kubernetes.metadata.pods import required_node
from tests.kubernetes.cluster import test_allocations, test_lost_writes, test_namespaces, test_refusals, test_start
from tests.mutants.changes import By, Replaced, Within, gives, left_out, nothing
from tests.mutants.finders import TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule


def as_old_as_the_pod(original: By, own: OwnPod) -> None:
    original(own)
    own.asked_at_ns = epoch_seconds(own.pod.metadata.creation_timestamp) * SECOND_NS


MUTANTS = (
    Mutant(
        "a pod that is asked for again is as old as the pod",
        Rule.SHIM_ASKS,
        Replaced(asking.keep_age, as_old_as_the_pod),
        (TestsOf(test_start),),
    ),
    Mutant(
        "pods that are deleted or change their labels lift no refusals",
        Rule.SHIM_ASKS,
        left_out(pods.put, refused.wake_refused),
        (TestsOf(test_refusals),),
    ),
    Mutant(
        "nodes that change their labels lift no refusals",
        Rule.SHIM_ASKS,
        left_out(nodes.put, refused.wake_refused),
        (TestsOf(test_refusals),),
    ),
    Mutant(
        "nodes that are removed lift no refusals",
        Rule.SHIM_ASKS,
        left_out(nodes.gone, refused.wake_refused),
        (TestsOf(test_refusals),),
    ),
    Mutant(
        "virtual placeholders that were refused because of others are not asked for again",
        Rule.SHIM_ASKS,
        left_out(refused.ask_refused_again, asking.repeat),
        (TestsOf(test_refusals),),
    ),
    Mutant(
        "a daemon pod that could not be bound is asked for again at once",
        Rule.SHIM_BINDINGS,
        Within(asking.consider, required_node, gives("")),
        (TestsOf(test_allocations),),
    ),
    Mutant(
        "a quota that changes does not help an application that was rejected",
        Rule.SHIM_NAMESPACES,
        Within(answers.namespace_changed, answers.add_application_again, nothing),
        (TestsOf(test_namespaces),),
    ),
    Mutant(
        "a condition that was lost is not written again",
        Rule.SHIM_REASONS,
        Replaced(conditions.lost, nothing),
        (TestsOf(test_lost_writes),),
    ),
)
