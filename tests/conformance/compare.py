"""Compares what we answered with what was recorded, at one of three levels.

Both sides are first reduced to what the level looks at: a flat mapping of JSON pointer to value for the snapshot, and a
list of events without what may differ freely (message numbers, wording, zero amounts). A `Difference` names its check
and its place, so that `differences.toml` can excuse exactly that place and nothing beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
Flat = dict[str, object]

TEXTS = ("reason", "message", "error")
"""Of these only whether there is one is compared: the wording is the peer's, ours should be better."""
NOT_COMPARED = ("m", "priority")
"""The number of the message, because batching may differ, and the priority of an allocation: SI says that it is that of
the ask, and the peer leaves it 0 whatever the ask says."""
ABSENT = "absent"


class Level(StrEnum):
    VISIBLE = "visible"
    ORDER = "order"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Difference:
    check: str
    """Label of the check, '' for the result as a whole."""
    pointer: str
    """JSON pointer into the snapshot, or '' for an event."""
    event: Json | None
    """The event that only one side has, None for a snapshot value."""
    sentence: str

    def __str__(self) -> str:
        return f"check '{self.check}': {self.sentence}" if self.check else self.sentence


class Rightly:
    """What is right although something else was recorded: nothing, unless a subclass says so. Checks are named by their
    index, events are as they are compared."""

    def adds(self, check: int, event: Json) -> bool:
        """Whether we rightly say this event, which was not recorded."""
        return False

    def omits(self, check: int, event: Json) -> bool:
        """Whether we rightly do not say this event, which was recorded. Asked once for each event that is missing."""
        return False

    def says(self, check: int, recorded: Json, event: Json) -> bool:
        """Whether we rightly say this event instead of the recorded one."""
        return False

    def counts(self, check: int, pointer: str, recorded: object, ours: object) -> bool:
        """Whether this value of our snapshot is right beside the recorded one."""
        return False


NOTHING_ELSE = Rightly()


def differences(expected: Json, actual: Json, level: Level, rightly: Rightly = NOTHING_ELSE) -> list[Difference]:
    """All differences between a recorded result and ours, in the order of the checks, without those that are right."""
    if bool(expected["registerError"]) != bool(actual["registerError"]):
        said = actual["registerError"] or "registration succeeds"
        return [
            Difference("", "/registerError", None, f"expected {expected['registerError'] or 'none'!r}, got {said!r}")
        ]
    found = []
    labels = [check["label"] for check in expected["checks"]]
    if labels != [check["label"] for check in actual["checks"]]:
        found.append(Difference("", "/checks", None, f"expected the checks {labels}"))
    for index, (wanted, got) in enumerate(zip(expected["checks"], actual["checks"], strict=False)):
        unstable = _below(expected["unstable"], f"/checks/{index}")
        found += _event_differences(wanted, got, _below(unstable, "/events"), level, rightly, index)
        found += _snapshot_differences(wanted, got, _below(unstable, "/snapshot"), level, rightly, index)
    return found


def _below(pointers: Iterable[str], prefix: str) -> list[str]:
    """The pointers at or below `prefix`, relative to it ('' is the place itself)."""
    return [pointer[len(prefix) :] for pointer in pointers if _is_at_or_below(pointer, prefix)]


def _is_at_or_below(pointer: str, prefix: str) -> bool:
    return pointer == prefix or pointer.startswith(prefix + "/")


# Events


def _event_differences(
    wanted: Json, got: Json, unstable: list[str], level: Level, rightly: Rightly, index: int
) -> list[Difference]:
    if "" in unstable:
        return []
    label = wanted["label"]
    recorded, ours = _events(wanted["events"]), _events(got["events"])
    missing, extra = _unmatched(recorded, ours, unstable)
    for event in list(missing):
        instead = next((other for other in extra if rightly.says(index, event, other)), None)
        if instead is not None:
            missing.remove(event)
            extra.remove(instead)
            recorded[recorded.index(event)] = instead
        elif rightly.omits(index, event):
            missing.remove(event)
            recorded = _without(recorded, event)
    for event in list(extra):
        if rightly.adds(index, event):
            extra.remove(event)
            ours.remove(event)
    found = [Difference(label, "", event, f"missing event {_text(event)}") for event in missing]
    found += [Difference(label, "", event, f"unexpected event {_text(event)}") for event in extra]
    if level is not Level.VISIBLE and not found and not unstable:
        found += _order_differences(label, recorded, ours)
    return found


