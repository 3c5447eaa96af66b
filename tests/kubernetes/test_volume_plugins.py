"""VolumeRestrictions, NodeVolumeLimits and VolumeZone."""

from __future__ import annotations

from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import JSON, bound, node, pod
from tests.kubernetes.judging import code, refusal, view_of
from tests.kubernetes.storage_builders import attachment, claim, csi_node, put, storage_class, uses, volume
from tests.loops import each_row

RESTRICTIONS, LIMITS, ZONES = "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone"


def gce(name: str = "d", read_only: bool = False) -> JSON:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str = "d") -> JSON:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": name, "readOnly": True}}


def iscsi(name: str = "d", read_only: bool = False) -> JSON:
    return {"name": "v", "iscsi": {"iqn": name, "readOnly": read_only}}


def rbd(image: str = "d", pool: str = "p", monitors: tuple[str, ...] = ("m",), read_only: bool = False) -> JSON:
    return {"name": "v", "rbd": {"image": image, "pool": pool, "monitors": list(monitors), "readOnly": read_only}}


@each_row(
    ("one", "other", "conflicts"),
    [
        (gce(), gce(), True),
        (gce(), gce("e"), False),
        (gce(read_only=True), gce(), True),
        (gce(), gce(read_only=True), True),
        (gce(read_only=True), gce(read_only=True), False),
        (ebs(), ebs(), True),
        (ebs(), ebs("e"), False),
        (ebs(), gce(), False),
        (iscsi(), iscsi(), True),
        (iscsi(), iscsi("e"), False),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (iscsi(read_only=True), iscsi(), True),
        (iscsi(), iscsi(read_only=True), True),
        (rbd(), rbd(), True),
        (rbd(), rbd("e"), False),
        (rbd(), rbd(pool="q"), False),
        (rbd(monitors=("m", "n")), rbd(monitors=("o", "n")), True),
        (rbd(monitors=("m",)), rbd(monitors=("n",)), False),
        (rbd(read_only=True), rbd(read_only=True), False),
        (rbd(read_only=True), rbd(), True),
        (rbd(), rbd(read_only=True), True),
    ],
)
def test_disks_that_cannot_be_shared(one: JSON, other: JSON, conflicts: bool) -> None:
    view = view_of([node("n"), node("m")], [bound("there", "n", volumes=[other])])
    asked = pod("q", volumes=[one])
    expected = Refusal(RESTRICTIONS, Kind.UNSCHEDULABLE, Code.DISK_CONFLICT, ("v",)) if conflicts else None
    assert refusal(view, asked, "n", RESTRICTIONS) == expected
    assert code(view, asked, "m", RESTRICTIONS) is None
    assert code(view, asked, "n", RESTRICTIONS, gone=["there"]) is None


def test_a_claim_for_one_pod() -> None:
    view = view_of([node("n"), node("m")], [bound("there", "n", volumes=uses("c"))])
    put(view.cache.storage, claim("c", "v", accessModes=["ReadWriteOncePod"]), claim("d", "v"))
    asked = pod("q", volumes=uses("d", "c"))
    for name in ("n", "m"):
        assert refusal(view, asked, name, RESTRICTIONS) == Refusal(
            RESTRICTIONS, Kind.UNSCHEDULABLE, Code.CLAIM_IN_USE, ("c",)
        )
    assert code(view, asked, "m", RESTRICTIONS, gone=["there"]) is None
    assert code(view, pod("q", "other", volumes=uses("c")), "m", RESTRICTIONS) is None
    view.cache.remove_pod("there")
    assert code(view, asked, "m", RESTRICTIONS) is None


def csi(name: str, driver: str = "d", handle: str = "") -> object:
    return volume(name, csi={"driver": driver, "volumeHandle": handle or name})


def limited(limit: int | None = 2) -> Predicates:
    view = view_of([node("n"), node("m")], [bound("there", "n", volumes=uses("c1"))])
    claims = [claim(f"c{number}", f"v{number}") for number in range(1, 5)]
    put(view.cache.storage, csi_node("n", d=limit), *claims, *(csi(f"v{number}") for number in range(1, 5)))
    return view


