"""A queue file as it is shown: YAML in the peer's order, and the names of its JSON."""

from __future__ import annotations

from dataclasses import replace

from ruamel.yaml import YAML

from schedulerd.config import load_queue_file, show_queue_file
from schedulerd.core.language.specs import QueueSpec

TEXT = """
partitions:
  - limits:
      - {limit: all, users: ["*"], maxapplications: 3}
    placementrules: [{name: tag, value: namespace, create: true, parent: {name: fixed, value: root.a}}]
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: "2.50", memory: 1.0}}
    queues:
      - name: a
        submitacl: " devs"
        properties: {application.sort.policy: fair}
        resources: {max: {memory: 010Gi, vcore: "9"}}
        queues: [{name: B, childtemplate: {maxapplications: 4, properties: {x.y: "1"}}, parent: TRUE}]
"""


def _marked(queue: QueueSpec) -> QueueSpec:
    """A queue with children is a parent, marked as one or not."""
    return replace(queue, parent=not queue.is_leaf, children=tuple(map(_marked, queue.children)))


def test_what_is_shown_can_be_loaded_again_and_means_the_same() -> None:
    shown = show_queue_file(TEXT)
    (again,), (written,) = (load_queue_file(text).partitions for text in (shown.yaml, TEXT))
    assert replace(again, root=_marked(again.root)) == replace(written, root=_marked(written.root))
    assert show_queue_file(shown.yaml).partitions == shown.partitions


def test_the_text_that_was_written_in_the_peers_order() -> None:
    (partition,) = YAML(typ="safe", pure=True).load(show_queue_file(TEXT).yaml)["partitions"]
    assert list(partition) == ["name", "queues", "placementrules", "limits", "nodesortpolicy"]
    (root,) = partition["queues"]
    assert (root["name"], root["parent"]) == ("root", True)
    assert root["limits"] == partition["limits"]
    (a,) = root["queues"]
    assert list(a) == ["name", "parent", "resources", "properties", "submitacl", "queues"]
    assert a["resources"]["max"] == {"memory": "010Gi", "vcore": "9"}
    assert partition["nodesortpolicy"]["resourceweights"] == {"memory": 1, "vcore": 2.5}


def test_the_names_of_json_and_what_is_always_there() -> None:
    (partition,) = show_queue_file(TEXT).partitions
    assert partition["Preemption"] == partition["UserGroupResolver"] == {}
    (rule,) = partition["PlacementRules"]
    assert rule["Filter"] == {"Type": ""}
    assert rule["Parent"] == {"Name": "fixed", "Filter": {"Type": ""}, "Value": "root.a"}
    b = partition["Queues"][0]["Queues"][0]["Queues"][0]
    assert b["ChildTemplate"] == {"MaxApplications": 4, "Properties": {"x.y": "1"}, "Resources": {}}
    assert (b["Name"], b["Parent"], b["Resources"]) == ("B", True, {})


def test_properties_by_queue() -> None:
    shown = show_queue_file(TEXT)
    assert shown.properties("default", "root.a") == {"application.sort.policy": "fair"}
    assert shown.properties("default", "root.nope") == {}
    assert shown.template_properties("default", "root.a.b") == {"x.y": "1"}


def test_nothing_to_show() -> None:
    for text in ("", "partitions: []", "partitions: 5", "a: ["):
        shown = show_queue_file(text)
        assert (shown.yaml, shown.partitions) == ("", [])
