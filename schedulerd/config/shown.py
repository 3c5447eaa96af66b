"""A queue file as it is shown: in the order of YuniKorn's own configuration, as YAML and with the names of its JSON.

Values keep the text that was written (`16Gi` stays `16Gi`). What the scheduler does with two spellings alike is shown
in one: a parent queue is marked as one, limits of the partition are those of root. Rendering takes as long as reading,
so a server does it where it reads texts of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from schedulerd.config.specs import DEFAULT_PARTITION
from schedulerd.settings.document import read_document

Shown = dict[str, Any]
Names = Mapping[str, Mapping[str, str]]

_INDENT = 4


@dataclass(frozen=True, slots=True)
class ShownConfiguration:
    """A queue file, to be shown."""

    yaml: str = ""
    """The key `partitions` with all below it; '' if there is none."""
    partitions: list[Shown] = field(default_factory=list)
    """The partitions with the names and the values of YuniKorn's JSON."""
    properties_by_queue: Mapping[str, Names] = field(default_factory=dict)
    """By partition and path of the queue in lower case, the properties of the queue."""
    properties_of_templates: Mapping[str, Names] = field(default_factory=dict)
    """By partition and path of the queue in lower case, the properties of the child template of the queue."""

    def properties(self, partition: str, path: str) -> Mapping[str, str]:
        """The properties of a queue as written there."""
        return self.properties_by_queue.get(partition, {}).get(path, {})

    def template_properties(self, partition: str, path: str) -> Mapping[str, str]:
        """The properties of the child template of a queue as written there."""
        return self.properties_of_templates.get(partition, {}).get(path, {})


def show_queue_file(text: str) -> ShownConfiguration:
    """Renders a queue file that is valid. What cannot be read is left out."""
    data = read_document(text).data
    written = _list(data.get("partitions")) if isinstance(data, dict) else []
    partitions = [_partition(one) for one in written if isinstance(one, dict)]
    properties: dict[str, dict[str, Mapping[str, str]]] = {}
    templates: dict[str, dict[str, Mapping[str, str]]] = {}
    for one in partitions:
        name = one["name"]
        for queue, path in _walk(one["queues"], ""):
            properties.setdefault(name, {})[path] = queue.get("properties", {})
            templates.setdefault(name, {})[path] = queue.get("childtemplate", {}).get("properties", {})
    return ShownConfiguration(
        yaml=_yaml({"partitions": partitions}) if partitions else "",
        partitions=[_renamed(one, _PARTITION) for one in partitions],
        properties_by_queue=properties,
        properties_of_templates=templates,
    )


def _walk(queues: list[Shown], above: str) -> list[tuple[Shown, str]]:
    found = []
    for queue in queues:
        path = above + str(queue.get("name", "")).lower()
        found += [(queue, path), *_walk(queue.get("queues", []), path + ".")]
    return found


def _yaml(value: Shown) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.indent = _INDENT
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # its stubs know None only
    yaml.width = 10_000
    out = StringIO()
    yaml.dump(value, out)
    return out.getvalue()


# the order and the types of YuniKorn's configuration ----------------------------------------------------------------


def _partition(data: Shown) -> Shown:
    name = _text(data.get("name")) or DEFAULT_PARTITION
    root = _top(_list(data.get("queues")))
    limits = _limits(data.get("limits"))
    if limits and not root.get("limits"):
        root["limits"] = limits
    return _present(
        {
            "name": DEFAULT_PARTITION if name.lower() == DEFAULT_PARTITION else name,
            "queues": [root],
            "placementrules": [_rule(one) for one in _list(data.get("placementrules")) if isinstance(one, dict)],
            "limits": limits,
            "preemption": _mapping(data.get("preemption"), enabled=_flag, quotapreemptionenabled=_flag, optout=_text),
            "nodesortpolicy": _mapping(data.get("nodesortpolicy"), type=_text, resourceweights=_weights),
            "topology": [_mapping(one, name=_text, attribute=_text) for one in _list(data.get("topology"))],
            "topologykeys": _names(data.get("topologykeys")),
            "usergroupresolver": _mapping(data.get("usergroupresolver"), type=_text),
        }
    )


def _top(queues: list[Any]) -> Shown:
    """The root queue; queues that stand at the top without one are below it."""
    written = [_queue(one) for one in queues if isinstance(one, dict)]
    if len(written) == 1 and written[0].get("name", "").lower() == "root":
        return {**_moved_behind_name(written[0]), "name": "root"}
    return _present({"name": "root", "parent": True, "queues": written})


def _moved_behind_name(root: Shown) -> Shown:
    rest = {key: value for key, value in root.items() if key not in ("name", "parent")}
    return {"name": "root", "parent": True, **rest}


