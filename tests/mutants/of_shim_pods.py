"""Mutants of the Kubernetes shim: pods, nodes, applications, and why pods wait."""

from __future__ import annotations

from typing import Any

from schedulerd.client.report import Report
from schedulerd.kubernetes.cluster import (
    allocations,
    answers,
    applications,
    asking,
    claims,
    conditions,
    joining,
    namespace_following,
    node_answers,
    nodes,
    pods,
    questions,
)
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.node_class_attributes import NodeClassAttributes
from schedulerd.kubernetes.cluster.node_reports import NodeReports
from schedulerd.kubernetes.metadata.pods import is_placed
from schedulerd.kubernetes.predicates import pod_changes
from schedulerd.kubernetes.predicates.callbacks import callback_plugins
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.reasons import node_counts
from schedulerd.kubernetes.reasons.pod_reason import Backlog
from tests.kubernetes.cluster import (
    test_allocations,
    test_asking,
    test_core_simulation,
    test_joining,
    test_namespaces,
    test_refused,
    test_resize,
    test_running_pods,
    test_simulation,
    test_start,
)
from tests.kubernetes.reasons import test_rates, test_sentences
from tests.mutants.changes import By, Compares, Constant, Replaced, Within, gives, left_out, nothing, while_
from tests.mutants.finders import Seeds, TestsOf
from tests.mutants.mutant import Mutant
from tests.mutants.rules import Rule
from tests.unit.client import test_books, test_books_asks, test_books_updates

ALLOCATIONS = TestsOf(test_allocations)
ASKING = TestsOf(test_asking)
RUNNING = TestsOf(test_running_pods)
JOINING = TestsOf(test_joining)
REFUSED = TestsOf(test_refused)
NAMESPACES = TestsOf(test_namespaces)
RESIZES = TestsOf(test_resize)
START = TestsOf(test_start)
RATES = TestsOf(test_rates)
SENTENCES = TestsOf(test_sentences)
TOY = Seeds(lambda seed: test_simulation.check(test_simulation.play(seed)))
CORE = Seeds(lambda seed: test_core_simulation.check(test_core_simulation.play(seed)))


def asked_again_at_once(original: By, model: Model) -> None:
    model.wake_times.due_ns, model.wake_times.not_before_ns = None, 0
    original(model)


def drops_unanswered(original: By, model: Model, event: Any) -> None:
    if event.application_id not in model.unanswered:
        original(model, event)


def refused_with_a_node(
    original: By, model: Model, application: Application, own: OwnPod, *, is_known: bool = True
) -> Any:
    return original(model, application, own, is_known=False)


def asked_again_without_questions(original: By, model: Model, own: OwnPod) -> None:
    own.needs_callback = False
    original(model, own)


def asked_again_everywhere(original: By, model: Model, own: OwnPod) -> None:
    own.avoided_nodes.clear()
    original(model, own)


def waits_for_ever(original: By, model: Model, application: Application, problem: Any) -> None:
    with while_(model.timers, set=lambda *_: None):
        original(model, application, problem)


def as_often_as_before(original: By, model: Model, application: Application, problem: Any) -> None:
    application.failures = 0
    original(model, application, problem)


def in_the_old_place(original: By, model: Model, own: OwnPod, amounts: Any) -> None:
    """The shim takes note of the amounts, and does not tell the daemon."""
    own.amounts = own.amounts_asked = amounts


def without_age(original: By, model: Model, own: OwnPod, *, again: bool = False) -> None:
    own.keeps_age = False
    original(model, own, again=again)


def alike(original: By, old: Any, new: Any) -> bool:
    return True


