"""What a user reads, story by story."""

from __future__ import annotations

import msgspec
import pytest

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.events import Allocated, ApplicationRejected, AskRejected, Gone, Put
from schedulerd.kubernetes.objects.pod import PodCondition, PodStatus
from schedulerd.kubernetes.reasons.amounts import amount_text
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from tests.kubernetes.builders import app, bound, containers, daemon_set, for_node, node, owned_by_daemon_set
from tests.kubernetes.cluster.play import own
from tests.kubernetes.reasons.reader import FAILED, Reader
from tests.loops import each_row

APP = app("yunikorn-ns-autogen")
TAINTED = [{"key": "t", "effect": "NoSchedule"}]


@pytest.fixture
def reader() -> Reader:
    """A cluster of 5 nodes: 2 with 1 processor, 3 with a taint."""
    reader = Reader()
    small = [node(f"s{number}", cpu="1") for number in range(2)]
    tainted = [node(f"t{number}", taints=TAINTED) for number in range(3)]
    reader.start(*small, *tainted)
    return reader


def test_nodes_that_refuse_a_pod_are_counted_in_the_words_of_kube_scheduler(reader: Reader) -> None:
    reader.pod(cpu="2")
    reader.say("p", FAILED)
    text = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s)."
    assert reader.told() == ("Unschedulable", text)
    assert reader.last_event() == ("FailedScheduling", text)
    assert reader.events["p"][-1].is_warning


def test_an_empty_node_group_is_unschedulable_too(reader: Reader) -> None:
    reader.pod(nodeSelector={"group": "gpu"}, tolerations=[{"operator": "Exists"}])
    reader.say("p", FAILED)
    text = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector."
    assert reader.told() == ("Unschedulable", text)


def test_a_cluster_without_nodes_says_so() -> None:
    reader = Reader()
    reader.start()
    reader.pod()
    reader.say("p", FAILED)
    assert reader.told() == ("Unschedulable", "no nodes available to schedule pods")


def test_nodes_that_others_have_reserved_are_none_that_refuse(reader: Reader) -> None:
    reader.pod(cpu="1")
    reader.say("p", FAILED)
    assert reader.told()[1] == (
        "0/5 nodes are available: 2 node(s) had room only for other pods, 3 node(s) had untolerated taint(s)."
    )


def test_a_quota_is_said_in_units_of_kubernetes(reader: Reader) -> None:
    reader.pod()
    reader.say("p", Waiting(State.QUOTA_BLOCKED, True, Rule.QUOTA, "root.a", "vcore", used=3500, asked=1000, max=4000))
    text = "0/5 nodes are available: quota of queue root.a: cpu 3500m used + 1 asked is more than max 4."
    assert reader.told() == ("SchedulingSkipped", text)
    assert reader.last_event() == ("SchedulingSkipped", text)


GIB = 1 << 30


