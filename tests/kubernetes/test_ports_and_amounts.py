"""NodePorts and NodeResourcesFit."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.predicates.plugins import ALL
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Kind, Refusal
from tests.kubernetes.builders import JSON, bound, containers, node, pod, ports
from tests.kubernetes.judging import code, refusal, view_of
from tests.loops import each_row

PORTS, FIT = "NodePorts", "NodeResourcesFit"


def port(number: int = 80, address: str = "", protocol: str = "") -> JSON:
    return {"hostPort": number, "hostIP": address, "protocol": protocol, "containerPort": 1}


@each_row(
    ("one", "other", "conflicts"),
    [
        (port(), port(), True),
        (port(), port(81), False),
        (port(0), port(0), False),
        (port(protocol="UDP"), port(), False),
        (port(protocol="TCP"), port(), True),
        (port(address="10.0.0.1"), port(address="10.0.0.2"), False),
        (port(address="10.0.0.1"), port(address="10.0.0.1"), True),
        (port(address="10.0.0.1"), port(), True),
        (port(), port(address="10.0.0.1"), True),
        (port(address="0.0.0.0"), port(address="10.0.0.1"), True),
    ],
)
def test_host_ports(one: JSON, other: JSON, conflicts: bool) -> None:
    view = view_of([node("n"), node("m")], [bound("there", "n", containers=ports(other))])
    asked = pod("asked", containers=ports(one))
    assert (refusal(view, asked, "n", PORTS) is not None) == conflicts
    assert code(view, asked, "m", PORTS) is None


def test_a_port_refusal_says_which() -> None:
    view = view_of([node("n")], [bound("there", "n", containers=ports(port()))])
    found = refusal(view, pod("q", containers=ports(port(81), port(80, "10.0.0.1"))), "n", PORTS)
    assert found == Refusal(PORTS, Kind.UNSCHEDULABLE, Code.HOST_PORT, ("TCP", 80, "10.0.0.1"))


def test_sidecars_hold_their_host_ports_and_other_init_containers_do_not() -> None:
    def init(policy: str | None) -> list[JSON]:
        return [{"name": "i", "ports": [port()], "restartPolicy": policy}]

    asked = pod("q", containers=ports(port()))
    assert code(view_of([node("n")], [bound("p", "n", initContainers=init("Always"))]), asked, "n", PORTS)
    assert code(view_of([node("n")], [bound("p", "n", initContainers=init(None))]), asked, "n", PORTS) is None
    assert code(
        view_of([node("n")], [bound("p", "n", containers=ports(port()))]),
        pod("q", initContainers=init("Always")),
        "n",
        PORTS,
    )


def test_a_port_is_free_once_all_its_pods_are_gone() -> None:
    there = [
        bound(name, "n", containers=ports(port(address=address))) for name, address in (("a", "10.0.0.1"), ("b", ""))
    ]
    view = view_of([node("n")], there)
    asked = pod("q", containers=ports(port(address="10.0.0.1")))
    assert code(view, asked, "n", PORTS, gone=["a"])
    assert code(view, asked, "n", PORTS, gone=["b"])
    assert code(view, asked, "n", PORTS, gone=["a", "b"]) is None
    view.cache.remove_pod("a")
    view.cache.remove_pod("b")
    assert code(view, asked, "n", PORTS) is None


def lacking(view: Predicates, **requests: str) -> list[str]:
    named = {name.replace("_", "-"): amount for name, amount in requests.items()}
    found = view.judge(pod("q", containers=containers(named)), "n", [one for one in ALL if one.name == FIT])
    assert all(one.kind is Kind.UNSCHEDULABLE for one in found)
    return [str(one.data[0]) if one.data else one.code.value for one in found]


def test_amounts_are_compared_exactly() -> None:
    view = view_of([node("n", cpu="2", memory="1Gi")], [bound("p", "n", containers=containers({"cpu": "500m"}))])
    assert lacking(view, cpu="1500m", memory="1Gi") == []
    assert lacking(view, cpu="1501m", memory="1073741825") == ["cpu", "memory"]
    view.cache.remove_pod("p")
    assert lacking(view, cpu="2") == []


def test_what_is_not_requested_is_not_compared() -> None:
    view = view_of([node("n", cpu="1", memory="1Gi")], [bound("p", "n", containers=containers({"cpu": "5"}))])
    assert lacking(view, memory="1Gi") == []
    assert lacking(view, cpu="0", memory="1Gi") == []
    assert lacking(view, cpu="1m") == ["cpu"]


def test_pods_are_counted() -> None:
    view = view_of([node("n", pods="1")])
    assert lacking(view) == []
    view.cache.put_pod(bound("p", "n"))
    assert lacking(view, cpu="100") == ["too many pods", "cpu"]


def test_reasons_have_an_order_and_unknown_names_do_not_count() -> None:
    view = view_of([node("n", cpu="1", memory="1", pods="0")])
    wanted = {
        "example.com/b": "1",
        "example.com/a": "1",
        "memory": "2",
        "cpu": "2",
        "ephemeral-storage": "1",
        "storage": "1",
    }
    found = view.judge(pod("q", containers=containers(wanted)), "n", [one for one in ALL if one.name == FIT])
    assert [one.data for one in found] == [
        (),
        ("cpu",),
        ("memory",),
        ("ephemeral-storage",),
        ("example.com/a",),
        ("example.com/b",),
    ]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("example.com/a", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi", True),
        ("requests.kubernetes.io/a", True),
        ("requests.example.com/a", False),  # of a quota
        ("a", False),
    ],
)
def test_names_that_are_no_resource_of_nodes_are_not_compared(name: str, counts: bool) -> None:
    view = view_of([node("n")])
    found = view.judge(pod("q", containers=containers({name: "1"})), "n", [one for one in ALL if one.name == FIT])
    assert [one.data for one in found] == ([(name,)] if counts else [])


def test_victims_make_room() -> None:
    view = view_of([node("n", cpu="1", pods="1")], [bound("p", "n", containers=containers({"cpu": "1"}))])
    asked = pod("q", containers=containers({"cpu": "1"}))
    only = [one for one in ALL if one.name == FIT]
    assert len(view.judge(asked, "n", only)) == 2
    assert not view.judge(asked, "n", only, gone=["p"])
