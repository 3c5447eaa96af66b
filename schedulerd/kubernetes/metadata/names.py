"""Names of labels and annotations, and which of several wins.

A value is looked up in order: label and annotation with the prefix `schedulerd.io/`, then with `yunikorn.apache.org/`,
then the older labels that have no prefix. An empty value is the same as none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from schedulerd.kubernetes.objects.meta import ObjectMeta

OWN_PREFIX = "schedulerd.io/"
YUNIKORN_PREFIX = "yunikorn.apache.org/"
PREFIXES = (OWN_PREFIX, YUNIKORN_PREFIX)

APP_ID = "app-id"
QUEUE = "queue"
USER_INFO = "user.info"
ALLOW_PREEMPTION = "allow-preemption"
APP_ID_LABELS = ("applicationId", "spark-app-selector")
QUEUE_LABELS = ("queue",)

_EMPTY: Mapping[str, str] = {}
_LABEL, _ANNOTATION = "label", "annotation"


class Found(msgspec.Struct, frozen=True, gc=False):
    """The value that wins, and the others that differ from it."""

    value: str
    source: str
    """The label or annotation, for messages; empty if there is none."""
    ignored: tuple[str, ...] = ()
    """Names of labels and annotations with other values."""


NOTHING = Found("", "")


def find(metadata: ObjectMeta, name: str, older_labels: tuple[str, ...] = ()) -> Found:
    """The value of `name` among labels and annotations."""
    labels, annotations = metadata.labels or _EMPTY, metadata.annotations or _EMPTY
    found, ignored = NOTHING, []
    for kind, key in _sources(name, older_labels):
        value = (labels if kind == _LABEL else annotations).get(key)
        if not value:
            continue
        if found is NOTHING:
            found = Found(value, f"{kind} {key}")
        elif value != found.value:
            ignored.append(f"{kind} {key}")
    return Found(found.value, found.source, tuple(ignored)) if ignored else found


def annotation(metadata: ObjectMeta, name: str) -> str:
    """The value of an annotation that is no label; empty if there is none."""
    annotations = metadata.annotations
    if not annotations:
        return ""
    return annotations.get(OWN_PREFIX + name) or annotations.get(YUNIKORN_PREFIX + name) or ""


@lru_cache
def _sources(name: str, older_labels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Where a value is looked up, in order: label or annotation, and its key."""
    own = [(kind, prefix + name) for prefix in PREFIXES for kind in (_LABEL, _ANNOTATION)]
    return (*own, *((_LABEL, key) for key in older_labels))
