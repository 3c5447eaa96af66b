"""Pods whose claims wait for them: volumes are chosen, written and waited for before the pod is bound."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Bind,
    BindVolume,
    ClaimName,
    ConfirmRelease,
    DeletePod,
    Effect,
    PatchPodCondition,
    PodName,
    RecordEvent,
    ReleaseAllocation,
    SelectNode,
)
from schedulerd.kubernetes.cluster.events import (
    AllocationReleased,
    BindEnded,
    BindResult,
    Cause,
    Gone,
    Put,
    ReleaseWanted,
    VolumeResult,
    VolumeWritten,
)
from schedulerd.kubernetes.cluster.model import PodState
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from schedulerd.kubernetes.predicates.storage import BOUND_ANNOTATION, SELECTED_NODE_ANNOTATION
from tests.kubernetes.builders import node, placed, terminating
from tests.kubernetes.cluster.play import Play, of, own, the_ask
from tests.kubernetes.storage_builders import claim, storage_class, uses, volume

APP = "yunikorn-ns-autogen"
DRIVER = "disks.example.com"
SELECTOR = "schedulerd.io/node-selector"
P, Q = PodName("ns", "p", "p"), PodName("ns", "q", "q")


def pv(name: str = "v", version: str = "10", promised_to: str = "", uid: str = "", **more: Any) -> PersistentVolume:
    if promised_to:
        more["claimRef"] = {"namespace": "ns", "name": promised_to, "uid": uid or f"uid of {promised_to}"}
    return volume(name, meta={"uid": f"uid of {name}", "resourceVersion": version}, **more)


def pvc(
    name: str = "c", version: str = "20", bound_to: str = "", selected: str = "", **more: Any
) -> PersistentVolumeClaim:
    annotations = {BOUND_ANNOTATION: "yes"} if bound_to else {}
    if selected:
        annotations[SELECTED_NODE_ANNOTATION] = selected
    return claim(name, bound_to, meta={"resourceVersion": version, "annotations": annotations}, **more)


def on(name: str) -> object:
    return node(name, {"disk": name})


def reads(name: str = "p", *claims: str) -> Any:
    return own(name, volumes=uses(*(claims or ("c",))))


def volume_written(
    name: str = "v", result: VolumeResult = VolumeResult.DONE, version: str = "11", attempt: int = 1, key: str = "p"
) -> VolumeWritten:
    return VolumeWritten(key, attempt, WriteKey(Written.VOLUME, name), result, "no", version)


def claim_written(
    name: str = "c", result: VolumeResult = VolumeResult.DONE, version: str = "21", attempt: int = 1
) -> VolumeWritten:
    return VolumeWritten("p", attempt, WriteKey(Written.CLAIM, name), result, "no", version)


@pytest.fixture
def static() -> Play:
    """Two nodes, and a claim for which only volumes that exist will do."""
    play = Play()
    play.start(on("n"), on("m"), storage_class(provisioner="kubernetes.io/no-provisioner"), pvc())
    return play


@pytest.fixture
def dynamic() -> Play:
    """Two nodes, and a claim for which a driver makes volumes."""
    play = Play()
    play.start(on("n"), on("m"), storage_class(provisioner=DRIVER), pvc())
    return play


def nothing_is_kept(play: Play) -> bool:
    model = play.cluster.model
    return not model.awaiting_volumes and not len(model.view.storage.reservations)


def failed(effects: list[Effect], message: str, uuid: str = "u-p") -> None:
    """The allocation was given back, and the pod is not asked for at once."""
    release, *others = effects
    assert isinstance(release, ReleaseAllocation)
    assert release.uuid == uuid
    assert message in release.message
    assert of(others, Ask) == []


# --- volumes that exist


def test_a_volume_is_promised_before_the_pod_is_bound(static: Play) -> None:
    static.put(pv(), reads())
    (write,) = static.allocate("p", "n")
    claimed = ClaimName("ns", "c", "uid of c", "20")
    assert write == BindVolume(P, 1, "v", "uid of v", "10", claimed, was_promised=False)
    assert static.tell(volume_written()) == []
    assert static.put(pv(version="11", promised_to="c")) == []
    assert static.put(pvc(version="21", bound_to="v")) == [Bind(P, "n")]
    assert nothing_is_kept(static)
    assert static.tell(BindEnded("p", "n", BindResult.DONE)) == []


def test_people_are_told_what_the_pod_waits_for(static: Play) -> None:
    static.put(pv(), reads())
    (application,) = static.cluster.model.applications
    assert application == APP
    from schedulerd.kubernetes.cluster.events import Allocated

    event, _ = static.all(Allocated(APP, "p", "u-p", "n"))
    assert isinstance(event, RecordEvent)
    assert (event.reason, event.note) == ("WaitingForVolumes", "node n: waits for the volumes of c")


@pytest.mark.parametrize("is_claim_first", [False, True])
def test_there_is_no_order_between_volumes_and_claims(static: Play, is_claim_first: bool) -> None:
    static.put(pv(), reads())
    static.allocate("p", "n")
    told = [Put(pv(version="11", promised_to="c")), Put(pvc(version="21", bound_to="v"))]
    first, last = reversed(told) if is_claim_first else told
    assert static.tell(first) == []
    assert static.tell(last) == [], "the answer is still under way"
    assert static.tell(volume_written()) == [Bind(P, "n")]


def test_an_older_volume_says_nothing(static: Play) -> None:
    static.put(pv(), reads())
    static.allocate("p", "n")
    assert static.tell(volume_written()) == []
    assert static.put(pv(version="10")) == []
    assert static.put(pv(version="12"))[0] == ReleaseAllocation(
        APP, "p", "u-p", 'node n: persistentvolume "v" was taken from persistentvolumeclaim "c"'
    )


def test_a_volume_that_is_promised_already_is_only_waited_for(static: Play) -> None:
    """By a shim that has ended, or by the controller."""
    static.put(pv(promised_to="c", phase="Bound"), reads())
    assert static.cluster.predicates("p", "n", allocate=True) is None
    assert static.allocate("p", "n") == []
    assert static.put(pvc(version="21", bound_to="v")) == [Bind(P, "n")]


def test_a_volume_that_its_owner_has_promised_gets_the_uid_of_the_claim(static: Play) -> None:
    static.put(pv(claimRef={"namespace": "ns", "name": "c"}), reads())
    (write,) = static.allocate("p", "n")
    assert isinstance(write, BindVolume)
    assert write.was_promised


def test_claims_of_one_pod_get_different_volumes_all_before_it_is_bound(static: Play) -> None:
    static.put(pv("v1"), pv("v2"), pvc("d"), reads("p", "c", "d"))
    writes = of(static.allocate("p", "n"), BindVolume)
    assert {(one.volume, one.claim.name) for one in writes} == {("v1", "c"), ("v2", "d")}
    for one in writes:
        assert static.tell(volume_written(one.volume)) == []
        assert static.put(pv(one.volume, "11", promised_to=one.claim.name)) == []
    assert static.put(pvc("c", "21", bound_to="v1")) == []
    assert static.put(pvc("d", "21", bound_to="v2")) == [Bind(P, "n")]


def test_two_pods_do_not_get_one_volume(static: Play) -> None:
    static.put(pv("v", node="n"), pvc("d"), reads("p"), reads("q", "d"))
    assert of(static.allocate("p", "n"), BindVolume)
    assert (
        static.cluster.predicates("q", "n", allocate=True) == "node(s) didn't find available persistent volumes to bind"
    )
    release, ask = static.allocate("q", "n")
    assert isinstance(release, ReleaseAllocation)
    assert isinstance(ask, Ask)
    assert static.gone(reads("p")) != []
    assert the_ask(static.wait(1)).key == "q", "what was refused is asked for again"
    assert of(static.allocate("q", "n", "u2"), BindVolume)


def test_two_pods_that_share_a_claim_go_to_where_its_volume_is(static: Play) -> None:
    static.put(pv("v", node="n"), pv("w", node="m"), reads("p"), reads("q"))
    (first,) = static.allocate("p", "n")
    assert isinstance(first, BindVolume)
    assert static.cluster.predicates("q", "m", allocate=True) is not None
    (second,) = static.allocate("q", "n")
    assert isinstance(second, BindVolume)
    assert (first.volume, second.volume) == ("v", "v")
    static.gone(reads("p"))
    assert static.cluster.model.view.storage.reservations.owner("v") == ("ns", "c"), "the other one still needs it"
    static.put(pv("v", "11", promised_to="c", node="n"), pvc(version="21", bound_to="v"))
    assert static.tell(volume_written(key="q")) == [Bind(Q, "n")]
    assert nothing_is_kept(static)


def test_a_volume_that_somebody_else_has_changed_is_chosen_anew_a_little_later(static: Play) -> None:
    ask = the_ask(static.put(pv("v"), pv("w", size="20Gi"), reads()))
    static.allocate("p", "n")
    failed(static.tell(volume_written(result=VolumeResult.CHANGED)), 'persistentvolume "v": no')
    assert nothing_is_kept(static)
    static.put(pv("v", "12", promised_to="other"))
    assert static.cluster.model.pods["p"].state is PodState.HELD
    (again,) = static.wait(1)
    assert isinstance(again, Ask)
    assert again.tags[SELECTOR] == ask.tags[SELECTOR], "no node is left out"
    assert again.asked_at_ns > 0, "its age survives"
    (write,) = static.allocate("p", "n", "u2")
    assert isinstance(write, BindVolume)
    assert (write.volume, write.attempt) == ("w", 2)


def test_late_answers_to_an_earlier_attempt_mean_nothing(static: Play) -> None:
    static.put(pv("v1"), pv("v2"), pvc("d"), reads("p", "c", "d"))
    static.allocate("p", "n")
    static.tell(volume_written("v1", VolumeResult.CHANGED))
    static.wait(1)
    static.allocate("p", "n", "u2")
    assert static.tell(volume_written("v2", VolumeResult.FAILED)) == []
    failed(static.tell(volume_written("v2", VolumeResult.FAILED, attempt=2)), "v2", "u2")


def test_a_write_of_unknown_end_is_repeated_unless_it_was_performed(static: Play) -> None:
    static.put(pv(), reads())
    first = static.allocate("p", "n")
    assert static.tell(volume_written(result=VolumeResult.UNKNOWN)) == []
    assert static.wait(5) == first
    assert static.tell(volume_written(result=VolumeResult.UNKNOWN)) == []
    assert static.put(pv(version="11", promised_to="c")) == []
    assert static.wait(5) == []
    assert static.put(pvc(version="21", bound_to="v")) == [Bind(P, "n")]


def test_failures_come_less_and_less_often_and_say_why(static: Play) -> None:
    static.put(pv(), reads())
    for attempt, seconds in enumerate((1, 2, 4, 8, 10, 10), start=1):
        uuid = f"u{attempt}"
        static.allocate("p", "n", uuid)
        failed(static.tell(volume_written(result=VolumeResult.CHANGED, attempt=attempt)), "no", uuid)
        assert of(static.wait(seconds - 0.1), Ask) == []
        assert the_ask(static.wait(0.1)).key == "p"


def test_the_reason_is_shown(static: Play) -> None:
    static.put(pv(), reads())
    static.allocate("p", "n")
    _, condition, event = static.all(volume_written(result=VolumeResult.FAILED))
    assert isinstance(condition, PatchPodCondition)
    assert condition.reason == "SchedulingSkipped"
    assert isinstance(event, RecordEvent)
    assert (event.reason, event.note) == ("FailedBinding", 'node n: persistentvolume "v": no')


@pytest.mark.parametrize("lost", ["volume", "claim", "other claim"])
def test_what_is_deleted_meanwhile(static: Play, lost: str) -> None:
    static.put(pv(), reads())
    static.allocate("p", "n")
    static.tell(volume_written())
    static.put(pv(version="11", promised_to="c"))
    match lost:
        case "volume":
            failed(static.gone(pv(version="11", promised_to="c")), 'persistentvolume "v" is gone')
        case "claim":
            failed(static.gone(pvc()), 'persistentvolumeclaim "c" is gone')
        case _:
            other = pvc(version="30")
            failed(static.put(Renamed.uid(other, "another")), 'persistentvolumeclaim "c" is gone')
    assert nothing_is_kept(static)


class Renamed:
    @staticmethod
    def uid(one: PersistentVolumeClaim, uid: str) -> PersistentVolumeClaim:
        import msgspec

        return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, uid=uid))


# --- volumes that are made


def test_a_node_is_selected_and_the_pod_bound_when_the_volume_is_made(dynamic: Play) -> None:
    dynamic.put(reads())
    (write,) = dynamic.allocate("p", "n")
    assert write == SelectNode(P, 1, ClaimName("ns", "c", "uid of c", "20"), "n")
    assert dynamic.tell(claim_written()) == []
    assert dynamic.put(pvc(version="21", selected="n")) == []
    assert dynamic.put(pv("made", promised_to="c", node="n")) == []
    assert dynamic.put(pvc(version="22", selected="n", bound_to="made")) == [Bind(P, "n")]
    assert nothing_is_kept(dynamic)


def test_a_provisioner_that_cannot_make_one_takes_the_annotation_away(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    dynamic.tell(claim_written())
    assert dynamic.put(pvc(version="20")) == [], "that is from before"
    failed(dynamic.put(pvc(version="22")), "no volume could be made there")
    ask = the_ask(dynamic.wait(1))
    assert ask.tags[SELECTOR].endswith("si/hostname notin (n)")
    (write,) = dynamic.allocate("p", "m", "u2")
    assert write == SelectNode(P, 2, ClaimName("ns", "c", "uid of c", "22"), "m")


def test_a_node_that_is_selected_already_is_the_only_one(dynamic: Play) -> None:
    """By a shim that has ended."""
    dynamic.put(pvc(version="21", selected="m"), reads())
    assert dynamic.cluster.predicates("p", "n", allocate=True) is not None
    assert dynamic.allocate("p", "m") == []
    dynamic.put(pv("made", promised_to="c", node="m"))
    assert dynamic.put(pvc(version="22", selected="m", bound_to="made")) == [Bind(P, "m")]


def test_a_selection_that_is_taken_back_after_a_restart(dynamic: Play) -> None:
    dynamic.put(pvc(version="21", selected="m"), reads())
    dynamic.allocate("p", "m")
    failed(dynamic.put(pvc(version="22")), "no volume could be made there")


def test_the_wait_for_a_volume_ends(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    dynamic.tell(claim_written())
    dynamic.put(pvc(version="21", selected="n"))
    assert of(dynamic.wait(599), ReleaseAllocation) == []
    failed(dynamic.wait(1), "no volume in time for persistentvolumeclaim c")
    assert the_ask(dynamic.wait(1)).key == "p"
    assert dynamic.cluster.predicates("p", "m", allocate=True) is not None, "the provisioner may still be at it"


def test_a_volume_that_was_made_for_another_node(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    dynamic.tell(claim_written())
    dynamic.put(pv("made", promised_to="c", node="m"))
    failed(
        dynamic.put(pvc(version="22", selected="n", bound_to="made")), 'persistentvolume "made" cannot be used there'
    )
    assert dynamic.allocate("p", "m", "u2") == [] or dynamic.wait(1)


def test_pods_that_share_a_claim_wait_for_one_node(dynamic: Play) -> None:
    dynamic.put(reads("p"), reads("q"))
    dynamic.allocate("p", "n")
    assert dynamic.cluster.predicates("q", "m", allocate=True) is not None
    assert dynamic.cluster.predicates("q", "n", allocate=True) is None


# --- the pod ends, moves or is wanted back meanwhile


def test_a_pod_that_is_deleted_meanwhile(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    release, *_ = dynamic.put(terminating(reads()))
    assert release == ReleaseAllocation(APP, "p", "u-p", "the pod is being deleted")
    assert nothing_is_kept(dynamic)
    assert not of(dynamic.gone(terminating(reads())), ReleaseAllocation)
    assert dynamic.tell(claim_written()) == []
    assert of(dynamic.wait(1000), Ask) == []


def test_a_pod_that_is_gone_meanwhile(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    assert dynamic.gone(reads())[0] == ReleaseAllocation(APP, "p", "u-p")
    assert nothing_is_kept(dynamic)


def test_a_pod_that_is_preempted_meanwhile(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    effects = dynamic.tell(ReleaseWanted(APP, "p", "u-p", Cause.PREEMPTED, "for q"))
    assert effects[-1] == DeletePod(P)
    assert dynamic.gone(reads())[0] == ConfirmRelease("u-p")
    assert nothing_is_kept(dynamic)


def test_a_pod_that_somebody_else_binds_meanwhile(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    dynamic.put(placed(reads(), "m"))
    assert nothing_is_kept(dynamic)
    assert dynamic.tell(claim_written()) == []
    assert dynamic.cluster.model.pods["p"].state is PodState.BOUND


def test_an_allocation_that_the_daemon_takes_back(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    assert dynamic.tell(AllocationReleased(APP, "p", "u-p")) == []
    assert nothing_is_kept(dynamic)
    assert the_ask(dynamic.wait(1)).key == "p"


def test_a_node_that_goes_meanwhile(dynamic: Play) -> None:
    dynamic.put(reads())
    dynamic.allocate("p", "n")
    release, _ = dynamic.tell(Gone(on("n")))
    assert isinstance(release, ReleaseAllocation), "before the next ask, which may come before the removal of the node"
    assert "the node is gone" in release.message
    assert the_ask(dynamic.wait(1)).key == "p"


def test_a_binding_that_fails_after_its_volumes_were_bound(static: Play) -> None:
    static.put(pv("v", node="n"), reads())
    static.allocate("p", "n")
    static.put(pv("v", "11", promised_to="c", node="n"), pvc(version="21", bound_to="v"))
    assert static.tell(volume_written()) == [Bind(P, "n")]
    release, ask = static.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
    assert isinstance(release, ReleaseAllocation)
    assert isinstance(ask, Ask)
    assert static.cluster.predicates("p", "m", allocate=True) is not None, "the volume is on the other node"
