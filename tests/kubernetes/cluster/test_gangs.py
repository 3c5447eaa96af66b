"""Gangs in the state machine, event by event."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import (
    CoschedulingPodGroup,
    CoschedulingSpec,
    GangPolicy,
    SchedulingPolicy,
    Workload,
    WorkloadGroup,
    WorkloadSpec,
)
from schedulerd.kubernetes.reasons.waiting import UNANSWERED, Rule, State, Waiting
from tests.kubernetes.builders import JSON, containers, node, placed, terminating
from tests.kubernetes.cluster.play import Play, of, own, the_ask


def member(name: str, members: int = 2, style: str = "Soft", cpu: str = "1", **annotations: str) -> Pod:
    """A pod of the application `a`, with the task group `g` of 1 processor each."""
    group = {"name": "g", "minMember": members, "minResource": {"cpu": "1"}}
    said = {
        "schedulerd.io/task-groups": json.dumps([group]),
        "schedulerd.io/task-group-name": "g",
        "schedulerd.io/schedulingPolicyParameters": f"placeholderTimeoutInSeconds=100 gangSchedulingStyle={style}",
        **{f"schedulerd.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    return own(name, cpu=cpu, meta={"labels": {"applicationId": "a"}, "annotations": said})


def grouped(name: str, cpu: str = "1", at: int = 0, **spec: Any) -> Pod:
    meta: JSON = {
        "labels": {"scheduling.x-k8s.io/pod-group": "pg"},
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }
    return own(name, cpu=cpu, meta=meta, **spec)


def conditions(effects: list[e.Effect]) -> list[tuple[str, str]]:
    """Pods and reasons."""
    return [(one.pod.name, one.reason) for one in of(effects, e.PatchPodCondition) if one.type == "PodScheduled"]


def pod_group(members: int) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(own("pg").metadata, CoschedulingSpec(min_member=members))


def made(effect: e.CreatePod, uid: str = "") -> Pod:
    """The pod as the server has made it."""
    body = json.loads(json.dumps(effect.body))
    body["metadata"]["uid"] = uid or f"{effect.name}!"
    return convert(Pod, body)


def placeholders(play: Play) -> list[Pod]:
    """Starts a gang of two pods, and answers the creations."""
    created = of(play.put(member("w0"), member("w1")), e.CreatePod)
    pods = [made(one) for one in created]
    for one in created:
        assert play.tell(v.CreateEnded("a", one.name, v.CreateResult.DONE)) == []
    return pods


def started(**settings: Any) -> Play:
    play = Play(**settings)
    play.start(node())
    return play


def grouping(*sources: GangSource) -> Play:
    play = Play()
    for source in sources or (GangSource.COSCHEDULING,):
        play.tell(v.GangSourceServed(source))
    play.start(node())
    return play


def the_placeholder(effects: list[e.Effect] | tuple[Any, ...]) -> e.Ask:
    """The first ask of a placeholder."""
    return next(ask for ask in of(effects, e.Ask) if ask.is_placeholder)


def test_real_pods_are_asked_for_when_all_placeholders_are() -> None:
    play = started()
    effects = play.put(member("w0"), member("w1"))
    (added,) = of(effects, e.AddApplication)
    assert added.placeholder_ask == {"vcore": 2000, "pods": 2}
    assert (added.gang_style, added.gang_timeout_s) == ("Soft", 100)
    created = of(effects, e.CreatePod)
    assert len({one.name for one in created}) == 2
    assert of(effects, e.Ask) == []
    first = the_ask(play.put(made(created[0])))
    assert (first.task_group, first.is_placeholder) == ("g", True)
    asks = of(play.put(made(created[1])), e.Ask)
    assert [ask.key for ask in asks] == [f"{created[1].name}!", "w0", "w1"]
    assert [(ask.task_group, ask.is_placeholder, ask.is_originator) for ask in asks[1:]] == [
        ("g", False, True),
        ("g", False, False),
    ]


def test_a_placeholder_is_asked_for_with_the_size_that_the_server_returned() -> None:
    play = started()
    (created, _) = of(play.put(member("w0"), member("w1")), e.CreatePod)
    pod = made(created)
    sidecar = convert(Pod, {"spec": {"containers": containers({"cpu": "1"}, {"cpu": "200m"})}}).spec.containers
    spec = {field: getattr(pod.spec, field) for field in pod.spec.__struct_fields__}
    larger = Pod(pod.metadata, type(pod.spec)(**{**spec, "containers": sidecar}), pod.status)
    assert the_ask(play.put(larger)).resources["vcore"] == 1200


def test_a_placeholder_is_deleted_for_its_pod_and_confirmed_when_it_is_gone() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    play.bind(key, "n")
    bound = placed(pods[0], "n")
    play.put(bound)
    (deleted,) = play.tell(v.ReleaseWanted("a", key, f"u-{key}", v.Cause.REPLACED, ""))
    assert deleted == e.DeletePod(e.PodName("ns", pods[0].metadata.name, key))
    effects = play.gone(terminating(bound))
    assert effects[0] == e.ConfirmRelease(f"u-{key}")
    assert of(effects, e.CreatePod) == []
    assert of(play.wait(300), e.CreatePod) == []
    (bind,) = play.allocate("w0", "n")
    assert isinstance(bind, e.Bind)


def test_a_virtual_swap_needs_no_write() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    asks = of(effects, e.Ask)
    assert [ask.is_placeholder for ask in asks] == [True, True, False, False]
    key = asks[0].key
    assert play.tell(v.Allocated("a", key, "u0", "n")) == []
    assert play.tell(v.ReleaseWanted("a", key, "u0", v.Cause.REPLACED, "")) == [e.ConfirmRelease("u0")]
    assert key not in play.cluster.model.virtual
    assert play.cluster.predicates(asks[1].key, "n", allocate=True) is None
    assert play.cluster.predicates("unknown", "n", allocate=True) is not None


def test_a_refused_creation_is_told_and_tried_again_until_the_time_is_over() -> None:
    play = started()
    created = of(play.put(member("w0"), member("w1")), e.CreatePod)
    play.put(made(created[0]))
    refused = v.CreateEnded("a", created[1].name, v.CreateResult.REFUSED, "exceeded quota")
    effects = play.all(refused)
    (event,) = of(effects, e.RecordEvent)[:1]
    assert (event.reason, event.regarding.name, event.is_warning) == ("PlaceholderCreateFailed", "w0", True)
    assert conditions(effects) == [("w0", "SchedulingSkipped"), ("w1", "SchedulingSkipped")]
    assert all("exceeded quota" in one.message for one in of(effects, e.PatchPodCondition))
    tries, asks = 0, []
    for _ in range(101):
        effects = play.wait(1)
        asks += of(effects, e.Ask)
        for _ in of(effects, e.CreatePod):
            tries += 1
            asks += of(play.tell(refused), e.Ask)
    assert 5 <= tries <= 8
    assert [ask.key for ask in asks] == ["w0", "w1"], "Soft: they go on without the gang"
    assert all(ask.task_group == "g" for ask in asks)


def test_what_has_the_name_of_a_placeholder_is_looked_at() -> None:
    play = started()
    created, other = of(play.put(member("w0"), member("w1")), e.CreatePod)
    ended = made(created)
    ended = Pod(ended.metadata, ended.spec, type(ended.status)(phase="Failed"))
    exists = v.CreateResult.EXISTS
    (deleted,) = play.tell(v.CreateEnded("a", created.name, exists, "", ended))
    assert isinstance(deleted, e.DeletePod)
    assert deleted.pod.uid == ended.metadata.uid
    assert play.tell(v.CreateEnded("a", other.name, exists, "", terminating(made(other)))) == []
    again = of(play.wait(1), e.CreatePod)
    assert [one.name for one in again] == [created.name, other.name]
    foreign = own(created.name)
    effects = play.all(v.CreateEnded("a", created.name, exists, "", foreign))
    assert any("is none of this gang" in one.note for one in of(effects, e.RecordEvent))
    assert of(effects, e.DeletePod) == []
    assert play.tell(v.CreateEnded("a", other.name, exists, "", made(other))) == [], "the watch tells it"
    assert [one.name for one in of(play.wait(5), e.CreatePod)] == [created.name]


def test_an_evicted_placeholder_is_made_again_and_an_ask_stands_in_for_it() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    play.bind(key, "n")
    play.put(placed(pods[0], "n"))
    effects = play.gone(placed(pods[0], "n"))
    standing, released, withdrawn = effects
    assert isinstance(standing, e.Ask)
    assert standing.is_placeholder
    assert isinstance(released, e.ReleaseAllocation)
    assert withdrawn == e.ReleaseAsk("a", key)
    (created,) = of(play.wait(1), e.CreatePod)
    assert created.name == pods[0].metadata.name
    asked, ended = play.put(made(created, "new"))
    assert isinstance(asked, e.Ask)
    assert ended == e.ReleaseAsk("a", standing.key)


def test_an_ask_stands_in_for_a_placeholder_whose_ask_was_rejected() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    (standing,) = play.tell(v.AskRejected("a", key, "no"))
    assert isinstance(standing, e.Ask)
    assert (standing.task_group, standing.is_placeholder) == ("g", True)
    assert play.tell(v.AskRejected("a", standing.key, "no")) == []
    again, ended = play.wait(1)
    assert isinstance(again, e.Ask)
    assert again.key == key
    assert ended == e.ReleaseAsk("a", standing.key)
    play.tell(v.AskRejected("a", key, "no"))
    effects = play.gone(member("w0"), member("w1"))
    assert e.ReleaseAsk("a", standing.key) in effects, "it goes with the gang"


def test_an_ask_stands_in_for_a_virtual_placeholder_that_was_rejected() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    key = next(ask.key for ask in of(effects, e.Ask) if ask.is_placeholder)
    standing, withdrawn = play.tell(v.AskRejected("a", key, "no"))
    assert isinstance(standing, e.Ask)
    assert standing.is_placeholder
    assert withdrawn == e.ReleaseAsk("a", key)
    again, ended = play.wait(1)
    assert isinstance(again, e.Ask)
    assert again.is_placeholder
    assert again.key not in (key, standing.key)
    assert ended == e.ReleaseAsk("a", standing.key)


def test_the_last_pod_takes_all_placeholders_with_it() -> None:
    play = started()
    pods = placeholders(play)
    play.put(pods[0])
    play.gone(member("w1"))
    effects = play.gone(member("w0"))
    assert of(effects, e.DeletePod) == [e.DeletePod(e.PodName("ns", pods[0].metadata.name, pods[0].metadata.uid))]
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication("a")]
    late = play.put(pods[1])
    assert of(late, e.DeletePod) == [e.DeletePod(e.PodName("ns", pods[1].metadata.name, pods[1].metadata.uid))]
    assert of(late, e.Ask) == []


def test_hard_pods_fail_once_and_successors_wait() -> None:
    play = started()
    pods = placeholders_of(play, "Hard")
    effects = fail(play)
    failed = of(effects, e.FailPod)
    assert [one.pod.name for one in failed] == ["w0", "w1"]
    assert {one.reason for one in failed} == {"ResourceReservationTimeout"}
    play.gone(*pods, member("w0", style="Hard"), member("w1", style="Hard"))
    assert play.put(member("x0", style="Hard"), member("x1", style="Hard")) == []
    assert of(play.wait(59), e.AddApplication) == []
    again = play.wait(2)
    assert len(of(again, e.AddApplication)) == 1
    for one in of(again, e.CreatePod):
        play.put(made(one))
    assert of(fail(play), e.FailPod) == [], "only once"
    assert of(play.wait(119), e.AddApplication) == []
    assert len(of(play.wait(2), e.AddApplication)) == 1


def placeholders_of(play: Play, style: str) -> list[Pod]:
    created = of(play.put(member("w0", style=style), member("w1", style=style)), e.CreatePod)
    pods = [made(one) for one in created]
    play.put(*pods)
    return pods


def fail(play: Play) -> list[e.Effect]:
    """The time of the gang is over at the daemon."""
    effects = play.tell(v.ApplicationAccepted("a"), v.ApplicationUpdated("a", "Accepted", ""))
    effects += play.tell(v.ApplicationUpdated("a", "Failing", "no room"))
    return effects + play.tell(v.ApplicationUpdated("a", "Failed", "no room"))


def test_a_soft_gang_that_the_daemon_gives_up_gives_its_placeholders_back() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    play.tell(v.ApplicationAccepted("a"))
    effects = play.tell(v.ApplicationUpdated("a", "Resuming", "no room"))
    assert {one.pod.uid for one in of(effects, e.DeletePod)} == {pod.metadata.uid for pod in pods}
    play.gone(*pods)
    assert of(play.wait(100), e.CreatePod) == [], "and none is made again"


def test_requeued_pods_wait_twice_as_long_each_time() -> None:
    play = started()
    placeholders_of(play, "Requeue")
    seconds = 60
    for _ in range(7):
        effects = fail(play)
        assert of(effects, e.FailPod) == []
        assert len(of(effects, e.DeletePod)) == 2
        for pod in list(play.cluster.model.pods.values()):
            if pod.is_placeholder:
                play.gone(pod.pod)
        assert play.cluster.model.applications["a"].state is ApplicationState.WAITING
        assert of(play.wait(seconds - 1), e.AddApplication) == []
        again = play.wait(2)
        assert len(of(again, e.AddApplication)) == 1
        for one in of(again, e.CreatePod):
            play.put(made(one))
        seconds = min(2 * seconds, 1800)


def test_a_start_adopts_placeholders_and_deletes_others() -> None:
    first = started()
    pods = placeholders(first)
    bound = placed(pods[0], "n")
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}
    bound = Pod(bound.metadata, bound.spec, convert(type(bound.status), status))
    play = Play()
    report = play.start(node(), member("w0"), member("w1"), bound, pods[1])
    (added,) = report.applications
    assert added.placeholder_ask == {"vcore": 2000, "pods": 2}
    assert added.gang_began_s == 1_767_225_660
    ((existing,),) = [one.existing for one in report.nodes]
    assert (existing.task_group, existing.is_placeholder) == ("g", True)
    assert [ask.key for ask in report.asks] == [pods[1].metadata.uid, "w0", "w1"]
    orphan = Play().start(node(), bound, pods[1])
    assert {one.pod.uid for one in of(orphan.others, e.DeletePod)} == {one.metadata.uid for one in pods}
    assert orphan.applications == ()
    assert orphan.nodes[0].occupied["vcore"] == 1000


def test_a_gang_that_ran_before_the_start_makes_no_new_placeholders() -> None:
    play = Play()
    report = play.start(node(), placed(member("w0", members=5), "n"), member("w1", members=5))
    assert of(report.others, e.CreatePod) == []
    assert report.applications[0].placeholder_ask is None
    assert [ask.key for ask in report.asks] == ["w1"]


def test_pods_of_a_group_wait_for_it_and_for_each_other() -> None:
    play = grouping()
    assert play.put(grouped("p0")) == []
    assert of(play.put(pod_group(3)), e.AddApplication) == []
    play.put(grouped("p1", cpu="2"))
    effects = play.put(grouped("p2"), grouped("p3"))
    (added,) = of(effects, e.AddApplication)
    assert added.application_id == "podgroup.ns.pg"
    assert added.placeholder_ask == {"vcore": 4000, "pods": 3}
    assert added.gang_style == "Hard", "what the daemon calls it; the pods do not fail"
    asks = of(effects, e.Ask)
    assert sorted((ask.task_group, ask.resources["vcore"]) for ask in asks if ask.is_placeholder) == [
        ("group-0", 1000),
        ("group-0", 1000),
        ("group-1", 2000),
    ]
    assert {ask.key: ask.task_group for ask in asks if not ask.is_placeholder} == {
        "p0": "group-0",
        "p1": "group-1",
        "p2": "group-0",
        "p3": "group-0",
    }


def test_task_groups_are_those_of_the_first_pods_by_age() -> None:
    play = grouping()
    play.put(pod_group(2))
    effects = play.put(grouped("new", cpu="4", at=3), grouped("old", at=1), grouped("middle", at=2, cpu="2"))
    assert of(effects, e.AddApplication)[0].placeholder_ask == {"vcore": 3000, "pods": 2}
    amounts = [ask.resources["vcore"] for ask in of(effects, e.Ask) if ask.is_placeholder]
    assert sorted(amounts) == [1000, 2000]


def test_after_a_start_only_the_missing_members_are_held_for() -> None:
    play = Play()
    play.tell(v.GangSourceServed(GangSource.COSCHEDULING))
    report = play.start(node(), pod_group(3), placed(grouped("p0"), "n"), grouped("p1"), grouped("p2"), grouped("p3"))
    assert report.applications[0].placeholder_ask == {"vcore": 2000, "pods": 2}
    assert sum(ask.is_placeholder for ask in report.asks) == 2


def test_without_the_custom_resource_the_label_means_nothing() -> None:
    effects = started().put(grouped("p0"))
    assert of(effects, e.AddApplication)[0].placeholder_ask is None
    assert [ask.key for ask in of(effects, e.Ask)] == ["p0"]


def test_a_workload_of_kubernetes_makes_a_gang_of_each_replica() -> None:
    play = grouping(GangSource.KUBERNETES)
    policy = SchedulingPolicy(GangPolicy(min_count=2))
    groups = (WorkloadGroup("workers", policy), WorkloadGroup("single"))
    play.put(Workload(own("w").metadata, WorkloadSpec(groups)))

    def pod(name: str, group: str, replica: str = "") -> Pod:
        return own(name, workloadRef={"name": "w", "podGroup": group, "podGroupReplicaKey": replica})

    assert of(play.put(pod("a0", "workers", "0"), pod("b0", "workers", "1")), e.AddApplication) == []
    (added,) = of(play.put(pod("a1", "workers", "0")), e.AddApplication)
    assert added.placeholder_ask == {"vcore": 2000, "pods": 2}
    (single,) = of(play.put(pod("s", "single")), e.AddApplication)
    assert single.placeholder_ask is None


def test_what_a_virtual_gang_waits_for_shows_on_all_its_pods() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    first, second = (ask.key for ask in of(effects, e.Ask) if ask.is_placeholder)

    def told(key: str, waiting: Waiting) -> list[tuple[str, str]]:
        return conditions(play.all(v.PendingReasonTold("a", key, waiting)))

    quota = Waiting(State.QUOTA_BLOCKED, rule=Rule.QUOTA, queue="root.q", resource="vcore", asked=2000, max=1000)
    assert told(first, quota) == [("w0", "SchedulingSkipped"), ("w1", "SchedulingSkipped")]
    play.wait(11)
    play.tell(v.Allocated("a", second, "u", "n"))
    both = [("w0", "Unschedulable"), ("w1", "Unschedulable")]
    assert told(first, Waiting(State.UNSCHEDULABLE)) == both, "not only as many as are missing"
    play.wait(11)
    assert told("w0", Waiting(State.AWAITING_GANG)) == []
    third = play.all(v.Put(member("w2")))
    assert conditions([*third, *play.all(v.Tick())]) == [("w2", "Unschedulable")]
    play.tell(v.Allocated("a", first, "u1", "n"))
    assert conditions(play.all(v.Tick())) == []
    shown = {uid: own.reason.current for uid, own in play.cluster.model.pods.items()}
    own_reasons = {"w0": Waiting(State.AWAITING_GANG), "w1": UNANSWERED, "w2": None}
    assert shown == own_reasons, "each its own again"


def test_a_member_or_placeholder_that_is_resized_stays_in_its_task_group() -> None:
    play = started()
    (pod, other) = placeholders(play)
    play.put(pod, other)
    for one in (pod, other):
        play.bind(one.metadata.uid, "n")
    larger = msgspec.structs.replace(placed(pod, "n").spec, containers=own("x", cpu="2").spec.containers)
    ask = the_ask(play.put(msgspec.structs.replace(pod, spec=larger)))
    assert (ask.key, ask.task_group, ask.is_placeholder, ask.resources["vcore"]) == (pod.metadata.uid, "g", True, 2000)
    play.bind("w0", "n")
    ask = the_ask(play.put(placed(member("w0", cpu="3"), "n")))
    assert (ask.key, ask.task_group, ask.is_placeholder, ask.resources["vcore"]) == ("w0", "g", False, 3000)


def test_a_member_of_a_pod_group_that_is_resized_stays_in_its_task_group() -> None:
    play = grouping(GangSource.COSCHEDULING)
    play.put(node("n", cpu="8"), pod_group(2))
    effects = play.put(grouped("w0"), grouped("w1", at=1))
    for ask in of(effects, e.Ask):
        if ask.is_placeholder:
            play.tell(v.Allocated(ask.application_id, ask.key, f"u-{ask.key}", "n"))
    group = next(ask.task_group for ask in of(effects, e.Ask) if ask.key == "w0")
    assert group
    play.bind("w0", "n")
    ask = the_ask(play.put(placed(grouped("w0", cpu="3"), "n")))
    assert (ask.key, ask.task_group, ask.is_placeholder, ask.resources["vcore"]) == ("w0", group, False, 3000)


def test_a_new_daemon_is_told_what_is_left_of_the_time() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    first, second = (ask.key for ask in of(effects, e.Ask) if ask.is_placeholder)
    assert play.cluster.gang_time("a") is None
    play.wait(7)
    play.tell(v.Allocated("a", first, "u", "n"))
    known = play.cluster.gang_time("a")
    assert known is not None
    assert (known.whole_s, known.began_ns) == (100, 7_000_000_000)
    play.tell(v.Allocated("a", second, "u1", "n"))
    assert play.cluster.gang_time("a") is None, "it is complete"
    assert play.cluster.gang_time("other") is None


def test_the_time_of_a_virtual_gang_begins_anew_with_a_new_shim() -> None:
    """Its placeholders end with the shim, so its time begins with the first one of the next shim."""
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    play.tell(v.Allocated("a", the_placeholder(effects).key, "u", "n"))
    play.wait(60)
    later = Play()
    later.now_ns = play.now_ns
    report = later.start(node(), member("w0", placeholders="virtual"), member("w1"))
    assert (report.applications[0].gang_timeout_s, report.applications[0].gang_began_s) == (100, 0)
    assert later.cluster.gang_time("a") is None
    later.tell(v.Allocated("a", the_placeholder(report.asks).key, "u", "n"))
    known = later.cluster.gang_time("a")
    assert known is not None
    assert known.began_ns == play.now_ns


def test_a_virtual_placeholder_that_gives_way_is_asked_for_anew_before_it_is_confirmed() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    key = next(ask.key for ask in of(effects, e.Ask) if ask.is_placeholder)
    play.tell(v.Allocated("a", key, "u", "n"))
    again, confirmed, withdrawn = play.tell(v.ReleaseWanted("a", key, "u", v.Cause.TIMEOUT, "gives way"))
    assert isinstance(again, e.Ask)
    assert again.key != key
    assert (confirmed, withdrawn) == (e.ConfirmRelease("u"), e.ReleaseAsk("a", key))
    play.tell(v.Allocated("a", again.key, "u2", "n"))
    assert play.tell(v.AskTimedOut("a", again.key)) == []
    assert play.tell(v.ReleaseWanted("a", again.key, "u2", v.Cause.TIMEOUT, ""))[0] == e.ConfirmRelease("u2")
    assert again.key not in play.cluster.model.virtual


def test_unusable_task_groups_run_or_wait() -> None:
    play = started()
    unusable = {"schedulerd.io/task-groups": "[]"}
    effects = play.all(v.Put(own("runs", meta={"annotations": unusable})))
    assert [ask.key for ask in of(effects, e.Ask)] == ["runs"]
    assert [one.reason for one in of(effects, e.RecordEvent)] == ["TaskGroupsError"]
    assert [one.type for one in of(effects, e.PatchPodCondition)] == ["schedulerd.io/Gang"]
    unusable["schedulerd.io/on-invalid-gang"] = "fail"
    effects = play.all(v.Put(own("waits", meta={"annotations": unusable})))
    assert of(effects, e.Ask) == []
    assert {one.type for one in of(effects, e.PatchPodCondition)} == {"schedulerd.io/Gang", "PodScheduled"}


def test_task_groups_that_come_too_late_are_told() -> None:
    play = started()
    play.put(own("first", meta={"labels": {"applicationId": "a"}}))
    effects = play.all(v.Put(member("w0")))
    assert [ask.task_group for ask in of(effects, e.Ask)] == [""]
    (event,) = of(effects, e.RecordEvent)
    assert (event.reason, event.is_warning) == ("TaskGroupsError", True)


def test_a_gang_that_the_daemon_rejects_waits_with_its_reason() -> None:
    play = started()
    created = of(play.put(member("w0"), member("w1")), e.CreatePod)
    effects = play.all(v.ApplicationRejected("a", "the gang could never be placed"))
    assert [(one.regarding.name, one.reason) for one in of(effects, e.RecordEvent)] == [
        ("w0", "ApplicationRejected"),
        ("w1", "ApplicationRejected"),
    ]
    (deleted,) = of(play.put(made(created[0])), e.DeletePod)
    assert deleted.pod.name == created[0].name
    assert len(of(play.wait(61), e.AddApplication)) == 1


def test_real_pods_wait_again_when_their_application_has_completed() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"), member("w1"))
    play.tell(v.ApplicationAccepted("a"), v.ApplicationUpdated("a", "Running", ""))
    keys = [ask.key for ask in of(effects, e.Ask) if ask.is_placeholder]
    effects = play.tell(v.ApplicationUpdated("a", "Completed", ""))
    assert [one.key for one in of(effects, e.ReleaseAsk)] == ["w0", "w1", *keys], "they may be under way"
    assert of(effects, e.AddApplication) == of(play.wait(0.9), e.AddApplication) == [], "it could overtake them"
    effects = play.wait(0.1)
    assert isinstance(effects[0], e.AddApplication)
    assert [one.key for one in of(effects, e.Ask)] == [*keys, "w0", "w1"]


def test_an_application_that_has_completed_is_added_at_once_if_a_pod_of_it_runs() -> None:
    play = started()
    play.put(member("w0", placeholders="virtual"))
    play.tell(v.ApplicationAccepted("a"), v.ApplicationUpdated("a", "Running", ""))
    play.put(placed(member("w0", placeholders="virtual"), "n"))
    play.put(member("w1", placeholders="virtual"))
    effects = play.tell(v.ApplicationUpdated("a", "Completed", ""))
    assert of(effects, e.ReleaseAsk)
    assert len(of(effects, e.AddApplication)) == 1


def test_a_member_that_runs_is_reported_when_its_application_is_added_again() -> None:
    play = started()
    play.put(placed(member("w0"), "n"))
    play.tell(v.ApplicationRejected("a", "no queue"))
    play.tell(v.NodeRejected("n", "existingAllocations[0] (allocationKey 'w0'): no application"))
    effects = play.wait(60)
    (added,) = of(effects, e.AddApplication)
    (update,) = [one for one in of(effects, e.UpdateNode) if one.existing][-1:]
    assert added.tags["application.create.force"] == "true"
    assert [(one.key, one.task_group, one.is_placeholder) for one in update.existing] == [("w0", "g", False)]


def test_virtual_placeholders_end_with_an_application_that_has_not_started() -> None:
    play = started()
    effects = play.put(member("w0", placeholders="virtual"))
    keys = {ask.key for ask in of(effects, e.Ask)}
    effects = play.gone(member("w0"))
    assert {one.key for one in of(effects, e.ReleaseAsk)} == keys, "they may come after the next one of its id"
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication("a")]
    assert play.cluster.model.virtual == {}


def test_a_new_daemon_is_told_to_forget_what_only_has_placeholders_left() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    play.tell(v.ApplicationAccepted("a"), v.ApplicationUpdated("a", "Accepted", ""))
    for pod in pods:
        play.bind(pod.metadata.uid, "n")
        play.put(placed(pod, "n"))
    deleted = of(play.gone(member("w0"), member("w1")), e.DeletePod)
    assert len(deleted) == 2
    assert play.tell(v.Resynced()) == []
    effects = play.gone(*(placed(pod, "n") for pod in pods))
    assert effects[-1] == e.RemoveApplication("a")
    assert play.cluster.model.applications == {}


def test_a_placeholder_that_cannot_be_bound_does_not_make_its_gang_complete() -> None:
    play = started()
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    play.allocate(key, "n")
    standing, released, asked, ended = play.tell(v.BindEnded(key, "n", v.BindResult.FAILED, "no"))
    assert isinstance(standing, e.Ask)
    assert standing.is_placeholder
    assert standing.key != key
    assert isinstance(released, e.ReleaseAllocation)
    assert isinstance(asked, e.Ask)
    assert asked.key == key
    assert ended == e.ReleaseAsk("a", standing.key)
