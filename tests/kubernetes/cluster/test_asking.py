"""Pods without a node become asks: with which tags, when they change, and when they are withdrawn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schedulerd.kubernetes.cluster.effects import (
    AddApplication,
    Ask,
    Bind,
    CreateNode,
    Effect,
    PatchPodCondition,
    PodName,
    RecordEvent,
    ReleaseAsk,
    RemoveApplication,
    UpdateNode,
)
from schedulerd.kubernetes.cluster.events import (
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRejected,
    AskReleased,
    Put,
    Tick,
)
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.objects.cluster import PriorityClass
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.meta import epoch_seconds
from tests.kubernetes.builders import (
    anti_affinity,
    app,
    containers,
    daemon_set,
    expression,
    for_node,
    namespace,
    node,
    node_affinity,
    owned_by_daemon_set,
    placed,
    ports,
    selector,
    term,
    terminating,
)
from tests.kubernetes.cluster.play import Play, of, own, the_ask
from tests.kubernetes.storage_builders import claim, storage_class, uses, volume

SELECTOR, PREDICATES = "schedulerd.io/node-selector", "schedulerd.io/predicates"

APP = app("yunikorn-ns-autogen")


@pytest.fixture
def play() -> Play:
    play = Play()
    play.start(node("n"), namespace("ns"))
    return play


def test_an_application_is_as_old_as_its_oldest_pod(play: Play) -> None:
    """An older pod that joins later changes nothing."""
    added = of(play.put(own("p")), AddApplication)[0]
    assert added.asked_at_ns == epoch_seconds("2026-01-01T00:00:00Z") * SECOND_NS
    assert of(play.put(own("older", meta={"creationTimestamp": "2025-01-01T00:00:00Z"})), AddApplication) == []


def test_an_application_of_before_is_as_old_as_its_oldest_pod_wherever_that_is() -> None:
    """The pod that runs makes the application known, and is younger than one that waits."""
    at = {"running": "2025-12-01T00:00:00Z", "waits": "2025-01-01T00:00:00Z"}
    pods = [own(name, meta={"creationTimestamp": created}) for name, created in at.items()]
    report = Play().start(node("n"), namespace("ns"), placed(pods[0], "n"), pods[1])
    assert [one.asked_at_ns for one in report.applications] == [epoch_seconds(at["waits"]) * SECOND_NS]


def test_a_pod_of_the_future_makes_an_application_of_now(play: Play) -> None:
    added = of(play.put(own("p", meta={"creationTimestamp": "2125-01-01T00:00:00Z"})), AddApplication)[0]
    assert added.asked_at_ns == play.cluster.model.epoch_ns + play.cluster.model.now_ns


def test_a_pod_is_asked_for_in_the_turn_in_which_it_comes(play: Play) -> None:
    added, ask, update = play.put(own("p", cpu="1500m", priority=7, preemptionPolicy="Never"))
    assert isinstance(added, AddApplication)
    assert (added.application_id, added.queue, added.user) == (APP, "root.q", "nobody")
    assert added.tags == {"namespace": "ns", "yunikorn.apache.org/creationTime": "1767225600"}
    assert isinstance(ask, Ask)
    assert (ask.key, ask.application_id, ask.priority) == ("p", APP, 7)
    assert ask.resources == {"vcore": 1500, "pods": 1}
    assert (ask.allow_preempt_self, ask.allow_preempt_other) == (True, False)
    assert ask.asked_at_ns == 0
    assert isinstance(update, UpdateNode), "of the class of the pod"
    attribute = ask.tags[SELECTOR]
    assert update.attributes is not None
    assert update.attributes[attribute] == "true"
    assert ask.tags == {
        "kubernetes.io/meta/namespace": "ns",
        "kubernetes.io/meta/podName": "p",
        "kubernetes.io/label/queue": "root.q",
        "creationTime": "1767225600",
        SELECTOR: attribute,
        PREDICATES: "none",  # it preempts nobody
    }


def test_pods_of_one_kind_share_application_and_class(play: Play) -> None:
    first = the_ask(play.put(own("a")))
    (second,) = play.put(own("b"))
    assert isinstance(second, Ask)
    assert second.tags[SELECTOR] == first.tags[SELECTOR]


def test_an_event_that_changes_nothing_is_silent_and_another_request_is_a_new_ask(play: Play) -> None:
    play.put(own("p"))
    assert play.put(own("p", meta={"annotations": {"a": "b"}})) == []
    (ask,) = play.put(own("p", cpu="2"))
    assert isinstance(ask, Ask)
    assert ask.resources["vcore"] == 2000


def test_what_nodes_decide_by_labels_needs_no_callback(play: Play) -> None:
    ask = the_ask(play.put(own("p", nodeSelector={"zone": "a"})))
    plain, attribute = ask.tags[SELECTOR].split(",")
    assert plain == "zone=a"
    assert attribute.startswith("c/")
    assert ask.tags[PREDICATES] == "preemption"


def test_nodes_that_refuse_a_class_say_why_by_the_taint_or_term() -> None:
    play = Play()
    gpu = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    play.start(node("good", {"zone": "a"}), node("tainted", taints=[gpu]), node("cordoned", unschedulable=True))
    either = node_affinity(
        {"matchExpressions": [expression("zone", "In", "a", "b")]}, {"matchExpressions": [expression("x", "Gt", "5")]}
    )
    effects = play.put(own("p", affinity=either))
    attribute = the_ask(effects).tags[SELECTOR]
    refusal = attribute.replace("c/", "c!/")
    told = {one.name: one.attributes or {} for one in of(effects, UpdateNode)}
    assert (told["good"].get(attribute), refusal in told["good"]) == ("true", False)
    assert told["tainted"].get(refusal) == "taint dedicated=gpu:NoSchedule, which the pod does not tolerate"
    assert told["cordoned"].get(refusal) == "unschedulable"
    assert attribute not in told["tainted"]
    (update,) = of(play.put(node("good", {"zone": "c"})), UpdateNode)
    assert (update.attributes or {})[refusal] == "node affinity x Gt [5] or zone In [a, b]"


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": ports({"hostPort": 80})},
        {"affinity": anti_affinity(term("zone", selector(a="b")))},
    ],
)
def test_pods_that_others_decide_about_are_asked_about(play: Play, spec: Any) -> None:
    assert PREDICATES not in the_ask(play.put(own("p", **spec))).tags


def test_a_pod_that_another_ones_anti_affinity_matches_is_asked_about(play: Play) -> None:
    play.put(own("a", affinity=anti_affinity(term("zone", selector(queue="root.q")))))
    assert PREDICATES not in the_ask(play.put(own("b"))).tags


def test_a_daemon_pod_names_its_node(play: Play) -> None:
    tags = the_ask(play.put(daemon_set(), own("p", meta=owned_by_daemon_set(), affinity=for_node("n")))).tags
    assert tags["yunikorn.apache.org/requiredNode"] == "n"
    assert SELECTOR not in tags
    assert PREDICATES not in tags


def test_new_classes_come_once_a_second_and_until_then_pods_are_asked_about(play: Play) -> None:
    def tolerating(name: str, key: str) -> object:
        return own(name, tolerations=[{"key": key, "operator": "Exists"}])

    play.put(tolerating("a", "a"))
    effects = play.put(tolerating("b", "b"))
    assert of(effects, UpdateNode) == []
    assert PREDICATES not in the_ask(effects).tags
    assert SELECTOR not in the_ask(effects).tags
    (update,) = play.wait(1)
    assert isinstance(update, UpdateNode)
    (ask,) = play.put(tolerating("c", "b"))
    assert isinstance(ask, Ask)
    assert ask.tags[PREDICATES] == "preemption"


def test_idle_classes_go() -> None:
    play = Play(classes_max=1)
    play.start(node("n"))
    play.put(own("a"))
    play.gone(own("a"))
    (update,) = of(play.wait(400), UpdateNode)
    assert update.attributes is not None
    assert not [name for name in update.attributes if name.startswith("c/")]
    assert the_ask(play.put(own("b"))).tags[PREDICATES] == "preemption"


def test_more_classes_than_allowed_are_asked_about() -> None:
    play = Play(classes_max=1)
    play.start(node("n"))
    play.put(own("a"))
    play.wait(2)
    ask = the_ask(play.put(own("b", tolerations=[{"operator": "Exists"}])))
    assert PREDICATES not in ask.tags


def test_gates_hold_a_pod(play: Play) -> None:
    gated = own("p", schedulingGates=[{"name": "quota"}])
    effects = play.all(Put(gated))
    assert effects == [], "the API server says why it waits"
    assert play.wait(60) == []
    assert play.all(Put(gated)) == []
    assert the_ask(play.put(own("p"))).key == "p"


def test_an_unreadable_request_holds_a_pod(play: Play) -> None:
    broken = own("p", containers=containers({"cpu": "much"}))
    effects = play.all(Put(broken))
    condition, event = effects
    assert isinstance(condition, PatchPodCondition)
    assert isinstance(event, RecordEvent)
    assert (condition.reason, event.reason) == ("SchedulingSkipped", "FailedScheduling")
    assert play.all(Put(broken)) == []


def test_a_pod_that_goes_is_withdrawn(play: Play) -> None:
    play.put(own("p"))
    play.tell(ApplicationAccepted(APP), ApplicationUpdated(APP, "Accepted", ""))
    assert play.gone(own("p")) == [ReleaseAsk(APP, "p")]
    assert APP in play.cluster.model.applications, "the daemon completes it"
    play.tell(ApplicationUpdated(APP, "Completed", ""))
    assert play.cluster.model.applications == {}


def test_a_pod_that_is_being_deleted_is_withdrawn_at_once(play: Play) -> None:
    pod = own("p")
    play.put(pod)
    assert play.put(terminating(pod))[0] == ReleaseAsk(APP, "p")
    assert play.gone(terminating(pod)) == []


def test_an_application_that_may_never_have_had_an_ask_is_removed(play: Play) -> None:
    play.put(own("p"))
    assert play.gone(own("p")) == [
        ReleaseAsk(APP, "p"),
        RemoveApplication(APP),
    ]
    assert of(play.put(own("q")), AddApplication)


def test_an_application_that_completes_while_a_pod_comes_is_added_again(play: Play) -> None:
    completed = ApplicationUpdated(APP, "Completed", "")
    play.put(own("p"))
    assert play.tell(completed) == [], "it is that of an earlier application of this id"
    assert play.tell(ApplicationAccepted(APP)) == []
    added, ask = play.tell(completed)
    assert isinstance(added, AddApplication)
    assert isinstance(ask, Ask)


def test_a_rejected_application_is_added_again_less_and_less_often(play: Play) -> None:
    play.put(own("p"))
    rejected = ApplicationRejected(APP, "no queue")
    condition, event = play.all(rejected)
    assert isinstance(condition, PatchPodCondition)
    assert (condition.reason, condition.message) == ("SchedulingSkipped", "No queue.")
    assert isinstance(event, RecordEvent)
    assert (event.reason, event.note, event.is_warning) == ("ApplicationRejected", "No queue.", True)
    assert play.put(own("late")) == []
    assert play.wait(59) == []
    added, *asks = play.wait(1)
    assert isinstance(added, AddApplication)
    assert [ask.key for ask in of(asks, Ask)] == ["p", "late"]
    play.tell(rejected)
    assert play.wait(119) == []
    assert of(play.wait(1), AddApplication)


def test_a_rejected_ask_is_sent_again(play: Play) -> None:
    ask = the_ask(play.put(own("p")))
    assert play.tell(AskRejected(APP, "p", "no")) == []
    assert play.wait(1) == [ask]
    assert play.tell(AskRejected(APP, "p", "no")) == []
    assert play.wait(1) == []
    assert play.wait(1) == [ask]


def test_pods_of_two_namespaces_with_one_id_are_in_two_applications(play: Play) -> None:
    mine = own("p", meta={"labels": {"applicationId": "a"}})
    other = own("q", meta={"labels": {"applicationId": "a"}, "namespace": "other"})
    play.put(mine)
    added, ask = play.all(Put(other))
    assert isinstance(added, AddApplication)
    assert (added.application_id, added.tags["namespace"]) == (app("a", "other"), "other")
    assert isinstance(ask, Ask)
    assert ask.application_id == added.application_id
    play.tell(ApplicationAccepted(app("a")), ApplicationAccepted(app("a", "other")))
    assert play.gone(mine) == [ReleaseAsk(app("a"), "p"), RemoveApplication(app("a"))]
    assert list(play.cluster.model.applications) == [app("a", "other")]


def test_where_ids_are_bare_an_application_of_another_namespace_is_not_joined() -> None:
    play = Play(application_ids=ApplicationIds.BARE)
    play.start()
    mine = own("p", meta={"labels": {"applicationId": "a"}})
    other = own("q", meta={"labels": {"applicationId": "a"}, "namespace": "other"})
    play.put(mine)
    _, event = play.all(Put(other))
    assert isinstance(event, RecordEvent)
    assert event.reason == "ApplicationOfOtherNamespace"
    assert play.all(Put(other)) == []
    effects = play.gone(mine)
    assert [effect.tags["namespace"] for effect in of(effects, AddApplication)] == ["other"]


def test_applications_that_are_shared_have_bare_ids() -> None:
    play = Play(shares_applications=True)
    play.start()
    play.put(own("p", meta={"labels": {"applicationId": "a"}}))
    ask = the_ask(play.put(own("q", meta={"labels": {"applicationId": "a"}, "namespace": "other"})))
    assert ask.application_id == app("a", "")


LONG = "team-" + "a" * 58
UID = "0b6f8d9a-8f7e-4f43-9c1c-0d4f6a2f7d11"


@pytest.mark.parametrize(
    "derived",
    [
        "yunikorn-ns-autogen",
        f"yunikorn-{LONG}-autogen"[:63],
        "podgroup.ns.pg",
        "schedulinggroup.ns.pg",
        f"spark-{UID}",
    ],
)
def test_where_ids_are_bare_nobody_names_a_derived_one_of_another_namespace(derived: str) -> None:
    play = Play(application_ids=ApplicationIds.BARE)
    play.start(node("n"))
    play.put(own("p", meta={"labels": {"applicationId": "spark-uniqueautogen"}, "uid": UID}))
    squatter = own("q", meta={"labels": {"applicationId": derived}, "namespace": "other"})
    _, event = play.all(Put(squatter))
    assert isinstance(event, RecordEvent)
    assert event.reason == "ApplicationOfOtherNamespace"
    assert "needs another application id" in event.note
    assert all(one.id.name != derived or one.namespace == "ns" for one in play.cluster.model.applications.values())
    effects = play.put(placed(squatter, "n"))
    assert of(effects, AddApplication) == [], "with a node either"
    (update,) = of(effects, UpdateNode)
    assert update.occupied is not None
    assert update.existing == ()


def test_an_ask_that_went_with_an_earlier_application_of_its_id_is_repeated(play: Play) -> None:
    ask = the_ask(play.put(own("p")))
    released = AskReleased(ask.application_id, "p")
    assert play.tell(released) == [ask]
    play.gone(own("p"))
    assert play.tell(released) == []


def test_namespace_quotas_go_with_the_application(play: Play) -> None:
    quota = {"yunikorn.apache.org/namespace.maxApps": "2"}
    space = namespace("ns")
    play.put(msgspec.structs.replace(space, metadata=msgspec.structs.replace(space.metadata, annotations=quota)))
    (added,) = of(play.put(own("p")), AddApplication)
    assert added.tags["namespace.resourcemaxapps"] == "2"


def test_nodes_that_come_carry_labels_and_classes(play: Play) -> None:
    attribute = the_ask(play.put(own("p"))).tags[SELECTOR]
    labels = {"zone": "a", "ready": "false", "si/hostname": "x", attribute: "false", "c/other": "true"}
    taint = [{"key": "t", "effect": "NoSchedule"}]
    first, second = play.put(node("m", labels=labels), node("tainted", taints=taint))
    assert isinstance(first, CreateNode)
    assert first.attributes == {"zone": "a", "si/hostname": "m", attribute: "true"}
    assert first.resources == {"vcore": 8000, "memory": 16 << 30, "pods": 110}
    assert isinstance(second, CreateNode)
    refusal = attribute.replace("c/", "c!/")
    assert second.attributes == {
        "si/hostname": "tainted",
        refusal: "taint t:NoSchedule, which the pod does not tolerate",
    }
    (update,) = play.put(node("tainted"))
    assert update == UpdateNode("tainted", attributes={"si/hostname": "tainted", attribute: "true"})
    assert play.put(node("tainted")) == []


@pytest.mark.parametrize("label", ["ready", "hostname", "si/rack", "c/eaae37bf2082bec1"])
def test_labels_that_are_no_attributes_are_judged_by_a_class(play: Play, label: str) -> None:
    play.put(node("m", labels={label: "yes"}))
    effects = play.put(own("p", nodeSelector={label: "yes"}))
    attribute = the_ask(effects).tags[SELECTOR]
    assert attribute.startswith("c/")
    assert attribute != label
    told = {one.name: one.attributes or {} for one in of(effects, UpdateNode)}
    assert attribute in told["m"]
    assert attribute not in told.get("n", {})
    assert play.cluster.predicates("p", "n", allocate=True) is not None
    assert play.allocate("p", "m") == [Bind(PodName("ns", "p", "p"), "m")]


def test_a_condition_that_is_not_about_nodes_names_the_nodes_there_are(play: Play) -> None:
    """It named those of the time at which the pod began to wait."""
    play.all(Put(own("p", volumes=uses("c"))))
    assert messages(play.all(Put(node("n9")))) == []
    (message,) = messages(told_in(play, 15))
    assert message == '0/2 nodes are available: persistentvolumeclaim "c" not found.'
    assert messages(told_in(play, 60)) == []


def told_in(play: Play, seconds: int) -> list[Effect]:
    """What the pods are told in this time."""
    effects = []
    for _ in range(seconds):
        play.now_ns += SECOND_NS
        effects += play.all(Tick())
    return effects


def messages(effects: list[Effect]) -> list[str | None]:
    return [one.message for one in effects if isinstance(one, PatchPodCondition)]


def test_a_pod_waits_for_its_claims(play: Play) -> None:
    pod = own("p", volumes=uses("c"))
    condition, event = play.all(Put(pod))
    assert isinstance(condition, PatchPodCondition)
    assert isinstance(event, RecordEvent)
    assert condition.message == event.note == '0/1 nodes are available: persistentvolumeclaim "c" not found.'
    assert play.all(Put(pod)) == []
    play.put(volume("v"))
    play.wait(5)
    condition, event = play.all(Put(claim("c")))
    assert isinstance(event, RecordEvent)
    assert event.note == "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    assert the_ask(play.put(claim("c", bound_to="v"))).key == "p"


def test_a_pod_waits_for_the_claim_that_is_made_for_its_ephemeral_volume(play: Play) -> None:
    play.put(volume("v"), own("p", volumes=[{"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}]))
    owner = {"ownerReferences": [{"uid": "p", "controller": True}]}
    assert the_ask(play.put(claim("p-e", bound_to="v", meta=owner))).key == "p"


def test_a_priority_class_may_keep_its_pods_from_being_preempted(play: Play) -> None:
    kept = {"metadata": {"name": "kept", "annotations": {"yunikorn.apache.org/allow-preemption": "false"}}}
    priority_class = convert(PriorityClass, kept)
    asks = play.put(priority_class, own("p", priorityClassName="kept"), own("q"))
    assert [one.allow_preempt_self for one in of(asks, Ask)] == [False, True]
    play.gone(priority_class)
    assert the_ask(play.put(own("r", priorityClassName="kept"))).allow_preempt_self


def test_the_secrets_of_images_go_with_the_application(play: Play) -> None:
    (added,) = of(play.put(own("p", imagePullSecrets=[{"name": "a"}, {"name": "b"}])), AddApplication)
    assert added.tags["imagePullSecrets"] == "a,b"


def test_a_claim_that_waits_for_its_first_consumer_keeps_no_pod(play: Play) -> None:
    play.put(claim("c"))
    _, event = play.all(Put(own("p", volumes=uses("c"))))
    assert isinstance(event, RecordEvent)
    assert "unbound immediate" in event.note
    assert play.cluster.model.waiting_for_claims == {("ns", "c"): {"p": None}}
    ask = the_ask(play.put(storage_class()))
    assert PREDICATES not in ask.tags, "other pods and volumes decide"
    play.gone(own("p", volumes=uses("c")))
    assert play.cluster.model.waiting_for_claims == {}


@pytest.mark.parametrize(
    ("respects", "policy", "said"), [(True, None, "preemption"), (False, None, "none"), (True, "Never", "none")]
)
def test_a_pod_that_may_preempt_is_asked_about_before_it_does(respects: bool, policy: str | None, said: str) -> None:
    play = Play(respects_budgets=respects)
    play.start(node("n"))
    assert the_ask(play.put(own("p", preemptionPolicy=policy))).tags[PREDICATES] == said
