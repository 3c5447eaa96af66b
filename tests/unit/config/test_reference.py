"""`docs/queue-file.md` describes exactly the keys that the models have, with their defaults, and its examples load."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from ruamel.yaml import YAML

from schedulerd.config import QueueFile, load_queue_file, models
from schedulerd.config.properties import PROPERTIES
from schedulerd.core.language.specs import Acl, ApplicationOrder, QueueOrder, QueueProperties
from tests.loops import each_row
from tests.unit.config.build import a_partition, load_queue, problems_of

REFERENCE = Path(__file__).parents[3] / "docs" / "queue-file.md"
TEXT = REFERENCE.read_text(encoding="utf-8")
SECTION = re.compile(r"^## [^`\n]+: (?:``|`(?P<name>[^`]+)`)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(
    r"^\| `(?P<key>[^`]+)` \| (?P<type>[^|]+) \| (?P<default>[^|]+) \| (?P<inherited>[^|]*)\| [^|]+ \|$", re.M
)
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SECTIONS: dict[str, type[BaseModel]] = {
    "": models.QueueConfiguration,
    "partitions[]": models.Partition,
    "queues[]": models.Queue,
    "resources": models.QueueResources,
    "childtemplate": models.ChildTemplate,
    "limits[]": models.Limit,
    "placementrules[]": models.PlacementRule,
    "filter": models.Filter,
    "nodesortpolicy": models.NodeSortPolicy,
    "topology[]": models.TopologyLevel,
    "preemption": models.Preemption,
    "usergroupresolver": models.UserGroupResolver,
}


def sections() -> dict[str, str]:
    return {match["name"] or "": match["body"] for match in SECTION.finditer(TEXT)}


def rows(section: str) -> dict[str, re.Match[str]]:
    """The rows of a section's table by key; every line of the table with a key is one."""
    body = sections()[section]
    found = {match["key"]: match for match in ROW.finditer(body)}
    assert len(found) == len(re.findall(r"^\| `", body, re.M)), f"a row of {section!r} is not of the form of the others"
    return found