def _queue(data: Shown) -> Shown:
    children = [_queue(one) for one in _list(data.get("queues")) if isinstance(one, dict)]
    return _present(
        {
            "name": _text(data.get("name")),
            "parent": True if children else _flag(data.get("parent")),
            "resources": _resources(data.get("resources")),
            "maxapplications": _count(data.get("maxapplications")),
            "properties": _texts(data.get("properties")),
            "adminacl": _text(data.get("adminacl")),
            "submitacl": _text(data.get("submitacl")),
            "childtemplate": _mapping(
                data.get("childtemplate"), maxapplications=_count, properties=_texts, resources=_resources
            ),
            "queues": children,
            "limits": _limits(data.get("limits")),
        }
    )


def _resources(data: Any) -> Shown:
    return _mapping(data, guaranteed=_texts, max=_texts)


def _limits(data: Any) -> list[Shown]:
    return [
        _mapping(one, limit=_text, users=_names, groups=_names, maxresources=_texts, maxapplications=_count)
        for one in _list(data)
    ]


def _rule(data: Shown) -> Shown:
    return _mapping(data, name=_text, create=_flag, filter=_filter, parent=_parent_rule, value=_text)


def _parent_rule(data: Any) -> Shown:
    return _rule(data) if isinstance(data, dict) else {}


def _filter(data: Any) -> Shown:
    return _mapping(data, type=_text, users=_names, groups=_names)


def _mapping(data: Any, **parts: Callable[[Any], Any]) -> Shown:
    """The known keys, in this order, as far as they have a value."""
    return _present({key: shown(data.get(key)) for key, shown in parts.items()}) if isinstance(data, dict) else {}


def _present(data: Shown) -> Shown:
    return {key: value for key, value in data.items() if value}


def _list(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def _text(data: Any) -> str:
    return data if isinstance(data, str) else ""


def _names(data: Any) -> list[str]:
    return [_text(one) for one in _list(data)]


def _texts(data: Any) -> dict[str, str]:
    return {key: _text(data[key]) for key in sorted(data)} if isinstance(data, dict) else {}


def _weights(data: Any) -> dict[str, float]:
    return {key: _number(text) for key, text in _texts(data).items()}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return int(value) if value.is_integer() else value


def _count(data: Any) -> int:
    text = _text(data)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


def _flag(data: Any) -> bool:
    return _text(data).lower() == "true"


# the names of YuniKorn's JSON ---------------------------------------------------------------------------------------

_RESOURCES = {"guaranteed": "Guaranteed", "max": "Max"}
_TEMPLATE: Shown = {
    "maxapplications": "MaxApplications",
    "properties": "Properties",
    "resources": ("Resources", _RESOURCES),
}
_LIMIT = {
    "limit": "Limit",
    "users": "Users",
    "groups": "Groups",
    "maxresources": "MaxResources",
    "maxapplications": "MaxApplications",
}
_QUEUE: Shown = {
    "name": "Name",
    "parent": "Parent",
    "resources": ("Resources", _RESOURCES),
    "maxapplications": "MaxApplications",
    "properties": "Properties",
    "adminacl": "AdminACL",
    "submitacl": "SubmitACL",
    "childtemplate": ("ChildTemplate", _TEMPLATE),
    "queues": ("Queues", None),
    "limits": ("Limits", _LIMIT),
}
_QUEUE["queues"] = ("Queues", _QUEUE)
_RULE: Shown = {
    "name": "Name",
    "create": "Create",
    "filter": ("Filter", {"type": "Type", "users": "Users", "groups": "Groups"}),
    "parent": ("Parent", None),
    "value": "Value",
}
_RULE["parent"] = ("Parent", _RULE)
_PARTITION: Shown = {
    "name": "Name",
    "queues": ("Queues", _QUEUE),
    "placementrules": ("PlacementRules", _RULE),
    "limits": ("Limits", _LIMIT),
    "preemption": ("Preemption", {"enabled": "Enabled", "quotapreemptionenabled": "QuotaPreemptionEnabled"}),
    "nodesortpolicy": ("NodeSortPolicy", {"type": "Type", "resourceweights": "ResourceWeights"}),
    "usergroupresolver": ("UserGroupResolver", {"type": "Type"}),
}
_ALWAYS: list[tuple[Shown, Shown]] = [
    (_QUEUE, {"resources": {}, "childtemplate": {"resources": {}}}),
    (_TEMPLATE, {"resources": {}}),
    (_RULE, {"filter": {"type": ""}}),
    (_PARTITION, {"preemption": {}, "nodesortpolicy": {"type": ""}, "usergroupresolver": {}}),
]
"""What is shown even where it was not written."""


def _renamed(data: Shown, names: Shown) -> Shown:
    always = next((found for kind, found in _ALWAYS if kind is names), {})
    shown: Shown = {}
    for key, name in names.items():
        value = data.get(key, always.get(key))
        if value is None:
            continue
        if isinstance(name, str):
            shown[name] = value
        elif isinstance(value, list):
            shown[name[0]] = [_renamed(one, name[1]) for one in value]
        else:
            shown[name[0]] = _renamed({**always.get(key, {}), **value}, name[1])
    return shown
