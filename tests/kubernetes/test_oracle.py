"""The predicates say what kube-scheduler 1.20 said of the same clusters, and the comparison finds what differs."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from schedulerd.kubernetes.predicates import (
    node_affinity,
    node_resources_fit,
    plugins,
    pod_topology_spread,
    taint_toleration,
)
from schedulerd.kubernetes.predicates.cluster_cache import ClusterCache
from schedulerd.kubernetes.predicates.predicates import Predicates
from schedulerd.kubernetes.predicates.refusal import Code, Refusals
from tests.kubernetes import builders, oracle, oracle_file
from tests.kubernetes.oracle_file import PASSED, Answer
from tests.kubernetes.oracle_rules import (
    ALL_RESOURCES,
    EMPTY_VALUE,
    ENDED_PODS,
    NEW_FIELDS,
    NO_NODE_COUNTS,
    OTHER_NODES,
    ROUNDED_EARLY,
    explains,
)

RECORDED = Path(__file__).parent / "data" / "predicates.jsonl.gz"
EIGHT = {
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PodTopologySpread",
    "TaintToleration",
}


def check(found: oracle.Comparison, clusters: int) -> None:
    assert not found.differences
    assert found.clusters == clusters
    assert found.by_plugin.keys() == EIGHT
    known = {f"NodeResourcesFit: {ALL_RESOURCES}", f"PodTopologySpread: {OTHER_NODES}"}
    assert found.otherwise.keys() <= known
    for name, tally in found.by_plugin.items():
        assert tally.judged - tally.reasons_agree == tally.otherwise
        assert name in ("NodeResourcesFit", "PodTopologySpread") or tally.codes_agree == tally.judged


def test_recorded_answers() -> None:
    check(oracle.compare(RECORDED), 1500)


def test_the_order_of_events_does_not_matter() -> None:
    """Nodes last, pods in another order, some of them twice or assumed first: the answers are the same."""
    chance = Random(3)
    for number, one in itertools.islice(oracle_file.read_cases(RECORDED), 60):
        expected, asked = oracle_file.cluster_of(one)
        shuffled = Predicates(ClusterCache())
        shuffled.cache.put_pod(asked)
        shuffled.judge(asked, "nowhere")
        pods = [oracle_file.with_uid(pod, f"pod {index}") for index, pod in enumerate(one.pods)]
        for pod in chance.sample(pods, len(pods)):
            if chance.random() < 0.5:
                shuffled.cache.assume(builders.placed(pod, ""), chance.choice(pods).spec.node_name)
            shuffled.cache.put_pod(pod)
            if chance.random() < 0.2:
                shuffled.cache.remove_pod(pod.metadata.uid)
                shuffled.cache.put_pod(pod)
        for node in chance.sample(one.nodes, len(one.nodes)):
            shuffled.cache.put_node(builders.node(node.metadata.name, {"zone": "none"}))
            shuffled.cache.put_node(node)
        for node in one.nodes:
            name = node.metadata.name
            assert _sorted(shuffled.judge(asked, name)) == _sorted(expected.judge(asked, name)), (number, name)


def _sorted(refusals: Refusals) -> list[str]:
    """Which one of several foreign terms is named depends on their order."""
    return [repr(one._replace(data=() if one.code is Code.EXISTING_ANTI_AFFINITY else one.data)) for one in refusals]


def case(results: Any = None, **changes: Any) -> dict[str, Any]:
    node = {"metadata": {"name": "n", "labels": {"zone": "a"}}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}}
    return {"pod": {"metadata": {"namespace": "ns"}}, "pods": [], "nodes": [node], "verdicts": results or {}, **changes}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "cases.jsonl.gz"
    text = b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines)
    path.write_bytes(gzip.compress(text))
    return path


def refused(*reasons: str, code: str = "Unschedulable") -> dict[str, Any]:
    return {"n": {"code": code, "reasons": list(reasons)}}


def test_the_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    right, wrong = case(results={"NodeName": {}}), case(results={"NodeAffinity": refused("because")})
    assert oracle.main([str(written(tmp_path, right, b"", right))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all agree"
    assert oracle.main([str(written(tmp_path, right, *[wrong] * 12))]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "13 clusters"
    assert out[2].split() == ["NodeAffinity", "12", "0", "0", "0"]
    assert out[4] == "line 2: NodeAffinity on n: expected Unschedulable ['because'], not no refusal"
    assert len(out) == 4 + 10 + 1
    assert out[-1] == "12 differ"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b"\xff\xfe", "line 2: "),
        ([], "line 2: Expected `object`, got `array`"),
        (b'{"pod": ' + b"[" * 50_000, "line 2: "),
        ({"pod": {}}, "line 2: Object missing required field `pods`"),
        (case(pods=[{}, {"spec": {"nodeName": 3}}]), "line 2: pods[1].spec.nodeName: Expected `str`, got `int`"),
        (case(results={"Fit": {}}), "line 2: verdicts: no plugin 'Fit'"),
        (case(results={"NodeName": {"m": {"code": "x"}}}), "line 2: verdicts.NodeName: no node 'm'"),
        (case(nodes=[{"metadata": {"name": "n"}}] * 2), "line 2: nodes[1].metadata.name: 'n' is empty or not unique"),
        (
            case(nodes=[{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}}]),
            "line 2: nodes[0].status.allocatable: 'x' is no quantity",
        ),
        (
            case(pod={"spec": {"overhead": {"cpu": "x"}}}),
            "line 2: pod.spec.containers.resources.requests: 'x' is no quantity",
        ),
        (
            case(
                pod={
                    "spec": {
                        "topologySpreadConstraints": [
                            {
                                "whenUnsatisfiable": "DoNotSchedule",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]},
                            }
                        ]
                    }
                }
            ),
            "line 2: pod.spec.topologySpreadConstraints: operator 'Is' is unknown",
        ),
    ],
)
def test_a_malformed_line_is_named(line: Any, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert oracle.main([str(written(tmp_path, case(), line))]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_files_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("{}")
    cut = tmp_path / "cut"
    cut.write_bytes(written(tmp_path, *[case()] * 50).read_bytes()[:-20])
    for path in (tmp_path / "missing", tmp_path / "plain", cut, written(tmp_path)):
        assert oracle.main([str(path)]) == 2
        assert str(path) in capsys.readouterr().err
    assert oracle.main([]) == 2


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(oracle_file, "LINE_BYTES_MAX", 1000)
    with pytest.raises(oracle_file.UnreadableFile, match="line 1: too long"):
        oracle.compare(written(tmp_path, b" " * 1001))
    monkeypatch.setattr(oracle_file, "LINES_MAX", 2)
    assert oracle.compare(written(tmp_path, case(), case())).clusters == 2
    with pytest.raises(oracle_file.UnreadableFile, match="more than 2 lines"):
        oracle.compare(written(tmp_path, case(), case(), case()))


def test_a_deliberate_break_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [
        plugin._replace(judge=lambda *_: ()) if plugin.name in (node_affinity.NAME, taint_toleration.NAME) else plugin
        for plugin in plugins.ALL
    ]
    monkeypatch.setattr(oracle, "_PLUGINS", {plugin.name: plugin for plugin in broken})
    found = oracle.compare(RECORDED, clusters_max=30)
    assert found.different > 50
    assert all("NodeAffinity" in one or "TaintToleration" in one for one in found.differences)
    assert not {one for one in found.otherwise if one.startswith(("NodeAffinity", "TaintToleration"))}


SPREAD = {
    "whenUnsatisfiable": "DoNotSchedule",
    "topologyKey": "zone",
    "maxSkew": 0,
    "labelSelector": {"matchLabels": {"app": "x"}},
}
SPREAD_REFUSAL = "node(s) didn't match pod topology spread constraints"
FULL = {
    "metadata": {"namespace": "ns"},
    "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "5"}}}]},
}


ENDED = {**FULL, "status": {"phase": "Failed"}}


def asking(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "labels": {"app": "x"}}, "spec": spec}


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (
            case(
                pod=asking(
                    containers=[
                        {"resources": {"requests": {"memory": "0"}}},
                        {"resources": {"requests": {"example.com/a": "0"}}},
                    ]
                ),
                pods=[FULL],
                results={"NodeResourcesFit": refused("Insufficient cpu")},
            ),
            f"NodeResourcesFit: {ALL_RESOURCES}",
        ),
        (
            case(
                pod=asking(
                    containers=[{"resources": {"requests": {"cpu": "499.6m"}}}] * 2
                    + [{"resources": {"requests": {"cpu": "0.8m"}}}]
                ),
                results={"NodeResourcesFit": refused("Insufficient cpu")},
            ),
            f"NodeResourcesFit: {ROUNDED_EARLY}",
        ),
        (
            case(
                pod=asking(topologySpreadConstraints=[SPREAD], nodeSelector={"none": "such"}),
                results={"PodTopologySpread": {}},
            ),
            f"PodTopologySpread: {NO_NODE_COUNTS}",
        ),
        (
            case(
                pod=asking(topologySpreadConstraints=[{**SPREAD, "maxSkew": 1}]),
                pods=[{"metadata": {"namespace": "ns", "labels": {"app": "x"}}, "spec": {"nodeName": "m"}}],
                nodes=[
                    {"metadata": {"name": "n", "labels": {"zone": ""}}},
                    {"metadata": {"name": "o", "labels": {"zone": "a"}}},
                    {"metadata": {"name": "m"}},
                ],
                results={
                    "PodTopologySpread": {
                        **refused(SPREAD_REFUSAL),
                        "m": {
                            "code": "UnschedulableAndUnresolvable",
                            "reasons": [f"{SPREAD_REFUSAL} (missing required label)"],
                        },
                    }
                },
            ),
            f"PodTopologySpread: {EMPTY_VALUE}",
        ),
        (
            case(
                pod=asking(containers=[{"resources": {"requests": {"cpu": "1"}}}]),
                pods=[ENDED],
                results={"NodeResourcesFit": refused("Insufficient cpu")},
            ),
            f"NodeResourcesFit: {ENDED_PODS}",
        ),
        (
            case(
                pod=asking(tolerations=[{"key": "k", "operator": "Gt", "value": "1"}]),
                nodes=[
                    {
                        "metadata": {"name": "n"},
                        "spec": {"taints": [{"key": "k", "value": "2", "effect": "NoSchedule"}]},
                    }
                ],
                results={
                    "TaintToleration": refused(
                        "node(s) had taint {k: 2}, that the pod didn't tolerate", code="UnschedulableAndUnresolvable"
                    )
                },
            ),
            f"TaintToleration: {NEW_FIELDS}",
        ),
    ],
)
def test_rules_that_changed_are_recognised(one: Any, rule: str, tmp_path: Path) -> None:
    found = oracle.compare(written(tmp_path, one))
    assert not found.differences
    assert dict(found.otherwise) == {rule: 1}


def test_pods_that_have_ended_use_nothing(tmp_path: Path) -> None:
    one = case(pod=asking(containers=[{"resources": {"requests": {"cpu": "1"}}}]), pods=[ENDED])
    found = oracle.compare(written(tmp_path, one | {"verdicts": {"NodeResourcesFit": {}}}))
    assert (found.different, dict(found.otherwise)) == (0, {})


@pytest.mark.parametrize(
    ("requests", "reasons"),
    [
        # 1.20 goes through a map of them.
        ({"a.com/x": "1", "b.com/y": "1"}, ["Insufficient b.com/y", "Insufficient a.com/x"]),
        ({"cpu": "2", "a.com/x": "1"}, ["Insufficient cpu", "Insufficient a.com/x"]),
        ({"requests.a.com/x": "1"}, []),
        ({"requests.kubernetes.io/x": "1"}, ["Insufficient requests.kubernetes.io/x"]),
    ],
)
def test_resources_that_are_not_kubernetes_own(requests: Any, reasons: list[str], tmp_path: Path) -> None:
    refusal = refused(*reasons) if reasons else {}
    one = case(pod=asking(containers=[{"resources": {"requests": requests}}]), results={"NodeResourcesFit": refusal})
    found = oracle.compare(written(tmp_path, one))
    assert (found.differences, dict(found.otherwise)) == ([], {})


@pytest.mark.parametrize(
    "reasons", [["Insufficient a.com/x", "Insufficient cpu"], ["Insufficient cpu", "Insufficient cpu"]]
)
def test_only_those_have_no_order(reasons: list[str], tmp_path: Path) -> None:
    container = {"resources": {"requests": {"cpu": "2", "a.com/x": "1"}}}
    one = case(pod=asking(containers=[container]), results={"NodeResourcesFit": refused(*reasons)})
    assert oracle.compare(written(tmp_path, one)).different == 1


def test_what_an_init_container_does_not_request_is_not_compared(tmp_path: Path) -> None:
    """A container that requests 0 of something has 1.20 compare all else; an init container has not."""
    spec = {"initContainers": [{"resources": {"requests": {"example.com/a": "0"}}}]}
    one = case(pod=asking(**spec), pods=[FULL], results={"NodeResourcesFit": {}})
    assert not oracle.compare(written(tmp_path, one)).different
    cheated = case(pod=asking(**spec), pods=[FULL], results={"NodeResourcesFit": refused("Insufficient cpu")})
    assert oracle.compare(written(tmp_path, cheated)).different == 1


def test_old_rules_excuse_no_other_answer() -> None:
    """1.20 has all of its rules at once: an answer by some of them only is nobody's."""
    answers = (PASSED, Answer("Unschedulable", ("Insufficient cpu",)), Answer("Unschedulable", (SPREAD_REFUSAL,)))
    excused = 0
    for _, one in itertools.islice(oracle_file.read_cases(RECORDED), 300):
        view, pod = oracle_file.cluster_of(one)
        for plugin in (node_resources_fit, pod_topology_spread):
            judging = [each for each in plugins.ALL if each.name == plugin.NAME]
            for node in one.nodes:
                given = oracle._answer(view.judge(pod, node.metadata.name, judging))
                recorded = one.answers[plugin.NAME].get(node.metadata.name, PASSED)
                if recorded != given:
                    excused += 1
                    wrong = {*answers, Answer(recorded.code, recorded.reasons[1:])} - {given, recorded}
                    assert not [each for each in wrong if explains(plugin.NAME, one, node, each, given)]
    assert excused > 20


def test_some_of_the_old_rules_alone_excuse_nothing(tmp_path: Path) -> None:
    """1.20 counts three pods in zone a for the first constraint, and for both the same: it finds as many in zone b."""
    nodes = [{"metadata": {"name": name, "labels": {"zone": zone, "kind": name}}} for name, zone in ("na", "ma", "ob")]
    pods = [
        {"metadata": {"namespace": "ns", "labels": {"app": app}}, "spec": {"nodeName": node}}
        for app, node in ("xn", "xm", "yo", "yo", "yo")
    ]
    expression = {"key": "kind", "operator": "NotIn", "values": ["m"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "topologySpreadConstraints": [{**SPREAD, "maxSkew": 2}, {**SPREAD, "maxSkew": 3, "labelSelector": {}}],
    }
    one = case(pod=asking(**spec), pods=pods, nodes=nodes, results={"PodTopologySpread": {}})
    found = oracle.compare(written(tmp_path, one))
    assert (found.different, dict(found.otherwise)) == (0, {})
    only_other_nodes = one | {"verdicts": {"PodTopologySpread": refused(SPREAD_REFUSAL)}}
    assert oracle.compare(written(tmp_path, only_other_nodes)).different == 1
