"""What a pod requests, by Kubernetes' rule: containers, sidecars, init containers, overhead, the pod, resizes."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.quantity import MalformedQuantity
from schedulerd.kubernetes.resources import pod_requests, resize_state
from tests.kubernetes.builders import JSON, containers


def requests(status: JSON | None = None, **spec: Any) -> dict[str, int]:
    found = {**pod_requests(convert(Pod, {"spec": spec, "status": status or {}}))}
    assert found.pop("pods") == 1
    return found


def one(name: str = "c", sidecar: bool = False, **amounts: str) -> JSON:
    container: JSON = {"name": name, "resources": {"requests": amounts}}
    return {**container, "restartPolicy": "Always"} if sidecar else container


def status(name: str = "c", allocated: JSON | None = None, actual: JSON | None = None) -> JSON:
    return {
        "name": name,
        "allocatedResources": allocated,
        "resources": None if actual is None else {"requests": actual},
    }


def test_a_pod_that_requests_nothing_is_one_pod() -> None:
    assert requests(containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}]) == {}


def test_containers_are_added_up_and_rounded_last() -> None:
    assert requests(containers=[one(cpu="0.4m", memory="1.5"), one(cpu="0.4m", memory="1.5")]) == {
        "cpu": 1,
        "memory": 3,
    }


def test_an_init_container_runs_alone() -> None:
    init = [one(cpu="3"), one(memory="512Mi")]
    assert requests(containers=[one(cpu="1", memory="1Gi"), one(cpu="1")], initContainers=init) == {
        "cpu": 3000,
        "memory": 2**30,
    }


def test_a_sidecar_runs_beside_containers_and_later_init_containers() -> None:
    init = [one(cpu="5"), one(cpu="2", sidecar=True), one(cpu="4"), one(cpu="1", sidecar=True)]
    assert requests(containers=[one(cpu="1")], initContainers=init) == {"cpu": 6000}
    init = [one(cpu="5"), one(cpu="1", sidecar=True)]
    assert requests(containers=[one(cpu="1")], initContainers=init) == {"cpu": 5000}
    init = [one(cpu="2", sidecar=True)]
    assert requests(containers=[one(cpu="1")], initContainers=init) == {"cpu": 3000}


def test_overhead_is_added_last() -> None:
    found = requests(
        containers=[one(cpu="1")], initContainers=[one(cpu="2")], overhead={"cpu": "250m", "memory": "1Ki"}
    )
    assert found == {"cpu": 2250, "memory": 1024}


def test_requests_of_the_pod_replace_those_of_its_containers() -> None:
    found = requests(
        containers=[one(cpu="1", memory="1Ki"), *containers({"example.com/gpu": "1"})],
        resources={"requests": {"cpu": "500m", "hugepages-2Mi": "2Mi", "example.com/gpu": "7"}},
        overhead={"cpu": "1m"},
    )
    assert found == {"cpu": 501, "memory": 1024, "hugepages-2Mi": 2**21, "example.com/gpu": 1}


@pytest.mark.parametrize(
    ("wanted", "allocated", "actual", "expected"),
    [
        ("3", "1", "1", 3000),
        ("1", "3", "1", 3000),
        ("1", "1", "3", 3000),
        ("2", None, "1", 2000),
        ("1", "2", None, 2000),
    ],
)
def test_the_largest_counts_while_a_resize_is_under_way(
    wanted: str, allocated: str | None, actual: str | None, expected: int
) -> None:
    said = status(
        allocated=None if allocated is None else {"cpu": allocated}, actual=None if actual is None else {"cpu": actual}
    )
    assert requests({"containerStatuses": [said]}, containers=[one(cpu=wanted)]) == {"cpu": expected}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {**INFEASIBLE, "reason": "Deferred"}


def test_a_resize_that_is_infeasible_does_not_count() -> None:
    said = {"containerStatuses": [status(allocated={"cpu": "1"}, actual={"cpu": "2"})]}
    nine = [one(cpu="9")]
    assert requests({**said, "conditions": [INFEASIBLE]}, containers=nine) == {"cpu": 2000}
    assert requests({**said, "resize": "Infeasible"}, containers=nine) == {"cpu": 2000}
    assert requests({**said, "conditions": [DEFERRED]}, containers=nine) == {"cpu": 9000}


def test_the_status_counts_for_containers_and_sidecars_only() -> None:
    said = {
        "containerStatuses": [status("c", actual={"cpu": "2"})],
        "initContainerStatuses": [status("side", actual={"cpu": "3"}), status("init", actual={"cpu": "50"})],
    }
    init = [one("side", sidecar=True, cpu="1"), one("init", cpu="1")]
    assert requests(said, containers=[one(cpu="1")], initContainers=init) == {"cpu": 5000}


def test_null_lists_and_maps_are_nothing() -> None:
    assert requests(containers=None, initContainers=None, overhead=None, resources=None) == {}
    assert requests(containers=[{"name": "c", "resources": {"requests": None}}]) == {}


def test_a_quantity_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(MalformedQuantity, match="one"):
        requests(containers=[one(cpu="one")])


def test_the_resize_state_changes_with_what_counts() -> None:
    def state(**said: Any) -> object:
        return resize_state(convert(Pod, {"status": said}))

    assert state() == state(phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    assert state() != state(containerStatuses=[status(actual={"cpu": "1"})])
    assert state() != state(conditions=[INFEASIBLE])
