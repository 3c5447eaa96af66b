"""The volume that a claim gets is that of a walk over all volumes; local volumes of other nodes are not looked at."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from schedulerd.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from schedulerd.kubernetes.predicates import volume_choice
from schedulerd.kubernetes.predicates.node_state import NodeFacts, read_facts
from schedulerd.kubernetes.predicates.storage import Storage
from schedulerd.kubernetes.predicates.volume_choice import smallest_match
from tests.kubernetes.builders import JSON, expression, node
from tests.kubernetes.storage_builders import claim, put, storage_class, volume
from tests.loops import each_seed

LABELS: tuple[dict[str, str], ...] = (
    {"host": "a", "zone": "1"},
    {"host": "b", "zone": "1"},
    {"host": "c", "zone": "2"},
    {"zone": "2"},
    {},
)


def requirement(random: Random) -> JSON | None:
    host = expression("host", "In", *random.sample("abc", random.randint(1, 2)))
    zone = expression("zone", random.choice(("In", "NotIn")), random.choice("12"))
    many = expression("host", "In", *"abcdefghijklmnopqrstu")
    terms = random.choice(([[host]], [[zone]], [[host, zone]], [[host], [zone]], [[many]], [], None))
    if terms is None:
        return None
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms]}}


def any_volume(random: Random, name: str) -> PersistentVolume:
    more: dict[str, Any] = {"nodeAffinity": requirement(random)}
    if random.random() < 0.3:
        uid = random.choice(("", "uid of c", "another"))
        more["claimRef"] = {"namespace": "ns", "name": random.choice("cd"), "uid": uid}
    if random.random() < 0.1:
        more["volumeMode"] = "Block"
    size = f"{random.randint(3, 9)}Gi"
    return volume(name, size, phase=random.choice(("Available", "Available", "Bound")), **more)


def naive(one: PersistentVolumeClaim, facts: NodeFacts, storage: Storage, taken: set[str]) -> str | None:
    """A walk over all volumes, the smallest first."""
    wanted = 5 << 30
    smallest = None
    key = (one.metadata.namespace, one.metadata.name)
    for found in sorted(storage.volumes.values(), key=lambda found: (found.capacity, found.name)):
        spec, reserved = found.volume.spec, storage.assumed.owner(found.name)
        reference = spec.claim_ref
        is_mine = reserved == key and reference is None
        if reference is not None:
            is_mine = (reference.namespace, reference.name) == key and reference.uid in ("", one.metadata.uid)
        if found.name in taken or found.capacity < wanted or spec.volume_mode == "Block":
            continue
        fits = found.requirement.matches("", facts.labels)
        if is_mine:
            return found.name if fits else None
        is_free = reference is None and reserved is None and found.volume.status.phase == "Available"
        if smallest is None and fits and is_free:
            smallest = found.name
    return smallest


@each_seed(range(30))
def test_the_choice_is_that_of_a_walk_over_all(seed: int) -> None:
    random = Random(seed)
    storage = Storage()
    put(storage, storage_class(), claim("c"))
    facts = [read_facts(node(f"n{number}", labels)) for number, labels in enumerate(LABELS)]
    chosen = 0
    for _ in range(60):
        name = f"v{random.randrange(12)}"
        if random.random() < 0.2:
            storage.remove_volume(name)
        else:
            put(storage, any_volume(random, name))
        if random.random() < 0.2:
            for uid in "pq":
                storage.assumed.forget(uid)  # a volume is promised to one claim
            storage.assumed.assume(random.choice("pq"), {name: ("ns", random.choice("cd"))}, {})
        if random.random() < 0.1:
            storage.assumed.forget(random.choice("pq"))
        taken = {f"v{random.randrange(12)}"} if random.random() < 0.3 else set()
        one = storage.claims["ns", "c"]
        for at in facts:
            found = smallest_match(one, at, storage, taken)
            assert found == naive(one, at, storage, taken)
            chosen += found is not None
    assert chosen > 50


def test_local_volumes_of_other_nodes_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage()
    put(storage, storage_class(), claim("c"), *(volume(f"v{number}", node=f"d{number}") for number in range(500)))
    looked_at = []

    def is_usable(found: Any, labels: Any) -> bool:
        looked_at.append(found)
        return bool(found.matches("", labels))

    monkeypatch.setattr(volume_choice, "is_usable", is_usable)
    assert smallest_match(storage.claims["ns", "c"], read_facts(node("n", {"disk": "d7"})), storage, set()) == "v7"
    assert len(looked_at) == 1
    for number in range(500):
        storage.remove_volume(f"v{number}")
    assert smallest_match(storage.claims["ns", "c"], read_facts(node("n", {"disk": "d7"})), storage, set()) is None
