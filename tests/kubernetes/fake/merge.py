"""JSON merge patches, and strategic merge patches as far as the kinds of the fake need them."""

from __future__ import annotations

import copy
from typing import Any

MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ownerReferences": "uid",
    "imagePullSecrets": "name",
    "addresses": "type",
    "taints": "key",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists whose elements are merged by the value of a key."""
MERGED_LISTS = frozenset(("finalizers",))
"""Lists of texts to which others are added."""


def json_merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = json_merge(result.get(key), value)
    return result


def strategic_merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [one for one in result.get(name) or () if one not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list) and key in MERGE_KEYS:
            result[key] = _merged_list(result.get(key) or [], value, MERGE_KEYS[key])
        elif isinstance(value, list) and key in MERGED_LISTS:
            old = result.get(key) or []
            result[key] = [*old, *(one for one in value if one not in old)]
        else:
            result[key] = strategic_merge(result.get(key), value)
    return result


def _merged_list(old: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(one.get("$patch") == "replace" for one in patch):
        return [copy.deepcopy(one) for one in patch if "$patch" not in one]
    result = list(old)
    for one in patch:
        at = next((i for i, other in enumerate(result) if other.get(key) == one.get(key)), None)
        if one.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(copy.deepcopy(one))
        else:
            result[at] = strategic_merge(result[at], one)
    return result