MUTANTS = (
    # Asks
    Mutant(
        "a pod that is being deleted is still asked for",
        Rule.SHIM_ASKS,
        Replaced(asking.withdraw, nothing),
        (ASKING,),
    ),
    Mutant(
        "a rejected ask is not sent again",
        Rule.SHIM_ASKS,
        Within(answers.ask_again, asking.consider, nothing),
        (ASKING,),
    ),
    Mutant(
        "an ask that went with an earlier application is not repeated",
        Rule.SHIM_ASKS,
        left_out(answers.ask_released, asking.consider),
        (ASKING,),
    ),
    Mutant(
        "pods that were refused because of others are not asked for again",
        Rule.SHIM_ASKS,
        Replaced(asking.wake_refused, nothing),
        (ALLOCATIONS,),
    ),
    Mutant(
        "every change makes pods that were refused be asked for again at once",
        Rule.SHIM_ASKS,
        Replaced(asking.wake_refused, asked_again_at_once),
        (REFUSED,),
    ),
    Mutant(
        "pods do not wait for their claims",
        Rule.SHIM_ASKS,
        Replaced(claims.unusable, gives("")),
        (ASKING,),
    ),
    Mutant(
        "a claim that changes wakes nobody",
        Rule.SHIM_ASKS,
        Replaced(pods.claim_changed, nothing),
        (ASKING,),
    ),
    Mutant(
        "the age of an ask is lost when the shim starts",
        Rule.SHIM_ASKS,
        Replaced(asking.consider, without_age),
        (START,),
    ),
    # Classes
    Mutant(
        "pods of which others decide are not asked about",
        Rule.SHIM_CLASSES,
        Replaced(callback_plugins, gives(())),
        (ASKING,),
    ),
    Mutant(
        "classes come whenever they are wanted",
        Rule.SHIM_CLASSES,
        Replaced(NodeClassAttributes.passed, nothing),
        (ASKING,),
    ),
    Mutant(
        "idle classes stay",
        Rule.SHIM_CLASSES,
        Replaced(NodeClassAttributes.drop_idle, gives(False)),
        (ASKING,),
    ),
    # Predicates
    Mutant(
        "an allocation is not judged again",
        Rule.SHIM_PREDICATES,
        Within(allocations.allocated, Predicates.judge, lambda original, *_, **__: ()),
        (ALLOCATIONS,),
    ),
    Mutant(
        "what is assumed does not count",
        Rule.SHIM_PREDICATES,
        Replaced(ClusterCache.assume, nothing),
        (ALLOCATIONS,),
    ),
    Mutant(
        "a pod that its node has refused is not asked about from then on",
        Rule.SHIM_PREDICATES,
        Within(allocations.allocated, asking.ask_again, asked_again_without_questions),
        (ALLOCATIONS,),
    ),
    Mutant(
        "victims that a budget protects are preempted",
        Rule.SHIM_PREDICATES,
        Within(questions.preemption_predicates, Predicates.exceeded_budgets, lambda original, *_: ()),
        (ALLOCATIONS,),
    ),
    # Bindings
    Mutant(
        "a node that could not be bound to is tried again at once",
        Rule.SHIM_BINDINGS,
        Within(allocations.bind_ended, asking.ask_again, asked_again_everywhere),
        (ALLOCATIONS,),
    ),
    Mutant(
        "a node that could not be bound to is left out for ever",
        Rule.SHIM_BINDINGS,
        Compares(answers.ask_again, ("until_ns", "now_ns"), ">"),
        (ALLOCATIONS,),
    ),
    Mutant(
        "a binding whose answer is lost is not repeated",
        Rule.SHIM_BINDINGS,
        Replaced(allocations.bind_again, nothing),
        (ALLOCATIONS, TOY),
    ),
    Mutant(
        "a pod that somebody else has bound is not reported there",
        Rule.SHIM_BINDINGS,
        Replaced(pods.found_on, nothing),
        (RUNNING, TOY),
    ),
    # Ends
    Mutant(
        "what a pod held is not given back",
        Rule.SHIM_ENDS,
        Replaced(pods.give_up, nothing),
        (ALLOCATIONS, TOY),
    ),
    Mutant(
        "a release that may have come too early is not repeated",
        Rule.SHIM_ENDS,
        Replaced(pods.release_again, nothing),
        (RUNNING,),
    ),
    Mutant(
        "a deletion that failed is not repeated",
        Rule.SHIM_ENDS,
        Replaced(allocations.delete_again, nothing),
        (ALLOCATIONS, TOY),
    ),
    Mutant(
        "an allocation that goes while its pod runs is forgotten",
        Rule.SHIM_ENDS,
        left_out(allocations.released, pods.report_running),
        (RUNNING,),
    ),
    # Resizes
    Mutant("a resize is not noticed", Rule.SHIM_RESIZES, Replaced(pods.follow_resize, nothing), (RESIZES, TOY, CORE)),
    Mutant(
        "a resize is not told",
        Rule.SHIM_RESIZES,
        Replaced(asking.resize, in_the_old_place),
        (RESIZES, TOY, CORE),
    ),
    Mutant(
        "every pod on a node stays as it was",
        Rule.SHIM_RESIZES,
        Replaced(pod_changes.occupies_alike, alike),
        (RESIZES, TOY, CORE),
    ),
    Mutant(
        "an ask with older amounts has the last word",
        Rule.SHIM_RESIZES,
        left_out(nodes.report_changes, asking.resize),
        (RESIZES,),
    ),
    # Nodes
    Mutant(
        "a rejected node does not come back",
        Rule.SHIM_NODES,
        Replaced(node_answers.create_again, nothing),
        (RUNNING, TOY),
    ),
    Mutant(
        "a pod whose report was rejected stays without an allocation",
        Rule.SHIM_NODES,
        Replaced(node_answers.report_pod_again, nothing),
        (RUNNING, TOY),
    ),
    Mutant(
        "an update that was rejected for no pod is not repeated",
        Rule.SHIM_NODES,
        Replaced(node_answers.update_again, nothing),
        (RUNNING,),
    ),
    Mutant(
        "what others use is not counted",
        Rule.SHIM_NODES,
        Replaced(NodeReports.occupy, nothing),
        (ALLOCATIONS,),
    ),
    Mutant(
        "what others used is counted when they are gone",
        Rule.SHIM_NODES,
        Replaced(NodeReports.vacate, nothing),
        (ALLOCATIONS, TOY),
    ),
    Mutant(
        "pods that turn up on a node are not reported",
        Rule.SHIM_NODES,
        Replaced(NodeReports.arrive, nothing),
        (RUNNING, TOY, CORE),
    ),
    # Applications
    Mutant(
        "a failed application is not added again",
        Rule.SHIM_APPLICATIONS,
        Replaced(applications.wait, waits_for_ever),
        (ASKING,),
    ),
    Mutant(
        "a failing application is added again as often as at first",
        Rule.SHIM_APPLICATIONS,
        Replaced(applications.wait, as_often_as_before),
        (ASKING,),
    ),
    Mutant(
        "a pod joins an application of another namespace or user",
        Rule.SHIM_APPLICATIONS,
        Replaced(joining.refusal, gives(None)),
        (ASKING, JOINING),
    ),
    Mutant(
        "a pod with a node does not join an application of another user",
        Rule.SHIM_REPORTS,
        Replaced(joining.refusal, refused_with_a_node),
        (JOINING,),
    ),
    Mutant(
        "at a start a pod that somebody else has bound takes the application of an older one",
        Rule.SHIM_REPORTS,
        Replaced(joining.joins_after, gives(False)),
        (JOINING,),
    ),
    Mutant(
        "at a start an older pod takes the application of one that was placed",
        Rule.SHIM_REPORTS,
        Replaced(is_placed, gives(False)),
        (JOINING,),
    ),
    Mutant(
        "an answer to an earlier application of the id counts",
        Rule.SHIM_APPLICATIONS,
        Replaced(applications.is_last_answer, gives(True)),
        (TOY,),
    ),
    Mutant(
        "an idle application stays after a new report",
        Rule.SHIM_APPLICATIONS,
        Replaced(answers.resynced, nothing),
        (START,),
    ),
    # Namespaces
    Mutant(
        "a quota that changes is not told",
        Rule.SHIM_NAMESPACES,
        Replaced(answers.namespace_changed, nothing),
        (NAMESPACES,),
    ),
    Mutant(
        "a quota that changes before the application is accepted is lost",
        Rule.SHIM_NAMESPACES,
        left_out(answers.application_accepted, namespace_following.follow),
        (NAMESPACES,),
    ),
    Mutant(
        "what the daemon says of an application that is told again is dropped",
        Rule.SHIM_NAMESPACES,
        Replaced(answers.application_updated, drops_unanswered),
        (NAMESPACES,),
    ),
    Mutant(
        "a change of quotas that is rejected is not told",
        Rule.SHIM_NAMESPACES,
        Within(namespace_following.change_answered, Model.record, nothing),
        (NAMESPACES,),
    ),
    # Reasons
    Mutant(
        "conditions and events have no rate",
        Rule.SHIM_REASONS,
        Replaced(Backlog.may_write, gives(True)),
        (RATES,),
    ),
    Mutant(
        "a reason that flaps is written each time",
        Rule.SHIM_REASONS,
        Constant(conditions, "EVERY_NS", 0),
        (RATES,),
    ),
    Mutant(
        "events are not repeated",
        Rule.SHIM_REASONS,
        Replaced(Backlog.repeat_event, nothing),
        (RATES,),
    ),
    Mutant(
        "counts of nodes are not renewed",
        Rule.SHIM_REASONS,
        Constant(node_counts, "AGAIN_NS", 10**18),
        (RATES,),
    ),
    Mutant(
        "a condition that is there is written again",
        Rule.SHIM_REASONS,
        Replaced(conditions._has_condition, gives(False)),
        (SENTENCES,),
    ),
    Mutant(
        "a pod of which the daemon says nothing does not say that",
        Rule.SHIM_REASONS,
        Replaced(conditions.asked, nothing),
        (SENTENCES,),
    ),
    # Reports
    Mutant(
        "an ask behind the release of its allocation is not reported",
        Rule.SHIM_REPORTS,
        Replaced(Report.asks_anew, gives(())),
        (TestsOf(test_books, test_books_asks, test_books_updates),),
    ),
    Mutant(
        "answers to an earlier daemon count",
        Rule.SHIM_REPORTS,
        Replaced(answers.report_begun, nothing),
        (RUNNING,),
    ),
)
