"""The predicates say what kube-scheduler 1.20 said of the same clusters, and the comparison finds what differs."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from schedulerd.kubernetes.predicates import node_affinity, plugins, taint_toleration
from schedulerd.kubernetes.predicates.cluster_view import ClusterView
from schedulerd.kubernetes.predicates.refusal import Code, Refusals
from tests.kubernetes import builders, oracle, oracle_file
from tests.kubernetes.oracle_rules import ALL_RESOURCES, NEW_FIELDS, NO_NODE_COUNTS, OTHER_NODES, ROUNDED_EARLY

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
        shuffled = ClusterView()
        shuffled.put_pod(asked)
        shuffled.judge(asked, "nowhere")
        pods = [oracle_file.with_uid(pod, f"pod {index}") for index, pod in enumerate(one.pods)]
        for pod in chance.sample(pods, len(pods)):
            if chance.random() < 0.5:
                shuffled.assume(builders.placed(pod, ""), chance.choice(pods).spec.node_name)
            shuffled.put_pod(pod)
            if chance.random() < 0.2:
                shuffled.remove_pod(pod.metadata.uid)
                shuffled.put_pod(pod)
        for node in chance.sample(one.nodes, len(one.nodes)):
            shuffled.put_node(builders.node(node.metadata.name, {"zone": "none"}))
            shuffled.put_node(node)
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
FULL = {
    "metadata": {"namespace": "ns"},
    "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "5"}}}]},
}


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