def _without(events: list[Json], gone: Json) -> list[Json]:
    """Without the first event like `gone`; all of them if `gone` is only a part of one, as what was unstable is."""
    return [*events[: events.index(gone)], *events[events.index(gone) + 1 :]] if gone in events else events


def _order_differences(label: str, wanted: list[Json], got: list[Json]) -> list[Difference]:
    for index, (left, right) in enumerate(zip(wanted, got, strict=True)):
        if left != right:
            return [Difference(label, "", right, f"event {index + 1} is {_text(right)}, expected {_text(left)} there")]
    return []


def _events(events: list[Json]) -> list[Json]:
    return [
        {name: _value(name, value) for name, value in event.items() if name not in NOT_COMPARED} for event in events
    ]


def _value(name: str, value: object) -> object:
    if name in TEXTS:
        return "(a text)" if value else ""
    if name == "resources" and isinstance(value, Mapping):
        return {resource: amount for resource, amount in sorted(value.items()) if amount}
    return value


def _unmatched(wanted: list[Json], got: list[Json], unstable: list[str]) -> tuple[list[Json], list[Json]]:
    """What each side has and the other has not; an event that was unstable matches by its other fields."""
    missing, extra, loose = [], list(got), []
    for index, event in enumerate(wanted):
        free = {pointer[1:] for pointer in _below(unstable, f"/{index}")}
        if free:
            loose.append({name: value for name, value in event.items() if name not in free})
        elif event in extra:
            extra.remove(event)
        else:
            missing.append(event)
    for event in loose:
        match = next((other for other in extra if event.items() <= other.items()), None)
        if match is None:
            missing.append(event)
        else:
            extra.remove(match)
    return missing, extra


def _text(event: Json) -> str:
    named = " ".join(f"{name}={value}" for name, value in event.items() if name != "ev" and value not in ("", False))
    return f"{event.get('ev', '(any)')} {named}".rstrip()


# Snapshots


def _snapshot_differences(
    wanted: Json, got: Json, unstable: list[str], level: Level, rightly: Rightly, index: int
) -> list[Difference]:
    reduce = _full if level is Level.FULL else _visible
    left, right = reduce(wanted["snapshot"]), reduce(got["snapshot"])
    found = []
    for pointer in sorted(left.keys() | right.keys()):
        recorded, ours = left.get(pointer, ABSENT), right.get(pointer, ABSENT)
        if recorded == ours or any(_is_at_or_below(pointer, place) for place in unstable):
            continue
        if rightly.counts(index, pointer, recorded, ours):
            continue
        sentence = f"{pointer}: expected {recorded}, got {ours}"
        found.append(Difference(wanted["label"], pointer, None, sentence))
    return found


def _visible(snapshot: Json | None) -> Flat:
    """States of applications, allocated and pending per queue, allocations per node, usage per user; zeros dropped."""
    flat: Flat = {}
    for group in ("apps", "completedApps", "rejectedApps"):
        for name, item in (snapshot or {}).get(group, {}).items():
            flat[pointer_to(group, name, "state")] = item["state"]
    for path, queue in (snapshot or {}).get("queues", {}).items():
        for ledger in ("allocated", "pending"):
            _amounts(flat, queue[ledger], "queues", path, ledger)
    for name, node in (snapshot or {}).get("nodes", {}).items():
        flat[pointer_to("nodes", name, "allocations")] = sorted(node["allocations"])
    for name, user in (snapshot or {}).get("users", {}).items():
        for path, usage in user["queues"].items():
            _amounts(flat, usage["usage"], "users", name, "queues", path, "usage")
    return flat


def _amounts(flat: Flat, amounts: Mapping[str, int] | None, *place: str) -> None:
    for resource, amount in (amounts or {}).items():
        if amount:
            flat[pointer_to(*place, resource)] = amount


def _full(snapshot: Json | None) -> Flat:
    """Every leaf of the snapshot; an empty container is nothing, so that a missing one equals it."""
    flat: Flat = {}
    _leaves(flat, "", snapshot or {})
    return flat


def _leaves(flat: Flat, place: str, value: object) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            _leaves(flat, f"{place}/{_escaped(str(name))}", item)
    elif isinstance(value, list):
        if value:
            flat[place] = value
    elif place.endswith("/message"):
        flat[place] = _value("message", value)
    else:
        flat[place] = value


def pointer_to(*names: str) -> str:
    return "".join("/" + _escaped(name) for name in names)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