def reachable(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for inner in _models(field.annotation):
            if inner is not model:
                yield from reachable(inner)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def test_there_is_a_section_for_every_mapping_with_known_keys() -> None:
    assert set(reachable(models.QueueConfiguration)) - {models.Amounts} == set(SECTIONS.values())
    assert set(sections()) == {*SECTIONS, "properties"}


@each_row("section", SECTIONS)
def test_every_key_is_described_and_every_described_key_exists(section: str) -> None:
    assert set(rows(section)) == set(SECTIONS[section].model_fields)


def test_every_property_is_described_and_every_described_property_exists() -> None:
    assert {name: row["default"].strip("` ") for name, row in rows("properties").items()} == {
        name: item.default for name, item in PROPERTIES.items()
    }


@each_row(("name", "values"), [("application.sort.policy", ApplicationOrder), ("queue.sort.policy", QueueOrder)])
def test_every_order_is_described(name: str, values: type[StrEnum]) -> None:
    assert set(re.findall(r"`(\w+)`", rows("properties")[name]["type"])) == {one.value for one in values}


def test_exactly_the_properties_without_effect_are_said_to_be() -> None:
    assert {name for name, row in rows("properties").items() if "Not enforced" in row[0]} == {
        name for name, item in PROPERTIES.items() if not item.field
    }


OTHER_VALUES = {
    "application.sort.policy": ["fair", "stateaware", "drf"],
    "queue.sort.policy": ["drf"],
    "application.sort.priority": ["disabled"],
    "priority.policy": ["fence"],
    "priority.offset": ["7"],
    "preemption.policy": ["fence", "disabled"],
    "preemption.delay": ["5s"],
    "quota.preemption.delay": ["5m"],
    "gang.placeholder.idle.timeout": ["5m"],
    "preemption.within-queue": ["priority"],
    "stateaware.timeout": ["1m"],
    "gang.on-below-min": ["fail"],
    "gang.below-min.timeout": ["1h"],
}


@each_row("name", sorted(name for name, item in PROPERTIES.items() if item.field))
def test_what_a_child_takes_over_of_the_properties(name: str) -> None:
    taken_over = []
    for value in OTHER_VALUES[name]:
        parent = load_queue(properties={name: value}, queues=[{"name": "child"}])
        assert parent.properties != QueueProperties()
        if parent.children[0].properties == parent.properties:
            taken_over.append(value)
        else:
            assert parent.children[0].properties == QueueProperties()
    some = "no" if not taken_over else f"{', '.join(f'`{value}`' for value in taken_over)} only"
    assert rows("properties")[name]["inherited"].strip() == ("yes" if taken_over == OTHER_VALUES[name] else some)


def a_file_with(section: str, written: dict[str, Any]) -> str:
    """A valid file with `written` added to the mapping of `section`, and with all that this mapping needs."""
    data: dict[str, Any] = {"partitions": [a_partition({"name": "a", "parent": True}, {"name": "b"})]}
    partition: dict[str, Any] = data["partitions"][0]
    queue: dict[str, Any] = partition["queues"][0]["queues"][0]
    rule: dict[str, Any] = {"name": "user"}
    limit: dict[str, Any] = {"users": ["bob"], "groups": ["dev"], "maxapplications": 1, "maxresources": {"memory": 1}}
    level = {"name": "rack", "attribute": "r"}
    match section:
        case "placementrules[]" | "filter":
            partition["placementrules"] = [rule]
        case "limits[]":
            queue["limits"] = [limit]
        case "topology[]":
            partition["topology"] = [level]
    mapping: dict[str, dict[str, Any]] = {
        "": data,
        "partitions[]": partition,
        "queues[]": queue,
        "resources": queue.setdefault("resources", {}),
        "childtemplate": queue.setdefault("childtemplate", {}),
        "limits[]": limit,
        "placementrules[]": rule,
        "filter": rule.setdefault("filter", {}),
        "nodesortpolicy": partition.setdefault("nodesortpolicy", {}),
        "topology[]": level,
        "preemption": partition.setdefault("preemption", {}),
        "usergroupresolver": partition.setdefault("usergroupresolver", {}),
    }
    mapping[section].update(written)
    return json.dumps(data)


def loaded(section: str, written: dict[str, Any]) -> QueueFile:
    return replace(load_queue_file(a_file_with(section, written)), checksum="", warnings=())


KEYS = [(section, key) for section in SECTIONS for key in SECTIONS[section].model_fields]


@each_row(("section", "key"), KEYS, ids=[f"{section}.{key}" for section, key in KEYS])
def test_the_default_is_what_holds_without_the_key(section: str, key: str) -> None:
    default = rows(section)[key]["default"].strip()
    field = SECTIONS[section].model_fields[key]
    if default == "required":
        ((path, message),) = problems_of(a_file_with(section, {key: None}))
        assert path.endswith(f"{section.replace('[]', '[0]')}.{key}")
        assert message.startswith("missing")
    elif default in ("empty", "none"):
        assert field.get_default(call_default_factory=True) in ("", (), {}, None, *_empty_values())
    else:
        assert default.startswith("`"), "a default that can be written is in code"
        assert loaded(section, {key: YAML(typ="safe", pure=True).load(default.strip("`"))}) == loaded(
            section, {key: None}
        )
        assert field.annotation is not bool or default == f"`{str(field.default).lower()}`"


def _empty_values() -> list[object]:
    return [Acl(), models.Amounts(), *(model() for model in SECTIONS.values())]


def test_links_lead_to_sections() -> None:
    anchors = {
        re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^## (.*)", TEXT, re.M)
    }
    assert set(re.findall(r"\(#([^)]+)\)", TEXT)) <= anchors


@each_row("section", ["An example", *sections()])
def test_the_examples_load(section: str) -> None:
    (example,) = EXAMPLE.findall(TEXT.partition("\n## ")[0] if section == "An example" else sections()[section])
    warnings = load_queue_file(example).warnings
    assert [problem.path for problem in warnings] == (["", "checksum"] if section == "" else [])
    if SECTIONS.get(section):
        assert all(re.search(rf"\b{key}:", example) for key in _shown(section)), (
            "an example shows the keys of its section"
        )


def _shown(section: str) -> set[str]:
    """The keys that the example of a section has to show; what is a section of its own is shown there."""
    own = {name.rstrip("[]") for name in SECTIONS} | {"properties"}
    return set(SECTIONS[section].model_fields) - own
