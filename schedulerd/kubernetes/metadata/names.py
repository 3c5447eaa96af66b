"""Names of labels and annotations, and which of several wins.

A value is looked up in order: label and annotation with the prefix `schedulerd.io/`, then with `yunikorn.apache.org/`,
then the older labels that have no prefix. An empty value is the same as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Found:
    """The value that wins, and the others that differ from it."""

    value: str
    source: str
    """The label or annotation, for messages; empty if there is none."""
    ignored: tuple[str, ...] = ()
    """Names of labels and annotations with other values."""


NOTHING = Found("", "")


def find(metadata: ObjectMeta, name: str, older_labels: tuple[str, ...] = ()) -> Found:
    """The value of `name` among labels and annotations."""
    candidates = [*_candidates(metadata, name, older_labels)]
    if not candidates:
        return NOTHING
    source, value = candidates[0]
    return Found(value, source, tuple(other for other, text in candidates if text != value))


def annotation(metadata: ObjectMeta, name: str) -> str:
    """The value of an annotation that is no label; empty if there is none."""
    annotations = metadata.annotations or _EMPTY
    return next((value for prefix in PREFIXES if (value := annotations.get(prefix + name))), "")


def _candidates(metadata: ObjectMeta, name: str, older_labels: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Sources and values that are not empty."""
    labels, annotations = metadata.labels or _EMPTY, metadata.annotations or _EMPTY
    for prefix in PREFIXES:
        key = prefix + name
        if value := labels.get(key):
            yield f"label {key}", value
        if value := annotations.get(key):
            yield f"annotation {key}", value
    for key in older_labels:
        if value := labels.get(key):
            yield f"label {key}", value