def test_volumes_of_a_node_are_limited_by_driver() -> None:
    view = limited()
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS) is None
    assert refusal(view, pod("q", volumes=uses("c2", "c3")), "n", LIMITS) == Refusal(
        LIMITS, Kind.UNSCHEDULABLE, Code.VOLUME_LIMIT, ("d", 3, 2)
    )
    assert code(view, pod("q", volumes=uses("c2", "c3")), "m", LIMITS) is None
    assert code(limited(None), pod("q", volumes=uses("c2", "c3")), "n", LIMITS) is None


def test_a_volume_counts_once_however_many_pods_mount_it() -> None:
    view = limited()
    assert code(view, pod("q", volumes=uses("c1", "c2")), "n", LIMITS) is None
    put(view.cache.storage, csi("v3", handle="v2"))
    assert code(view, pod("q", volumes=uses("c2", "c3")), "n", LIMITS) is None


def test_a_pod_without_new_volumes_is_not_refused_by_a_full_node() -> None:
    view = limited(0)
    assert code(view, pod("q", volumes=uses("c1")), "n", LIMITS) is None
    assert code(view, pod("q"), "n", LIMITS) is None


def test_what_is_attached_counts_also_without_a_pod() -> None:
    view = limited()
    put(view.cache.storage, attachment("a", "n", "v4"))
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS) is Code.VOLUME_LIMIT
    assert code(view, pod("q", volumes=uses("c4")), "n", LIMITS) is None
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS, gone=["there"]) is None
    view.cache.storage.remove_attachment("a")
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS) is None


def test_unbound_claims_count_for_the_driver_of_their_class() -> None:
    view = limited()
    put(view.cache.storage, storage_class(provisioner="d"), claim("new1"), claim("new2"))
    assert code(view, pod("q", volumes=uses("new1")), "n", LIMITS) is None
    assert code(view, pod("q", volumes=uses("new1", "new2")), "n", LIMITS) is Code.VOLUME_LIMIT
    assert code(view, pod("q", volumes=uses("missing", "new1")), "n", LIMITS) is None
    put(view.cache.storage, claim("classless", storageClassName="none"))
    assert code(view, pod("q", volumes=uses("classless", "new1")), "n", LIMITS) is None


def test_victims_take_their_volumes_along() -> None:
    view = limited(1)
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS) is Code.VOLUME_LIMIT
    assert code(view, pod("q", volumes=uses("c2")), "n", LIMITS, gone=["there"]) is None


ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


@each_row(
    ("of_volume", "of_node", "is_refused"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, False),
        ({ZONE: "a"}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "c"}, True),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, True),
        ({ZONE: "a"}, {}, False),
        ({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, True),
        ({ZONE: "a__"}, {ZONE: "b"}, False),
        ({"other": "a"}, {ZONE: "b"}, False),
    ],
)
def test_zones(of_volume: JSON, of_node: JSON, is_refused: bool) -> None:
    view = view_of([node("n", of_node)])
    put(view.cache.storage, claim("c", "v"), volume("v", meta={"labels": of_volume}))
    expected = Refusal(ZONES, Kind.UNRESOLVABLE, Code.VOLUME_ZONE, ("v",)) if is_refused else None
    assert refusal(view, pod("q", volumes=uses("c")), "n", ZONES) == expected


def test_claims_without_a_volume_have_no_zone_if_they_wait_for_a_pod() -> None:
    view = view_of([node("n", {ZONE: "a"})])
    asked = pod("q", volumes=uses("c"))
    assert code(view, asked, "n", ZONES) is Code.CLAIM_NOT_FOUND
    put(view.cache.storage, claim("c"))
    assert code(view, asked, "n", ZONES) is Code.CLASS_NOT_FOUND
    put(view.cache.storage, storage_class(mode="Immediate"))
    assert code(view, asked, "n", ZONES) is Code.CLAIM_UNBOUND
    put(view.cache.storage, storage_class())
    assert code(view, asked, "n", ZONES) is None
    put(view.cache.storage, claim("c", "gone"))
    assert code(view, asked, "n", ZONES) is Code.VOLUME_NOT_FOUND
    view.cache.storage.remove_claim("ns", "c")
    assert code(view, pod("q", volumes=[{"name": "e", "ephemeral": {}}]), "n", ZONES) is None
