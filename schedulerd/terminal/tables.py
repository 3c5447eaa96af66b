"""Lists as tables. Every cell is plain text: what looks like markup is shown as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from schedulerd.amounts import amount, amount_text
from schedulerd.terminal.words import age, amounts, clean, free, moment

Item = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a table."""

    title: str
    text: Callable[[Item, int], object]
    """Of an object and the wall time now, in nanoseconds."""
    is_number: bool = False


class Kind(NamedTuple):
    """A list of the API, and how it is shown."""

    path: str
    columns: Sequence[Column]
    filters: frozenset[str]
    """Parameters that it takes."""


def _field(name: str) -> Callable[[Item, int], object]:
    return lambda item, _now: item[name]


def _placed(gang: Item) -> str:
    """How many placeholders, or members, of each task group have room, of those that are wanted."""
    placeholders = [(one["name"], one["placed"], one["wanted"]) for one in gang["task_groups"]]
    members = [(one["name"], one["held"] + one["allocated"], one["min"]) for one in gang["members"]]
    return ", ".join(f"{name} {placed}/{wanted}" for name, placed, wanted in (*placeholders, *members))


def _use(item: Item, _now: int) -> str:
    """What a queue uses of what it may use, by resource."""
    names = sorted({*item["used"], *item["max"], *item["guaranteed"]})
    return ", ".join(_of_max(item, name) for name in names) or "-"


def _of_max(item: Item, name: str) -> str:
    most = item["max"].get(name)
    used = item["used"].get(name, 0)
    return amount(name, used) if most is None else f"{amount_text(name, used)}/{amount(name, most)}"


def _applications(item: Item, _now: int) -> str:
    most = item["max_applications"]
    return f"{item['running_applications']}/{most}" if most else f"{item['running_applications']}"


def _of_app(application: str, pod: str, ask: str) -> str:
    """A pod by its name, or an ask by its application and key."""
    return pod or f"{application} {ask}"


def _waits(item: Item, _now: int) -> str:
    return ", ".join(f"{one['state']} {one['allocations']}" for one in item["waiting"]) or "-"


KINDS: Mapping[str, Kind] = {
    "queues": Kind(
        "/queues",
        (
            Column("QUEUE", _field("queue")),
            Column("STATE", _field("state")),
            Column("USED/MAX", _use),
            Column("GUARANTEED", lambda item, _now: amounts(item["guaranteed"])),
            Column("PENDING", lambda item, _now: amounts(item["pending"])),
            Column("RUNNING", _applications, is_number=True),
        ),
        frozenset({"queue"}),
    ),
    "apps": Kind(
        "/applications",
        (
            Column("APPLICATION", _field("application")),
            Column("QUEUE", _field("queue")),
            Column("USER", _field("user")),
            Column("STATE", _field("state")),
            Column("USED", lambda item, _now: amounts(item["used"])),
            Column("ALLOCATED", _field("allocations"), is_number=True),
            Column("PENDING", _field("pending_allocations"), is_number=True),
            Column("AGE", lambda item, now: age(item["submitted_ns"], now), is_number=True),
        ),
        frozenset({"queue", "user", "state", "application", "namespace", "pending", "sort"}),
    ),
    "asks": Kind(
        "/asks",
        (
            Column("APPLICATION", _field("application")),
            Column("ASK", lambda item, _now: item["pod"] or item["ask"]),
            Column("RESOURCES", lambda item, _now: amounts(item["resources"])),
            Column("PRIORITY", _field("priority"), is_number=True),
            Column("ALLOCATED", _field("allocations"), is_number=True),
            Column("WAITING", _waits),
            Column("AGE", lambda item, now: age(item["asked_ns"], now), is_number=True),
        ),
        frozenset({"queue", "user", "state", "application", "namespace", "pod", "pending", "sort"}),
    ),
    "nodes": Kind(
        "/nodes",
        (
            Column("NODE", _field("node")),
            Column("STATE", _field("state")),
            Column("CAPACITY", lambda item, _now: amounts(item["capacity"])),
            Column("AVAILABLE", lambda item, _now: free(item)),
            Column("ALLOCATIONS", _field("allocations"), is_number=True),
            Column("RESERVED", _field("reservations"), is_number=True),
        ),
        frozenset({"state", "attribute", "sort"}),
    ),
    "gangs": Kind(
        "/gangs",
        (
            Column("APPLICATION", _field("application")),
            Column("QUEUE", _field("queue")),
            Column("STATE", lambda item, _now: item["state"] or "-"),
            Column("PLACED", lambda item, _now: _placed(item)),
            Column("PENDING", _field("pending"), is_number=True),
        ),
        frozenset({"queue", "user", "application"}),
    ),
    "reservations": Kind(
        "/reservations",
        (
            Column("NODE", _field("node")),
            Column("APPLICATION", _field("application")),
            Column("ASK", lambda item, _now: item["pod"] or item["ask"]),
            Column("RESOURCES", lambda item, _now: amounts(item["resources"])),
            Column("VICTIMS", _field("victims"), is_number=True),
            Column("AGE", lambda item, now: age(item["since_ns"], now), is_number=True),
        ),
        frozenset({"queue", "user", "application", "node"}),
    ),
    "preemptions": Kind(
        "/preemptions",
        (
            Column("NODE", _field("victim_node")),
            Column(
                "VICTIM", lambda item, _now: f"{item['victim_application']} {item['victim_pod'] or item['victim_ask']}"
            ),
            Column("QUEUE", _field("victim_queue")),
            Column("FOR", lambda item, _now: _of_app(item["application"], item["pod"], item["ask"])),
            Column("AGE", lambda item, now: age(item["since_ns"], now), is_number=True),
        ),
        frozenset({"queue", "user", "application", "node"}),
    ),
    "limits": Kind(
        "/limits",
        (
            Column("QUEUE", _field("queue")),
            Column("USERS", lambda item, _now: ", ".join(item["users"]) or "-"),
            Column("GROUPS", lambda item, _now: ", ".join(item["groups"]) or "-"),
            Column("MAX", lambda item, _now: amounts(item["max"])),
            Column("APPLICATIONS", lambda item, _now: item["max_applications"] or "-", is_number=True),
        ),
        frozenset({"queue"}),
    ),
    "users": Kind(
        "/users",
        (
            Column("NAME", _field("name")),
            Column("KIND", _field("kind")),
            Column("QUEUE", _field("queue")),
            Column("USED", lambda item, _now: amounts(item["used"])),
            Column("APPLICATIONS", _field("applications"), is_number=True),
        ),
        frozenset({"queue"}),
    ),
    "events": Kind(
        "/events",
        (
            Column("TIME", lambda item, _now: moment(item["at_ns"])),
            Column("TYPE", _field("type")),
            Column("OBJECT", lambda item, _now: item["pod"] or item["object"]),
            Column("REASON", _field("reason")),
            Column("REFERENCE", _field("reference")),
            Column("MESSAGE", _field("message")),
        ),
        frozenset({"object", "type"}),
    ),
}


def table(kind: Kind, items: Sequence[Item], now_ns: int) -> Table:
    """The objects as a table without lines, as kubectl prints them."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in kind.columns:
        made.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for item in items:
        made.add_row(*(Text(clean(column.text(item, now_ns))) for column in kind.columns))
    return made
