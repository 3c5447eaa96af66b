"""Pods whose claims wait for them: volumes are chosen, written and waited for before the pod is bound."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Bind,
    BindVolume,
    ClaimName,
    PatchPodCondition,
    RecordEvent,
    ReleaseAllocation,
)
from schedulerd.kubernetes.cluster.events import (
    BindEnded,
    BindResult,
    Put,
    VolumeResult,
)
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.objects.storage import PersistentVolumeClaim
from tests.kubernetes.cluster.play import Play, of, the_ask
from tests.kubernetes.cluster.volume_play import (
    APP,
    SELECTOR,
    P,
    Q,
    failed,
    nothing_is_kept,
    on,
    pv,
    pvc,
    reads,
    volume_written,
)
from tests.kubernetes.storage_builders import storage_class


@pytest.fixture
def static() -> Play:
    """Two nodes, and a claim for which only volumes that exist will do."""
    play = Play()
    play.start(on("n"), on("m"), storage_class(provisioner="kubernetes.io/no-provisioner"), pvc())
    return play


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
    assert static.cluster.model.cache.storage.assumed.owner("v") == ("ns", "c"), "the other one still needs it"
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


def test_a_binding_that_fails_after_its_volumes_were_bound(static: Play) -> None:
    static.put(pv("v", node="n"), reads())
    static.allocate("p", "n")
    static.put(pv("v", "11", promised_to="c", node="n"), pvc(version="21", bound_to="v"))
    assert static.tell(volume_written()) == [Bind(P, "n")]
    release, ask = static.tell(BindEnded("p", "n", BindResult.FAILED, "no"))
    assert isinstance(release, ReleaseAllocation)
    assert isinstance(ask, Ask)
    assert static.cluster.predicates("p", "m", allocate=True) is not None, "the volume is on the other node"
