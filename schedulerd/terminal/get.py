"""`schedulerd get`: lists, and events as they happen."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from schedulerd.terminal import kubectl
from schedulerd.terminal.api_client import Answer, ApiClient, ApiProblem, segment
from schedulerd.terminal.cli import (
    EXIT_CODES,
    NOT_FOUND,
    WATCH_SECONDS,
    Outage,
    connect,
    console,
    exit_codes,
    print_as,
    repeat,
    with_connection,
    with_output,
)
from schedulerd.terminal.tables import KINDS, table
from schedulerd.terminal.words import clean

ROWS_MAX = 500
RESUME_SECONDS = 0.5
"""Pause between two streams of events: the daemon ends each after less than a minute."""
_EVENTS_A_PAGE = 1_000

_NAME_FILTERS = {
    "queues": "queue",
    "limits": "queue",
    "users": "name",
    "asks": "ask",
    "nodes": "node",
    "events": "object",
}
"""The filter that NAME is for; of other lists it is the application."""

NAMED = frozenset({"queues", "users", "apps", "asks", "gangs", "nodes"})
"""Lists of the objects that NAME is the name of; of other lists it is a filter."""


@click.command(epilog=EXIT_CODES)
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("name", default="")
@click.option("--queue", "-q", default="", help="Only in this queue and below.")
@click.option("--user", default="", help="Only of this user.")
@click.option("--app", "application", default="", help="Only of this application.")
@click.option("--namespace", "-n", default="", help="Only of this Kubernetes namespace.")
@click.option("--all-namespaces", "-A", is_flag=True, help="With kubectl: of all namespaces, not of the current one.")
@click.option("--state", default="", help="Only in this state, such as Running, unschedulable or draining.")
@click.option("--pending", is_flag=True, default=None, help="Only what waits.")
@click.option("--node", default="", help="Only on this node.")
@click.option("--pod", default="", help="Only of the Kubernetes pod with this name.")
@click.option("--type", default="", help="Only events of this kind of object, such as app, node or queue.")
@click.option("--attribute", "-l", default="", help="Only nodes with this attribute, NAME=VALUE.")
@click.option("--sort", default="", help="Such as id, time or queue; -id descends.")
@click.option("--limit", default=ROWS_MAX, type=click.IntRange(1, 1_000_000), help="Rows at most.")
@with_connection
@with_output
def get(
    kind: str, name: str, all_namespaces: bool, server: str, context_name: str, output: str, watch: bool, **given: Any
) -> None:
    """List queues, limits, users, apps, asks, gangs, nodes, reservations, preemptions or events.

    NAME chooses one of them: a queue with all below it, a user, an ask by its key, a node, the object of an event; in
    other lists an application. `kubectl schedulerd get apps` and `get asks` list the current namespace of kubectl.
    """
    limit = given.pop("limit")
    given["rm"] = given.pop("rm_id")
    chosen = KINDS[kind]
    if all_namespaces and given["namespace"]:
        raise click.UsageError("--namespace and --all-namespaces exclude each other")
    if kubectl.is_plugin() and not all_namespaces and "namespace" in chosen.filters:
        given["namespace"] = given["namespace"] or kubectl.current_namespace()
    query = {key: value for key, value in given.items() if value not in ("", None)}
    wrong = sorted(query.keys() - chosen.filters - {"rm", "partition"})
    if wrong:
        raise click.UsageError(f"{kind} cannot be filtered by {', '.join(wrong)}")
    if name:
        query[_NAME_FILTERS.get(kind, "application")] = name
    with exit_codes(), connect(server, context_name) as client:
        if kind == "events":
            query.pop("partition", None)
            _events(client, query, limit, output, watch)
            return

        def ask() -> tuple[list[Answer], bool]:
            if kind != "nodes" or not name:
                found = client.list(chosen.path, query, limit)
                if name and kind in NAMED and not found[0]:
                    _exit_not_found(_nothing(kind, name, query))
                return found
            where = {key: value for key, value in query.items() if key in ("rm", "partition")}
            try:
                return [client.get(f"/nodes/{segment(name)}", where)], False
            except ApiProblem as error:
                if error.status == 404 and str(error).startswith("node:"):
                    _exit_not_found(str(error))
                raise

        def show(found: tuple[list[Answer], bool]) -> None:
            items, more = found
            if output != "table":
                print_as(output, items)
                return
            console().print(table(chosen, items, time.time_ns()))
            if more:
                click.echo(f"... and more; --limit is {limit}", err=True)

        repeat(watch, ask, show)


def _exit_not_found(said: str) -> NoReturn:
    click.echo(f"Error: {clean(said)}", err=True)
    sys.exit(NOT_FOUND)


def _nothing(kind: str, name: str, query: Mapping[str, object]) -> str:
    """What is said of a name that a list does not have."""
    filters = [f"{key} {value}" for key, value in query.items() if str(value) != name]
    among = f" with {', '.join(filters)}" if filters else ""
    return f"{kind}: there is none of the name {name!r}{among}"


def _events(client: ApiClient, query: dict[str, object], limit: int, output: str, watch: bool) -> None:
    """The last events; with `watch` new ones too, as they happen."""
    items, after = _last_events(client, query, limit)
    _print_events(items, output)
    outage = Outage()
    try:
        while watch:
            try:
                for one in client.events(query, after):
                    outage.ends()
                    after = one.get("id", after)
                    _print_events([one], output, with_header=False)
                time.sleep(RESUME_SECONDS)
            except ApiProblem as error:
                click.echo(outage.passes(error), err=True)
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        sys.exit(130)


def _last_events(client: ApiClient, query: dict[str, object], limit: int) -> tuple[list[Answer], str]:
    """The last events, and the id after which new ones come. The daemon searches in pages, which may be empty."""
    page = client.page("/events", {**query, "limit": min(limit, _EVENTS_A_PAGE)})
    items, after = page["items"], page["next"]
    while page["previous"] and len(items) < limit:
        room = min(limit - len(items), _EVENTS_A_PAGE)
        page = client.page("/events", {**query, "limit": room, "before": page["previous"]})
        items = page["items"] + items
    return items, after


def _print_events(items: list[Answer], output: str, *, with_header: bool = True) -> None:
    """Prints events, or what a stream says of those that it has lost."""
    if output != "table":
        for one in items:
            click.echo(json.dumps(one)) if output == "json" else print_as(output, [one])
        return
    for one in items:
        if "lost" in one:
            click.echo(f"... {one['lost']} events were dropped before they were shown", err=True)
    made = table(KINDS["events"], [one for one in items if "lost" not in one], time.time_ns())
    made.show_header = with_header
    if made.row_count or with_header:
        console().print(made)
