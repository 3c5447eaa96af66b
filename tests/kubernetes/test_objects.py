"""Kubernetes objects are decoded as the API server writes them; what cannot be read is said with its field."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.kubernetes.objects import affinity, cluster, decode, meta, node, storage, volumes
from schedulerd.kubernetes.objects import pod as pods
from schedulerd.kubernetes.objects.decode import MalformedObject
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.storage import PersistentVolume
from tests.loops import each_row

MODULES = (affinity, cluster, meta, node, pods, storage, volumes)
STRUCTS = sorted(
    {
        one
        for module in MODULES
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one is not msgspec.Struct
    },
    key=lambda one: one.__name__,
)


@each_row("kind", STRUCTS)
def test_every_field_has_a_default_and_null_lists_are_taken(kind: type[msgspec.Struct]) -> None:
    empty = decode.decode(kind, b"{}")
    assert empty == decode.decode(kind, b'{"somethingElse": {"deep": [1, null]}}')
    containers = {field.encode_name: None for field in msgspec.structs.fields(kind) if field.default is None}
    assert decode.decode(kind, json.dumps(containers).encode()) == empty


@each_row("kind", STRUCTS)
def test_lists_and_maps_may_be_null(kind: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(kind):
        if "tuple[" in str(field.type) or "dict[" in str(field.type):
            assert field.default is None, field.name


def test_names_as_the_api_writes_them() -> None:
    text = b"""{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"uid": "u"}]},
        "spec": {"nodeName": "n", "containers": [{"ports": [{"hostIP": "1.2.3.4", "hostPort": 80}]}],
        "volumes": [{"awsElasticBlockStore": {"volumeID": "v"}, "gcePersistentDisk": {"pdName": "d"}}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}}}}"""
    found = decode.decode(Pod, text)
    assert found.metadata.deletion_timestamp is not None
    assert found.spec.node_name == "n"
    assert found.spec.containers is not None
    assert found.spec.containers[0].ports == (pods.ContainerPort(80, "", "1.2.3.4"),)
    assert found.spec.volumes is not None
    assert found.spec.volumes[0].aws_elastic_block_store == volumes.EbsVolume("v")
    assert found.spec.volumes[0].gce_persistent_disk == volumes.GceDisk("d")
    assert found.spec.affinity == affinity.Affinity(pod_affinity=affinity.PodAffinity((affinity.PodAffinityTerm("k"),)))


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ('{"spec": {"nodeName": 3}}', "spec.nodeName", "Expected `str`, got `int`"),
        ('{"spec": {"containers": [{}, {"name": []}]}}', "spec.containers[1].name", "Expected `str`, got `array`"),
        ('{"spec": {"priority": "high"}}', "spec.priority", "Expected `int | null`, got `str`"),
        ('{"metadata": {"labels": {"a": 1}}}', "metadata.labels[...]", "Expected `str`, got `int`"),
        ("[]", "", "Expected `object`, got `array`"),
        ("{", "", "Input data was truncated"),
        ('{"spec": {"x": ' + "[" * 100_000, "", "nested too deeply"),
    ],
)
def test_what_cannot_be_read_names_its_field(text: str, field: str, problem: str) -> None:
    with pytest.raises(MalformedObject) as error:
        decode.decode(Pod, text.encode())
    assert (error.value.field, error.value.problem) == (field, problem)
    assert str(error.value) == (f"{field}: {problem}" if field else problem)


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(MalformedObject, match="not UTF-8"):
        decode.decode(Pod, b'{"metadata": {"name": "\xff"}}')


def test_decoded_json_is_read_alike() -> None:
    assert decode.convert(Pod, {"spec": {"nodeName": "n"}}) == decode.decode(Pod, b'{"spec": {"nodeName": "n"}}')
    with pytest.raises(MalformedObject, match=r"spec\.nodeName: Expected `str`"):
        decode.convert(Pod, {"spec": {"nodeName": 3}})


values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["metadata", "spec", "status", "labels", "containers", "affinity", "capacity", "name"]),
            inner,
        ),
    ),
)


@given(values, st.sampled_from([Pod, PersistentVolume, node.Node, cluster.PodDisruptionBudget]))
def test_no_json_is_more_than_malformed(value: Any, kind: type[msgspec.Struct]) -> None:
    with contextlib.suppress(MalformedObject):
        assert isinstance(decode.decode(kind, json.dumps(value).encode()), kind)


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_malformed(text: bytes) -> None:
    with contextlib.suppress(MalformedObject):
        decode.decode(Pod, text)
