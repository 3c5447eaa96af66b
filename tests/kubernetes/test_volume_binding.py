"""VolumeBinding: claims that refuse every node, bound volumes, and where unbound claims can get one."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.predicates.pod_info import read_info
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from schedulerd.kubernetes.predicates.storage import SELECTED_NODE_ANNOTATION
from schedulerd.kubernetes.predicates.volume_binding import VolumePlan, plan
from tests.kubernetes.builders import JSON, expression, node, pod, selector
from tests.kubernetes.judging import code, refusal, view_of
from tests.kubernetes.storage_builders import capacity, claim, csi_driver, put, storage_class, uses, volume
from tests.loops import each_row

NAME = "VolumeBinding"


def cluster(*objects: Any) -> Predicates:
    view = view_of([node("n", {"disk": "n"}), node("m", {"disk": "m"})])
    put(view.cache.storage, *objects)
    return view


def asked(*claims: str) -> Any:
    return pod("q", volumes=uses(*claims))


def planned(view: Predicates, *claims: str, on: str = "n") -> VolumePlan:
    facts = view.cache.state.nodes[on].facts
    assert facts is not None
    return plan(read_info(asked(*claims)), facts, view.cache.storage)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (None, (Code.CLAIM_NOT_FOUND, "c")),
        (claim(bound_to="v", phase="Lost"), (Code.CLAIM_LOST, "c", "v")),
        (claim(bound_to="v", meta={"deletionTimestamp": "x"}), (Code.CLAIM_DELETED, "c")),
        (claim(), (Code.CLAIM_UNBOUND, "c")),
        (claim(bound_to="v", meta={"annotations": {}}), (Code.CLAIM_UNBOUND, "c")),
        (claim(bound_to="nowhere"), (Code.VOLUME_NOT_FOUND, "nowhere")),
    ],
)
def test_claims_that_refuse_every_node(one: Any, expected: tuple[Any, ...]) -> None:
    view = cluster(volume(), *([one] if one is not None else []))
    for name in ("n", "m"):
        assert refusal(view, asked("c"), name, NAME) == Refusal(NAME, Kind.UNRESOLVABLE, expected[0], expected[1:])


def test_a_claim_that_is_bound_beforehand_has_to_be_bound_first() -> None:
    view = cluster(storage_class(), volume(), claim(volumeName="v"))
    assert code(view, asked("c"), "n", NAME) is Code.CLAIM_UNBOUND


def test_a_claim_of_an_ephemeral_volume_belongs_to_its_pod() -> None:
    view = cluster(storage_class(provisioner="d"))
    question = pod("q", volumes=[{"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert refusal(view, question, "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.CLAIM_AWAITED, ("q-e",))
    put(view.cache.storage, claim("q-e"))
    assert code(view, question, "n", NAME) is Code.CLAIM_FOREIGN
    put(view.cache.storage, claim("q-e", meta={"ownerReferences": [{"uid": "q", "controller": False}]}))
    assert code(view, question, "n", NAME) is Code.CLAIM_FOREIGN
    put(view.cache.storage, claim("q-e", meta={"ownerReferences": [{"uid": "q", "controller": True}]}))
    assert code(view, question, "n", NAME) is None


def test_a_bound_volume_is_used_where_its_node_affinity_allows() -> None:
    view = cluster(volume(node="m"), claim(bound_to="v"))
    assert refusal(view, asked("c"), "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_AFFINITY, ("v",))
    assert code(view, asked("c"), "m", NAME) is None


def test_node_affinity_of_a_volume_knows_labels_only() -> None:
    named = {"nodeSelectorTerms": [{"matchFields": [expression("metadata.name", "In", "n")]}]}
    view = cluster(volume(nodeAffinity={"required": named}), claim(bound_to="v"))
    assert code(view, asked("c"), "n", NAME) is Code.VOLUME_AFFINITY


def test_the_smallest_volume_that_fits_is_chosen() -> None:
    sizes = [volume("big", "20Gi"), volume("right", "5Gi"), volume("small", "1Gi"), volume("away", "5Gi", node="m")]
    view = cluster(storage_class(), claim(), *sizes)
    assert planned(view, "c").to_bind == {"c": "right"}
    view.cache.storage.remove_volume("right")
    assert planned(view, "c").to_bind == {"c": "big"}
    assert planned(view, "c", on="m").to_bind == {"c": "away"}


def test_claims_do_not_share_a_volume_and_small_ones_choose_first() -> None:
    view = cluster(
        storage_class(), claim("a", size="8Gi"), claim("b", size="1Gi"), volume("v1", "8Gi"), volume("v2", "9Gi")
    )
    assert planned(view, "a", "b").to_bind == {"b": "v1", "a": "v2"}
    view.cache.storage.remove_volume("v2")
    assert planned(view, "a", "b").refusals == (Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_NO_MATCH, ("a",)),)


@each_row(
    "unusable",
    [
        volume(size="4Gi"),
        volume(phase="Released"),
        volume(storageClassName="slow"),
        volume(accessModes=["ReadOnlyMany"]),
        volume(volumeMode="Block"),
        volume(volumeAttributesClassName="gold"),
        volume(node="m"),
        volume(meta={"deletionTimestamp": "x"}),
        volume(claimRef={"namespace": "ns", "name": "other"}),
        volume(claimRef={"namespace": "ns", "name": "c", "uid": "an older one"}),
        volume(size="many"),
    ],
)
def test_volumes_that_do_not_fit(unusable: Any) -> None:
    view = cluster(storage_class(provisioner="kubernetes.io/no-provisioner"), claim(), unusable)
    assert refusal(view, asked("c"), "n", NAME) == Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_NO_MATCH, ("c",))
    put(view.cache.storage, volume())
    assert code(view, asked("c"), "n", NAME) is None


def test_the_selector_of_a_claim() -> None:
    view = cluster(storage_class(), claim(selector=selector(kind="a")), volume("v1"))
    assert planned(view, "c").to_bind == {}
    put(view.cache.storage, volume("v2", meta={"labels": {"kind": "a"}}))
    assert planned(view, "c").to_bind == {"c": "v2"}
    put(view.cache.storage, claim(selector={"matchExpressions": [expression("kind", "Like", "a")]}))
    assert planned(view, "c").to_bind == {}


def test_a_volume_that_is_promised_beforehand_comes_first() -> None:
    mine = volume("mine", "50Gi", claimRef={"namespace": "ns", "name": "c"}, phase="Bound")
    view = cluster(storage_class(), claim(), volume("v", "5Gi"), mine)
    assert planned(view, "c").to_bind == {"c": "mine"}
    put(view.cache.storage, volume("mine", "50Gi", claimRef={"namespace": "ns", "name": "c"}, node="m"))
    assert planned(view, "c").to_bind == {}


def test_reserved_volumes_are_left_to_others() -> None:
    view = cluster(storage_class(), claim(), volume("v", "5Gi"), volume("w", "6Gi"))
    view.cache.storage.assumed.assume("p", {"v": ("ns", "other")}, {})
    assert planned(view, "c").to_bind == {"c": "w"}
    view.cache.storage.assumed.assume("q", {"w": ("ns", "c")}, {})
    view.cache.storage.assumed.forget("p")
    assert planned(view, "c").to_bind == {"c": "w"}


def test_a_class_that_makes_volumes() -> None:
    view = cluster(storage_class(provisioner="d"), claim())
    assert planned(view, "c") == VolumePlan(to_provision=["c"])
    view.cache.storage.remove_class("fast")
    assert code(view, asked("c"), "n", NAME) is Code.CLAIM_UNBOUND


def test_the_class_by_annotation() -> None:
    old = {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}
    view = cluster(
        storage_class(provisioner="d"), claim(storageClassName=None, meta=old), volume(storageClassName="", meta=old)
    )
    assert planned(view, "c").to_bind == {"c": "v"}


@pytest.mark.parametrize(
    ("topologies", "is_allowed"),
    [
        (None, True),
        ([], True),
        ([{"matchLabelExpressions": [{"key": "disk", "values": ["m", "n"]}]}], True),
        ([{"matchLabelExpressions": [{"key": "disk", "values": ["m"]}]}], False),
        ([{"matchLabelExpressions": [{"key": "none", "values": ["n"]}]}], False),
        ([{}], False),
        ([{}, {"matchLabelExpressions": [{"key": "disk", "values": ["n"]}]}], True),
    ],
)
def test_allowed_topologies(topologies: list[JSON] | None, is_allowed: bool) -> None:
    view = cluster(storage_class(provisioner="d", allowedTopologies=topologies), claim())
    assert code(view, asked("c"), "n", NAME) is (None if is_allowed else Code.VOLUME_NO_MATCH)


def test_a_selected_node_is_the_only_one() -> None:
    view = cluster(
        storage_class(provisioner="d"), claim(meta={"annotations": {SELECTED_NODE_ANNOTATION: "m"}}), volume()
    )
    assert code(view, asked("c"), "n", NAME) is Code.VOLUME_NO_MATCH
    assert planned(view, "c", on="m") == VolumePlan(to_provision=["c"])


@each_row(
    ("one", "has_room"),
    [
        (capacity("x", "5Gi", {}), True),
        (capacity("x", "5Gi", selector(disk="n")), True),
        (capacity("x", "5Gi", selector(disk="m")), False),
        (capacity("x", "5Gi", None), False),
        (capacity("x", "4Gi", {}), False),
        (capacity("x", "9Gi", {}, maximumVolumeSize="4Gi"), False),
        (capacity("x", "1Gi", {}, maximumVolumeSize="5Gi"), True),
        (capacity("x", None, {}), False),
        (capacity("x", "much", {}), False),
        (capacity("x", "5Gi", {}, storageClassName="slow"), False),
        (capacity("x", "5Gi", {"matchExpressions": [expression("disk", "Like", "n")]}), False),
    ],
)
def test_published_capacity(one: Any, has_room: bool) -> None:
    view = cluster(storage_class(provisioner="d"), claim(), csi_driver("d", publishes=True), one)
    expected = None if has_room else Refusal(NAME, Kind.UNRESOLVABLE, Code.VOLUME_NO_SPACE, ("c",))
    assert refusal(view, asked("c"), "n", NAME) == expected
    view.cache.storage.remove_capacity("", "x")
    assert code(view, asked("c"), "n", NAME) is Code.VOLUME_NO_SPACE
    put(view.cache.storage, csi_driver("d", publishes=False))
    assert code(view, asked("c"), "n", NAME) is None
    view.cache.storage.remove_csi_driver("d")
    assert code(view, asked("c"), "n", NAME) is None


def test_capacities_come_and_go_one_by_one() -> None:
    both = [capacity("x", "5Gi", {}), capacity("y", "5Gi", {})]
    view = cluster(storage_class(provisioner="d"), claim(), csi_driver("d", publishes=True), *both)
    view.cache.storage.remove_capacity("", "x")
    assert code(view, asked("c"), "n", NAME) is None
    put(view.cache.storage, capacity("y", "5Gi", {}, storageClassName="slow"))
    assert code(view, asked("c"), "n", NAME) is Code.VOLUME_NO_SPACE
    view.cache.storage.remove_capacity("", "y")
    assert not view.cache.storage.capacities


def test_bound_and_unbound_claims_both_say_what_is_wrong() -> None:
    view = cluster(storage_class(), claim("b", "v"), claim("u"), volume(node="m"))
    found = planned(view, "b", "u").refusals
    assert [one.code for one in found] == [Code.VOLUME_AFFINITY, Code.VOLUME_NO_MATCH]