EXAMPLES: list[tuple[Waiting, str]] = [
    (
        Waiting(
            State.QUOTA_BLOCKED,
            True,
            Rule.QUOTA,
            "root.a",
            "memory",
            used=GIB,
            promised=GIB // 2,
            asked=GIB,
            max=GIB,
        ),
        "quota of queue root.a: memory 1Gi used + 512Mi reserved for others + 1Gi asked is more than max 1Gi",
    ),
    (
        Waiting(State.QUOTA_BLOCKED, True, Rule.GANG_QUOTA, "root.a", "a/b", 1, 2, 3, 4),
        "quota of queue root.a: a/b 1 used + 2 promised to gangs + 3 for the whole gang is more than max 4",
    ),
    (
        Waiting(State.MAX_APPLICATIONS_BLOCKED, True, Rule.MAX_APPLICATIONS, "root.a", used=2, asked=1, max=2),
        "queue root.a runs 2 applications, its maxapplications is 2",
    ),
    (
        Waiting(State.USER_LIMIT_BLOCKED, True, Rule.LIMIT, "root.a", "vcore", 0, 0, 1500, 1000, "ann"),
        "limit of user 'ann' in root.a: cpu 0 used + 1500m asked is more than maxresources 1",
    ),
    (
        Waiting(State.USER_LIMIT_BLOCKED, True, Rule.GANG_LIMIT, "root", "a", 1, 2, 3, 4, "x"),
        "limit of user 'x' in root: a 1 used + 2 promised to gangs + 3 for the whole gang is more than maxresources 4",
    ),
    (
        Waiting(State.MAX_APPLICATIONS_BLOCKED, True, Rule.LIMIT_MAX_APPLICATIONS, "root.a", "", 2, 0, 1, 2, "x", True),
        "limit of group 'x' in root.a: 2 applications run, maxapplications is 2",
    ),
    (Waiting(State.READY, queue="root.a", ahead=12), "12 pods are ahead of it in queue root.a"),
    (Waiting(State.READY, queue="root.a", ahead=1), "1 pod is ahead of it in queue root.a"),
    (Waiting(State.READY, queue="root.a"), "next in queue root.a"),
    (
        Waiting(State.UNSCHEDULABLE, True, queue="root.a", ahead=4),
        "quotas and limits have room only for pods before it, which fit on no node (4 pods are ahead of it)",
    ),
    (Waiting(State.AWAITING_GANG, True), "waiting for the placeholders of its gang to be placed"),
    (
        Waiting(State.AWAITING_GANG, True, awaited_application="other"),
        "the gang of application other came earlier and is placed first",
    ),
    (Waiting(State.AWAITING_PLACEHOLDER), "waiting for a placeholder to end, whose room it gets"),
    (
        Waiting(State.APPLICATION_INACTIVE, True, queue="root.a", inactive="Accepted", awaited_application="one"),
        (
            "application one has to start first, as queue root.a starts one application at a time: "
            "the next one may start when one runs or has been blocked for stateaware.timeout"
        ),
    ),
    (
        Waiting(State.APPLICATION_INACTIVE, True, queue="root.a", inactive="Accepted"),
        "another application of queue root.a has to start first",
    ),
    (
        Waiting(State.APPLICATION_INACTIVE, True, inactive="Failing"),
        "its application is Failing, and pods are not placed in that state",
    ),
    (
        Waiting(State.RESERVED, node="n1", victims=2),
        "room is reserved on node n1, where 2 preempted pods have to end first",
    ),
    (Waiting(State.UNANSWERED), "waiting for the scheduler to look at it"),
]
"""Each kind of reason that more nodes would not change."""


@pytest.mark.parametrize(("waiting", "why"), EXAMPLES)
def test_whatever_more_nodes_would_not_help_is_skipped(reader: Reader, waiting: Waiting, why: str) -> None:
    reader.pod()
    reader.say("p", waiting)
    assert reader.told() == ("SchedulingSkipped", f"0/5 nodes are available: {why}.")
    assert reader.last_event()[0] == "SchedulingSkipped"


def test_reserved_room_without_victims_is_unschedulable(reader: Reader) -> None:
    reader.pod(cpu="2")
    reader.say("p", Waiting(State.RESERVED, node="s0"))
    reason, message = reader.told()
    assert reason == "Unschedulable"
    assert message == (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). "
        "Room is reserved for the pod on node s0."
    )


def test_a_node_that_predicates_refuse_is_counted_with_their_word(reader: Reader) -> None:
    port = containers({"cpu": "1"})
    port[0]["ports"] = [{"hostPort": 80}]
    reader.put(bound("foreign", "s0", containers=port))
    reader.pod(containers=port)
    reader.say("p", Waiting(State.PREDICATE_FAILED))
    reason, message = reader.told()
    assert reason == "Unschedulable"
    assert message == (
        "0/5 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, "
        "1 node(s) had room only for other pods, 3 node(s) had untolerated taint(s)."
    )


def test_a_missing_claim_is_no_reason_for_more_nodes(reader: Reader) -> None:
    reader.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    text = '0/5 nodes are available: persistentvolumeclaim "data" not found.'
    assert reader.told() == ("SchedulingSkipped", text)
    assert reader.last_event() == ("FailedScheduling", text)


def test_claims_on_devices_are_refused_with_an_event_that_says_so(reader: Reader) -> None:
    reader.pod(resourceClaims=[{"name": "gpu"}])
    text = "0/5 nodes are available: pod has resource claims, which schedulerd does not support."
    assert reader.told() == ("SchedulingSkipped", text)
    assert reader.last_event() == ("FailedScheduling", text)


def test_of_a_pod_with_gates_the_api_server_says_it(reader: Reader) -> None:
    reader.pod(schedulingGates=[{"name": "g"}])
    reader.pass_time(3_600)
    assert reader.writes == []


