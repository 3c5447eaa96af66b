"""Field and label selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.kubernetes.fake.failures import Failure

Object = dict[str, Any]
Matches = Callable[[Object], bool]

POD_FIELDS = ("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase")
FIELDS = {
    "pods": POD_FIELDS,
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
}


def selector(plural: str, fields: str, labels: str) -> Matches | None:
    """None matches everything."""
    checks = [*_field_checks(plural, fields), *_label_checks(labels)]
    if not checks:
        return None
    return lambda thing: all(check(thing) for check in checks)


def _field_checks(plural: str, text: str) -> list[Matches]:
    known = ("metadata.name", "metadata.namespace", *FIELDS.get(plural, ()))
    checks: list[Matches] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", part)
        if match is None:
            raise Failure(400, f"invalid field selector: '{part}'; can't understand '{part}'")
        field, operator, value = match.groups()
        if field not in known:
            raise Failure(400, f"field label not supported: {field}")
        checks.append(_field(field.split("."), value, is_equal=operator != "!="))
    return checks


def _field(path: list[str], value: str, *, is_equal: bool) -> Matches:
    return lambda thing: (_at(thing, path) == value) == is_equal


def _at(thing: Object, path: list[str]) -> str:
    value: Any = thing
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _label_checks(text: str) -> list[Matches]:
    checks: list[Matches] = []
    for part in filter(None, re.split(r",(?![^(]*\))", text)):
        if match := re.fullmatch(r"\s*([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)\s*", part):
            key, operator, listed = match.groups()
            checks.append(_label(key, {value.strip() for value in listed.split(",")}, is_in=operator == "in"))
        elif match := re.fullmatch(r"\s*([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)\s*", part):
            key, operator, value = match.groups()
            checks.append(_label(key, {value}, is_in=operator != "!="))
        elif match := re.fullmatch(r"\s*(!?)([\w./-]+)\s*", part):
            absent, key = match.groups()
            checks.append(_has_label(key, is_there=not absent))
        else:
            raise Failure(400, f"unable to parse requirement: {part!r}")
    return checks


def _label(key: str, values: set[str], *, is_in: bool) -> Matches:
    return lambda thing: (_labels(thing).get(key) in values) == is_in


def _has_label(key: str, *, is_there: bool) -> Matches:
    return lambda thing: (key in _labels(thing)) == is_there


def _labels(thing: Object) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}
