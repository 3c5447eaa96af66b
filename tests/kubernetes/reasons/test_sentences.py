"""What a user reads, story by story."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from schedulerd.amounts import amount_text
from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.events import Allocated, ApplicationRejected, AskRejected, Gone, Put
from schedulerd.kubernetes.objects.pod import PodCondition, PodStatus
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from schedulerd.sentences.applications import names_no_queue
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


def test_a_pod_that_is_larger_than_every_node_is_told_so() -> None:
    reader = Reader()
    reader.start(*(node(f"n{number}", cpu=cpu) for number, cpu in enumerate(("2", "4", "4"))))
    reader.pod(cpu="16")
    reader.say("p", FAILED)
    assert reader.told() == ("Unschedulable", "No node can ever fit 16 cpu; the largest has 4.")


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


def test_a_quota_is_said_without_nodes_which_are_not_the_cause(reader: Reader) -> None:
    reader.pod()
    full = Waiting(State.QUOTA_BLOCKED, True, Rule.QUOTA, "root.small", "vcore", used=2000, asked=1000, max=2000)
    reader.say("p", full)
    text = "Queue root.small is at its quota: 2 of 2 cpu used, 1 more asked. Nodes are not the cause."
    assert reader.told() == ("SchedulingSkipped", text)
    assert reader.last_event() == ("SchedulingSkipped", text)


def test_nodes_are_not_cleared_where_none_has_room_for_a_pod_above_a_quota(reader: Reader) -> None:
    reader.pod(cpu="2")
    reader.say("p", Waiting(State.QUOTA_BLOCKED, True, Rule.QUOTA, "root.small", "vcore", 2000, 0, 2000, 2000))
    assert reader.told()[1] == "Queue root.small is at its quota: 2 of 2 cpu used, 2 more asked."


GIB = 1 << 30


def gang(state: str, asked: int, waits: State = State.AWAITING_GANG) -> Waiting:
    return Waiting(waits, True, gang_state=state, with_room=2, needed=12, members_asked=asked)


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
        "queue root.a is at its quota: 1Gi of 1Gi memory used, 512Mi reserved for others, 1Gi more asked",
    ),
    (
        Waiting(State.QUOTA_BLOCKED, True, Rule.GANG_QUOTA, "root.a", "a/b", 1, 2, 3, 4),
        "queue root.a would be above its quota with the whole gang: 1 of 4 a/b used, 2 promised to gangs, 3 more asked",
    ),
    (
        Waiting(State.MAX_APPLICATIONS_BLOCKED, True, Rule.MAX_APPLICATIONS, "root.a", used=2, asked=1, max=2),
        "queue root.a runs 2 of at most 2 applications",
    ),
    (
        Waiting(State.USER_LIMIT_BLOCKED, True, Rule.LIMIT, "root.a", "vcore", 0, 0, 1500, 1000, "ann"),
        "user 'ann' would be above its limit in queue root.a: 0 of 1 cpu used, 1500m more asked",
    ),
    (
        Waiting(State.USER_LIMIT_BLOCKED, True, Rule.GANG_LIMIT, "root", "a", 1, 2, 3, 4, "x"),
        (
            "user 'x' would be above its limit in queue root with the whole gang: "
            "1 of 4 a used, 2 promised to gangs, 3 more asked"
        ),
    ),
    (
        Waiting(State.MAX_APPLICATIONS_BLOCKED, True, Rule.LIMIT_MAX_APPLICATIONS, "root.a", "", 2, 0, 1, 2, "x", True),
        "group 'x' runs 2 of at most 2 applications in queue root.a",
    ),
    (Waiting(State.READY, queue="root.a", ahead=12), "12 pods are ahead of it in queue root.a"),
    (Waiting(State.READY, queue="root.a", ahead=1), "1 pod is ahead of it in queue root.a"),
    (Waiting(State.READY, queue="root.a"), "it is next in queue root.a"),
    (
        Waiting(State.UNSCHEDULABLE, True, queue="root.a", ahead=4),
        (
            "quotas and limits have room only for asks before it, which fit on no node "
            "(4 pods are ahead of it in queue root.a)"
        ),
    ),
    (Waiting(State.AWAITING_GANG, True), "gang: not all of it has room yet"),
    (gang("forming", asked=8), "its gang: 8 of 12 members are asked for"),
    (
        gang("forming", asked=12),
        "its gang: its time was over before all of it had room, and it gathers again later",
    ),
    (gang("gathering", asked=12), "its gang: 2 of 12 have room"),
    (gang("complete", asked=12), "its task group has as many members as it may have"),
    (
        Waiting(State.AWAITING_GANG, True, awaited_application="other"),
        "the gang of application other came earlier and is placed first",
    ),
    (Waiting(State.AWAITING_PLACEHOLDER), "it gets the room of a placeholder, which is being released"),
    (
        Waiting(State.APPLICATION_INACTIVE, True, queue="root.a", inactive="Accepted", awaited_application="one"),
        "its queue starts one application at a time: application one has to start first",
    ),
    (
        Waiting(State.APPLICATION_INACTIVE, True, queue="root.a", inactive="Accepted"),
        "its queue starts one application at a time: another application has to start first",
    ),
    (
        Waiting(State.APPLICATION_INACTIVE, True, inactive="Failing"),
        "its application is Failing: nothing is placed in that state",
    ),
    (
        Waiting(State.RESERVED, node="n1", victims=2),
        "n1 is kept for it, where 2 preempted allocations have to end first",
    ),
    (Waiting(State.UNANSWERED), "waiting for the scheduler to look at it"),
]
"""Each kind of reason that more nodes would not change."""


def test_a_pod_that_nodes_refuse_says_how_far_its_gang_is(reader: Reader) -> None:
    reader.pod(cpu="2")
    reader.say("p", replace(FAILED, gang_state="gathering", with_room=2, needed=12))
    refused = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s)."
    assert reader.told() == ("Unschedulable", f"{refused} Its gang: 2 of 12 have room.")


@pytest.mark.parametrize(("waiting", "why"), EXAMPLES)
def test_whatever_more_nodes_would_not_help_is_skipped(reader: Reader, waiting: Waiting, why: str) -> None:
    reader.pod()
    reader.say("p", waiting)
    if waiting.state is not State.RESERVED:
        why = why[0].upper() + why[1:]
    why += "." if waiting.rule is None else ". Nodes are not the cause."
    assert reader.told() == ("SchedulingSkipped", why)
    assert reader.last_event()[0] == "SchedulingSkipped"


def test_reserved_room_without_victims_is_unschedulable(reader: Reader) -> None:
    reader.pod(cpu="2")
    reader.say("p", Waiting(State.RESERVED, node="s0"))
    reason, message = reader.told()
    assert reason == "Unschedulable"
    assert message == (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). s0 is kept for it."
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


@pytest.mark.parametrize(
    ("label", "reason", "text"),
    [
        ("", names_no_queue("root.free"), "The pod names no queue. Set the label queue, such as root.free."),
        ("", names_no_queue(""), "The pod names no queue. Set the label queue."),
        ("q", "queue root.q does not exist", "Queue root.q does not exist. Correct its label queue."),
        ("", "queue root.q is full", "Queue root.q is full."),
    ],
)
def test_a_rejected_application_is_told_to_all_its_pods(reader: Reader, label: str, reason: str, text: str) -> None:
    meta = {"labels": {"queue": label}} if label else {}
    reader.pod("p", meta=meta)
    reader.all(ApplicationRejected(APP, reason))
    reader.pod("q", meta=meta)
    for name in "pq":
        assert reader.told(name) == ("SchedulingSkipped", text)
        assert reader.last_event(name) == ("ApplicationRejected", text)


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
    assert reader.told()[1] == "Waiting for the scheduler to look at it."
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
    text = "No node can ever fit 2 cpu; the largest has 1."
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