def test_a_rejected_application_is_said_in_the_words_of_the_daemon_also_to_later_pods(reader: Reader) -> None:
    reader.pod("p")
    reader.all(ApplicationRejected(APP, "queue root.q does not exist"))
    reader.pod("q")
    for name in "pq":
        assert reader.told(name) == ("SchedulingSkipped", "queue root.q does not exist")
        assert reader.last_event(name) == ("ApplicationRejected", "queue root.q does not exist")


def test_a_rejected_ask_is_said_until_it_is_taken(reader: Reader) -> None:
    reader.pod()
    reader.all(AskRejected(APP, "p", "too large"))
    assert reader.told() == ("SchedulingSkipped", "the ask was rejected: too large")
    assert reader.last_event()[0] == "TaskRejected"
    reader.pass_time(5)
    reader.say("p", FAILED)
    assert reader.told()[0] == "Unschedulable"


def test_a_pod_of_a_daemon_set_has_an_event_only_and_one_node_is_judged(reader: Reader) -> None:
    reader.all(Put(daemon_set()))
    reader.pod(cpu="2", meta=owned_by_daemon_set(), affinity=for_node("s0"))
    reader.say("p", FAILED)
    assert reader.last_event() == (
        "FailedScheduling",
        "0/5 nodes are available: 1 Insufficient cpu, 4 node(s) didn't match Pod's node affinity/selector.",
    )
    assert reader.conditions == {}
    assert reader.cluster.model.reasons.counts.nodes_judged == 1


def test_a_pod_of_which_nothing_is_said_does_not_stay_without_a_word(reader: Reader) -> None:
    reader.pod()
    reader.pass_time(9)
    assert reader.writes == []
    reader.pass_time(2)
    assert reader.told()[1] == "0/5 nodes are available: waiting for the scheduler to look at it."
    reader.say("p", FAILED)
    reader.pass_time(4)
    assert reader.told()[0] == "Unschedulable"


def test_a_pod_that_is_placed_in_time_needs_no_word(reader: Reader) -> None:
    reader.pod()
    reader.all(Allocated(APP, "p", "u", "s0"))
    reader.pass_time(3_600)
    assert reader.writes == []


def test_all_pods_of_a_gang_can_carry_one_reason(reader: Reader) -> None:
    for name in "pqr":
        reader.pod(name, cpu="2")
        reader.say(name, Waiting(State.AWAITING_GANG, True))
    reader.pass_time(5)
    pods = [reader.cluster.model.pods[name] for name in "pqr"]
    conditions.share(reader.cluster.model, pods, FAILED)
    reader.pass_time(1)
    assert {reader.told(name)[0] for name in "pqr"} == {"Unschedulable"}
    reader.pass_time(5)
    conditions.share(reader.cluster.model, pods, None)
    reader.pass_time(1)
    assert {reader.told(name)[0] for name in "pqr"} == {"SchedulingSkipped"}


def test_after_a_restart_a_condition_that_is_there_is_not_written_again() -> None:
    text = "0/1 nodes are available: 1 Insufficient cpu."
    there = PodStatus(conditions=(PodCondition("PodScheduled", "False", "Unschedulable", text),))
    reader = Reader()
    reader.start(node("n", cpu="1"), msgspec.structs.replace(own("p", cpu="2"), status=there))
    reader.say("p", FAILED)
    reader.pass_time(1)
    assert reader.conditions == {}
    assert reader.last_event() == ("FailedScheduling", text), "of the events nobody knows"


def test_a_pod_that_is_gone_is_not_written_about(reader: Reader) -> None:
    for name in "pq":
        reader.pod(name, cpu="2")
    reader.say("p", FAILED)
    reader.all(Gone(own("q", cpu="2")))
    reader.pass_time(3_600)
    assert {uid for _, _, uid in reader.writes} == {"p"}


@each_row(
    ("name", "amount", "text"),
    [
        ("vcore", 500, "500m"),
        ("vcore", 0, "0"),
        ("memory", 0, "0"),
        ("memory", 1000, "1000"),
        ("memory", 1536 << 20, "1536Mi"),
        ("ephemeral-storage", 5 << 40, "5Ti"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("pods", 110, "110"),
    ],
)
def test_amounts(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text
