"""The queue files in tests/data: each has beside it all that is to be said about it, line by line."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

import pytest

from schedulerd.config import QueueFile, QueueFileInvalid, load_queue_file
from schedulerd.config.default_file import default_queue_file_text
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    Acl,
    ApplicationOrder,
    FilterSpec,
    NodeOrder,
    PartitionSpec,
    QueueSpec,
    RuleSpec,
)
from tests.loops import each_row
from tests.unit.config.build import a_partition, a_text, load_partition, load_queue, queues_by_path

FILES = FilePath(__file__).parents[2] / "data" / "queue_files"
EVERYBODY = Acl(everybody=True)
GI = 2**30


def load(name: str) -> QueueFile:
    return load_queue_file((FILES / "valid" / f"{name}.yaml").read_text(encoding="utf-8"))


def names(directory: str) -> list[str]:
    found = sorted(file.stem for file in (FILES / directory).glob("*.yaml"))
    assert found, f"no queue files in {FILES / directory}"
    return found


def said(problems: tuple[object, ...]) -> str:
    return "".join(f"{problem}\n" for problem in problems)


@each_row("name", names("valid"))
def test_a_valid_file_loads_with_its_warnings(name: str) -> None:
    assert said(load(name).warnings) == (FILES / "valid" / f"{name}.txt").read_text(encoding="utf-8")


@each_row("name", names("invalid"))
def test_all_problems_of_an_invalid_file_are_told_at_once(name: str) -> None:
    with pytest.raises(QueueFileInvalid) as raised:
        load_queue_file((FILES / "invalid" / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
    assert said(raised.value.problems) == (FILES / "invalid" / f"{name}.txt").read_text(encoding="utf-8")
    assert str(raised.value).startswith(f"{name}.yaml: {len(raised.value.problems)} problem")
    assert len(str(raised.value).splitlines()) == len(raised.value.problems) + 1


def test_the_shipped_file_is_valid_and_without_warnings() -> None:
    file = load_queue_file(default_queue_file_text())
    assert file.warnings == ()
    assert [partition.name for partition in file.partitions] == ["default"]
    root = file.partitions[0].root
    assert root.submit_acl == EVERYBODY
    assert sum(queue.guaranteed["vcore"] for queue in root.children) <= 200 * 16_000, "fits the demo's 200 nodes"


def test_a_partition_without_extras() -> None:
    assert load("minimal").partitions == (
        PartitionSpec(name="default", root=QueueSpec(name="root", parent=True, submit_acl=EVERYBODY)),
    )


def test_root_is_put_above_queues_that_have_none() -> None:
    (partition,) = load("no_root").partitions
    assert partition.name == "default"
    assert partition.root == QueueSpec(
        name="root",
        parent=True,
        children=(
            QueueSpec(name="Production", submit_acl=EVERYBODY),
            QueueSpec(
                name="staging", submit_acl=Acl(users=frozenset({"alice", "bob"}), groups=frozenset({"developers"}))
            ),
        ),
    )


def test_a_root_that_is_not_alone_gets_a_root_above() -> None:
    root = load("root_below_root").partitions[0].root
    assert [child.name for child in root.children] == ["root", "other"]


def test_units() -> None:
    decimal, binary, text = load("units").partitions[0].root.children
    assert decimal.max == Limits({"memory": 64 * 10**9, "vcore": 4000, "ephemeral-storage": 10 * 10**12, "pods": 110})
    assert binary.guaranteed == Resources({"memory": 512 * 2**20, "vcore": 250})
    assert binary.max == Limits({"memory": 2**60, "vcore": 1_000_000, "nvidia.com/gpu": 8, "hugepages-2Mi": 0})
    assert text.max == Limits({"memory": 10, "vcore": 1500})


def test_a_missing_amount_is_unlimited_and_a_zero_is_none() -> None:
    spec = load_queue(resources={"max": {"gpu": 0}})
    assert dict(spec.max) == {"gpu": 0}
    assert spec.guaranteed.is_zero()


def test_quotas_and_inherited_order_at_every_level() -> None:
    queues = queues_by_path(load("deep_tree").partitions[0].root)
    assert list(queues) == [
        "root",
        "root.company",
        "root.company.research",
        "root.company.research.vision",
        "root.company.research.vision.nightly",
        "root.company.research.vision.adhoc",
        "root.company.research.speech",
        "root.company.finance",
    ]
    order = {path.rpartition(".")[2]: spec.properties.application_order.value for path, spec in queues.items()}
    assert order == {
        "root": "fair",
        "company": "fair",
        "research": "fifo",
        "vision": "fifo",
        "nightly": "fair",
        "adhoc": "fifo",
        "speech": "fifo",
        "finance": "fair",
    }
    assert queues["root.company"].max == Limits({"memory": 200 * GI, "vcore": 200_000})
    assert queues["root.company.research.speech"].guaranteed == Resources({"memory": 20 * GI, "vcore": 60_000})
    assert [path for path, spec in queues.items() if spec.is_leaf] == [
        "root.company.research.vision.nightly",
        "root.company.research.speech",
        "root.company.finance",
    ]
    assert queues["root"].admin_acl == Acl(users=frozenset({"admin"}), groups=frozenset({"ops"}))
    assert queues["root.company"].submit_acl == Acl()


def test_partitions_with_their_policies() -> None:
    default, gpu = load("two_partitions").partitions
    assert (default.name, default.preemption_enabled, default.node_order) == ("default", False, NodeOrder.BINPACKING)
    assert default.node_weights == {"memory": 1.0, "vcore": 1.0}
    assert (gpu.name, gpu.preemption_enabled, gpu.node_order) == ("gpu-nodes", True, NodeOrder.FAIR)
    assert gpu.node_weights == {"vcore": 0.5, "nvidia.com/gpu": 4.0, "memory": 0.0}
    assert gpu.root.submit_acl.allows("svc$", ())
    assert gpu.root.submit_acl.allows("u#1/x@corp.example.com", ())
    assert gpu.root.submit_acl.allows("somebody", ("oidc:/groups/admins",))
    assert not gpu.root.submit_acl.allows("somebody", ("guests",))


@pytest.mark.parametrize(
    ("written", "between_queues", "for_quotas"),
    [
        (None, True, False),
        ({}, True, False),
        ({"enabled": False}, False, False),
        ({"quotapreemptionenabled": True}, True, True),
        ({"enabled": False, "quotapreemptionenabled": True}, False, True),
        ({"enabled": None, "quotapreemptionenabled": None}, True, False),
    ],
)
def test_preemption_between_queues_and_for_quotas_are_switched_apart(
    written: Any, between_queues: bool, for_quotas: bool
) -> None:
    file = load_queue_file(a_text(a_partition(preemption=written)))
    (partition,) = file.partitions
    assert (partition.preemption_enabled, partition.quota_preemption_enabled) == (between_queues, for_quotas)
    assert file.warnings == ()


@pytest.mark.parametrize(
    ("written", "read"), [({}, "never"), ({"optout": "Last"}, "last"), ({"optout": None}, "never")]
)
def test_what_an_opt_out_of_preemption_means(written: Any, read: str) -> None:
    file = load_queue_file(a_text(a_partition(preemption=written)))
    assert [partition.preemption_optout for partition in file.partitions] == [read]
    with pytest.raises(QueueFileInvalid, match="must be one of never, last"):
        load_queue_file(a_text(a_partition(preemption={"optout": "maybe"})))


def test_a_cluster_of_namespaces() -> None:
    (partition,) = load("namespaces").partitions
    assert [rule.kind for rule in partition.rules] == ["tag", "tag", "user", "fixed", "recovery"]
    assert [rule.parent.value for rule in partition.rules if rule.parent] == [
        "root.namespaces.production",
        "root.namespaces",
        "root.users",
    ]
    queues = queues_by_path(partition.root)
    assert partition.root.limits[0].users == ("*",)
    production, namespaces = queues["root.namespaces.production"].template, queues["root.namespaces"].template
    assert production is not None
    assert namespaces is not None
    assert production.properties is None
    assert (namespaces.max_applications, namespaces.max["nvidia.com/gpu"]) == (200, 0)
    assert queues["root.namespaces.production"].properties.priority_offset == 1000
    assert queues["root.shared"].properties.application_order is ApplicationOrder.STATE_AWARE


def test_an_institute_with_two_partitions() -> None:
    file = load("research")
    assert file.os_group_partitions == frozenset({"default"})
    default, gpu = file.partitions
    queues = queues_by_path(default.root)
    assert {path: queue.max_applications for path, queue in queues.items()} == {
        "root": 4000,
        "root.physics": 2000,
        "root.physics.long": 200,
        "root.physics.short": 2000,
        "root.life-sciences": 1000,
        "root.guests": 100,
        "root.guests.day": 100,
    }
    assert [limit.users for limit in queues["root.physics"].limits] == [("beamline_svc$",), ("*",)]
    kinds = []
    rule: RuleSpec | None = gpu.rules[0]
    while rule is not None:
        kinds.append((rule.kind.value, rule.create))
        rule = rule.parent
    assert kinds == [("user", True), ("tag", True), ("fixed", False)]
    assert gpu.rules[1].filter == FilterSpec(allow=False, users=("trainee",))


@pytest.mark.parametrize(("written", "looked_up"), [(None, False), ("none", False), ("OS", True), ("ldap", False)])
def test_where_groups_come_from(written: str | None, looked_up: bool) -> None:
    file = load_queue_file(a_text({**a_partition(), "name": "gpu", "usergroupresolver": {"type": written}}))
    assert file.os_group_partitions == (frozenset({"gpu"}) if looked_up else frozenset())


def test_keys_without_a_value_are_not_there() -> None:
    (partition,) = load("empty_values").partitions
    assert partition == PartitionSpec(
        name="default", root=QueueSpec(name="root", parent=True, children=(QueueSpec(name="a"),))
    )


def test_merged_keys() -> None:
    red, green, blue = load("aliases").partitions[0].root.children
    assert (red.name, green.name, blue.name) == ("red", "green", "blue")
    assert red.max == green.max == blue.max == Limits({"memory": 10 * GI, "vcore": 10_000})
    assert green.submit_acl == red.submit_acl == Acl(users=frozenset({"red"}))
    assert blue.guaranteed == Resources({"memory": GI})


@pytest.mark.parametrize("text", ["", "partitions:\n", "partitions: []\n", "{}"])
def test_an_empty_file_has_no_partitions(text: str) -> None:
    file = load_queue_file(text)
    assert file.partitions == ()
    assert said(file.warnings).endswith("there are no partitions, so nothing can be scheduled\n")


@pytest.mark.parametrize(
    ("written", "order"),
    [
        ("fifo", ApplicationOrder.FIFO),
        ("fair", ApplicationOrder.FAIR),
        ("Fair", ApplicationOrder.FAIR),
        ("stateaware", ApplicationOrder.STATE_AWARE),
        ("drf", ApplicationOrder.DRF),
    ],
)
def test_application_order(written: str, order: ApplicationOrder) -> None:
    assert load_queue(properties={"application.sort.policy": written}).properties.application_order is order
    assert load_queue().properties.application_order is ApplicationOrder.FIFO


def test_parent_is_what_was_written_and_root_is_always_one() -> None:
    assert load_queue(parent=True).parent
    assert not load_queue(parent=False).parent
    assert load_partition().root.parent


def test_values_from_the_caller_of_another_language_are_texts_too() -> None:
    """JSON numbers and flags arrive as YAML scalars, so they are read like texts."""
    text = json.dumps({"partitions": [a_partition({"name": 7, "parent": True, "resources": {"max": {"memory": 10}}})]})
    (queue,) = load_queue_file(text).partitions[0].root.children
    assert (queue.name, queue.parent, dict(queue.max)) == ("7", True, {"memory": 10})


@pytest.mark.parametrize("name", ["", "default", "DEFAULT", "Default"])
def test_default_partition_names(name: str) -> None:
    assert load_queue_file(a_text({**a_partition(), "name": name})).partitions[0].name == "default"


@each_row(
    ("max", "said"),
    [
        ({"cpu": "4"}, 'without effect unless a node reports "cpu"; Kubernetes nodes report vcore'),
        ({"gpu": 4}, 'without effect unless a node reports "gpu"; Kubernetes nodes report nvidia.com/gpu'),
        ({"mem": "4Gi"}, 'without effect unless a node reports "mem"; Kubernetes nodes report memory'),
        ({"Disk": "4Gi"}, 'without effect unless a node reports "Disk"; Kubernetes nodes report ephemeral-storage'),
        ({"memory": 64}, "64 bytes, less than any pod asks for; did you mean 64Mi or 64Gi?"),
        ({"hugepages-2Mi": "1k"}, "1000 bytes, less than any pod asks for; did you mean 1000Mi or 1000Gi?"),
        ({"vcore": "4m"}, "4 thousandths of a core, less than any pod asks for; did you mean 4 (cores)?"),
        ({"memory": "1Mi", "vcore": "10m", "pods": 1, "nvidia.com/gpu": 1, "licenses": 1}, ""),
        ({"memory": 0, "vcore": 0}, ""),
    ],
)
def test_a_quota_that_limits_nothing_or_everything_is_told(max: dict[str, Any], said: str) -> None:
    for resources in ({"resources": {"max": max}}, {"parent": True, "childtemplate": {"resources": {"max": max}}}):
        root = {"name": "root", "submitacl": "*", "queues": [{"name": "a", **resources}]}
        found = load_queue_file(a_text({"queues": [root]})).warnings
        assert [warning.message for warning in found] == ([said] if said else [])


@pytest.mark.parametrize(
    ("queues", "paths"),
    [
        ([{"name": "root"}], ["partitions[0].queues[0].submitacl"]),
        ([{"name": "root", "queues": [{"name": "a"}, {"name": "b"}]}], ["partitions[0].queues[0].submitacl"]),
        ([{"name": "root", "submitacl": "*", "queues": [{"name": "a"}]}], []),
        ([{"name": "root", "adminacl": "ann", "queues": [{"name": "a"}]}], []),
        (
            [
                {
                    "name": "root",
                    "queues": [{"name": "a", "submitacl": " dev"}, {"name": "b", "queues": [{"name": "c"}]}],
                }
            ],
            ["partitions[0].queues[0].queues[1].submitacl"],
        ),
        ([{"name": "a"}, {"name": "b"}], ["partitions[0].submitacl"]),
    ],
)
def test_queues_that_admit_no_user_are_told(queues: list[dict[str, Any]], paths: list[str]) -> None:
    found = load_queue_file(a_text({"queues": queues})).warnings
    assert [warning.path for warning in found] == paths
    assert all(warning.message.startswith("missing, so nobody may submit here") for warning in found)


def test_the_checksum_does_not_change_when_it_is_written_into_the_file() -> None:
    def text(checksum: str) -> str:
        return f"checksum: {checksum}\npartitions:\n  - queues:\n      - {{name: root, submitacl: '*'}}\n"

    stale = load_queue_file(text("0" * 64))
    assert [warning.path for warning in stale.warnings] == ["checksum"]
    stated = load_queue_file(text(stale.checksum))
    assert stated.checksum == stale.checksum
    assert stated.warnings == ()
    assert load_queue_file(text(stale.checksum.lower())).warnings == ()
    assert load_queue_file(text(stale.checksum) + "# changed\n").checksum != stale.checksum
