"""Values by which operators fit the chart to their cluster, and what the notes tell them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.chart.helm import CHART, CUSTOM, needs_helm, one_of, render, run, scheduler
from tests.kubernetes.chart.test_templates import ALONE, EVERYTHING

pytestmark = needs_helm
JSON = dict[str, Any]


def test_labels_of_a_monitor_win_over_common_ones() -> None:
    monitors = [one for one in render(EVERYTHING, api_versions=CUSTOM) if one["kind"] == "PodMonitor"]
    assert [one["metadata"]["labels"]["team"] for one in monitors] == ["monitoring"] * 2
    endpoints = [each for one in monitors for each in one["spec"]["podMetricsEndpoints"]]
    assert {each["port"] for each in endpoints} == {"daemon", "shim", "http"}
    for each in endpoints:
        assert (each["interval"], each["scrapeTimeout"]) == ("15s", "10s")
        assert each["relabelings"] == EVERYTHING["podMonitor"]["relabelings"]
        assert each["metricRelabelings"] == EVERYTHING["podMonitor"]["metricRelabelings"]


def test_kinds_are_made_without_a_look_at_the_server() -> None:
    forced = {"podMonitor": {"force": True}, "prometheusRule": {"force": True}}
    assert {"PodMonitor", "PrometheusRule"} <= {one["kind"] for one in render(forced)}


def test_tokens_and_volumes_are_mounted(tmp_path: Path) -> None:
    pod = one_of(scheduler(EVERYTHING), "Deployment")["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["http-tokens"]["secret"] == {"secretName": "tokens", "items": [{"key": "t", "path": "t"}]}
    assert volumes["journal"] == {"name": "journal", "emptyDir": {}}
    daemon, shim = pod["containers"]
    mounts = {one["name"]: one["mountPath"] for one in daemon["volumeMounts"]}
    assert f"--http-tokens-file={mounts['http-tokens']}/t" in daemon["args"]
    assert "--http-debug-state=off" in daemon["args"]
    assert mounts["journal"] == shim["volumeMounts"][-1]["mountPath"] == "/var/lib/schedulerd"
    daemon, _ = one_of(scheduler(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--http-debug-state=auto" in daemon["args"], "for clients in the pod alone"


def test_everything_listens_where_the_value_says() -> None:
    for values, host in (({"admission": {"enabled": True}}, "0.0.0.0"), (EVERYTHING, "[::]")):
        pods = [one["spec"]["template"]["spec"] for one in render(values) if one["kind"] == "Deployment"]
        flags = [each for pod in pods for one in pod["containers"] for each in one["args"] if "bind=" in each]
        addresses = [each.partition("=")[2].rpartition(":")[0] for each in flags if "unix:" not in each]
        assert addresses == [host] * 5


def test_pods_are_spread_over_zones_and_nodes() -> None:
    for one in render({"admission": {"enabled": True}}):
        if one["kind"] == "Deployment":
            template = one["spec"]["template"]
            spread = template["spec"]["topologySpreadConstraints"]
            assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
            for each in spread:
                assert each["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_a_quota_for_the_priority_class() -> None:
    quota = one_of(render(EVERYTHING), "ResourceQuota")["spec"]
    assert quota["hard"] == {"pods": "7"}
    assert quota["scopeSelector"]["matchExpressions"][0]["values"] == ["system-cluster-critical"]
    assert not [one for one in render() if one["kind"] == "ResourceQuota"]


def test_what_the_pods_reach() -> None:
    """The API server, by a name too."""
    for one in (each for each in render(EVERYTHING) if each["kind"] == "NetworkPolicy"):
        ports = {port["port"] for rule in one["spec"]["egress"] for port in rule["ports"]}
        assert {6443, 53} <= ports


@pytest.mark.parametrize(
    ("values", "said", "unsaid"),
    [
        ({}, ["and no others", "write any user", "service/schedulerd-leader 9080", "WARNING: image.repository"], []),
        (ALONE, ["port-forward deployment/schedulerd 9080"], ["-leader"]),
        ({"replicas": 0}, ["nothing is scheduled until"], []),
        ({"image": {"repository": "registry.example/schedulerd"}}, [], ["WARNING"]),
        ({"image": {"repository": "someone/schedulerd"}}, ["WARNING"], []),
        ({"admission": {"enabled": True}}, ["in EVERY namespace", "but: kube-system, schedulerd;"], ["and no others"]),
        (EVERYTHING, ["in the namespaces team-.*", "kube-system, schedulerd, cni, storage;"], ["EVERY", "WARNING"]),
    ],
)
def test_the_notes_say_what_is_scheduled_now(values: JSON, said: list[str], unsaid: list[str]) -> None:
    flags = ("--namespace", "schedulerd", "--dry-run=client", "--values", "-")
    notes = run("install", "schedulerd", str(CHART), *flags, given=json.dumps(values)).partition("\nNOTES:\n")[2]
    assert all(one in notes for one in said), notes
    assert not [one for one in unsaid if one in notes], notes
