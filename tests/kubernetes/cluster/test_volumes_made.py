"""Volumes that are made for a pod when its node is chosen."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.effects import (
    Ask,
    Bind,
    ClaimName,
    ConfirmRelease,
    DeletePod,
    ReleaseAllocation,
    SelectNode,
)
from schedulerd.kubernetes.cluster.events import (
    AllocationReleased,
    Cause,
    Gone,
    ReleaseWanted,
)
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from tests.kubernetes.builders import placed, terminating
from tests.kubernetes.cluster.play import Play, of, the_ask
from tests.kubernetes.cluster.volume_play import (
    APP,
    DRIVER,
    SELECTOR,
    P,
    claim_written,
    failed,
    nothing_is_kept,
    on,
    pv,
    pvc,
    reads,
)
from tests.kubernetes.storage_builders import storage_class


@pytest.fixture
def dynamic() -> Play:
    """Two nodes, and a claim for which a driver makes volumes."""
    play = Play()
    play.start(on("n"), on("m"), storage_class(provisioner=DRIVER), pvc())
    return play


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
