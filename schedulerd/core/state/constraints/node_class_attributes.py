"""Classes of asks that a resource manager decides about nodes for, as node attributes.

What a resource manager decides by rules of its own (Kubernetes: taints and node affinity) is one attribute for all asks
that it decides for alike: `c/` and 16 hexadecimal digits, which those asks require. It means nothing to people, so a
node without it may have the attribute `c!/` with the same digits, whose value says why not. Neither of these names is
shown to people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NODE_SELECTOR_TAG = "schedulerd.io/node-selector"
"""As in `node_selector`, which uses this module."""
_NODE_CLASS = re.compile(r"c/[0-9a-f]{16}")
_ANY = re.compile(r"c!?/[0-9a-f]{16}")
_IN_SELECTOR = re.compile(r"(?:(?<=^)|(?<=,))\s*c/[0-9a-f]{16}\s*(?:,|$)")


def is_node_class(attribute: str) -> bool:
    """Whether the attribute stands for such a class."""
    return _NODE_CLASS.fullmatch(attribute) is not None


def reason_attribute(node_class: str) -> str:
    """The attribute with the reason why a node does not have this one."""
    return f"c!{node_class[1:]}"


def attributes_for_people(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a node without classes and the reasons."""
    return {name: value for name, value in attributes.items() if _ANY.fullmatch(name) is None}


def tags_for_people(tags: Mapping[str, str]) -> Mapping[str, str]:
    """The tags of an ask, whose node selector is shown without classes. The same object if it has none."""
    text = tags.get(_NODE_SELECTOR_TAG)
    if text is None or _IN_SELECTOR.search(text) is None:
        return tags
    shown = dict(tags)
    shown[_NODE_SELECTOR_TAG] = _IN_SELECTOR.sub("", text).strip(" ,")
    if not shown[_NODE_SELECTOR_TAG]:
        del shown[_NODE_SELECTOR_TAG]
    return shown
