"""`schedulerd top`: queues as a tree with bars, what waits by reason, incomplete gangs, and the busiest nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from schedulerd.amounts import part_of
from schedulerd.terminal.api_client import ApiClient, ApiProblem
from schedulerd.terminal.cli import EXIT_CODES, WATCH_SECONDS, Outage, connect, exit_codes, with_connection
from schedulerd.terminal.words import amounts, bar, clean, free, moment, share

QUEUES_SHOWN = 30
ROWS_SHOWN = 8
_BAR = 20
TOO_MANY_TO_SORT = 422
"""Status of a list that is too long to be sorted by a field that changes."""

Item = Mapping[str, Any]


class Picture(NamedTuple):
    """What is shown."""

    queues: Sequence[Item]
    root: Item
    """The explanation of the root queue."""
    gangs: Sequence[Item]
    nodes: Sequence[Item]
    """Empty where there are too many to be sorted."""
    at_ns: int
    broken_files: Sequence[Item] = ()
    """Queue files that cannot be used."""


def ask(client: ApiClient, where: Mapping[str, object]) -> Picture:
    """Asks the daemon for a new picture. Raises `ApiProblem`."""
    queues, _ = client.list("/queues", where, QUEUES_SHOWN)
    root = client.get("/explain/queue", {**where, "queue": "root"})
    gangs, _ = client.list("/gangs", {**where, "complete": False}, ROWS_SHOWN)
    nodes = _busiest(client, where)
    return Picture(queues, root, gangs, nodes, time.time_ns(), client.get("/config/broken")["items"])


def _busiest(client: ApiClient, where: Mapping[str, object]) -> Sequence[Item]:
    try:
        return client.list("/nodes", {**where, "sort": "-allocations"}, ROWS_SHOWN)[0]
    except ApiProblem as error:
        if error.status == TOO_MANY_TO_SORT:
            return []
        raise


def lines(picture: Picture) -> Iterator[str]:
    """The picture as lines of plain text."""
    found = picture.root["explanation"]
    least = "at least " if found.get("at_least") else ""
    yield f"{found['running_applications']} running   {least}{found['pending']} waiting   as of {moment(picture.at_ns)}"
    for one in picture.broken_files[:ROWS_SHOWN]:
        yield f"NEEDS ATTENTION: {clean(one['message'])}"
    yield ""
    yield "QUEUES"
    for one in picture.queues:
        depth = one["queue"].count(".")
        name = "  " * depth + clean(one["queue"].rpartition(".")[2])
        yield f"  {name:<28.28} {_use(one)}"
    yield ""
    yield "WAITING, BY REASON"
    for one in picture.root["reasons"][:ROWS_SHOWN]:
        yield f"  {one['allocations']:>7}  {clean(one['sentence'])}"
    if not picture.root["reasons"]:
        yield "  nothing waits"
    if picture.gangs:
        yield ""
        yield "GANGS, INCOMPLETE"
    for one in picture.gangs:
        if one["state"]:
            placed, wanted, words = one["with_room"], one["needed"], f"have room, {one['state']}"
        else:
            placed, wanted = (sum(group[key] for group in one["task_groups"]) for key in ("placed", "wanted"))
            words = "placed"
        yield f"  {clean(one['application']):<28.28} {bar(placed, wanted, _BAR)} {placed} of {wanted} {words}"
    if picture.nodes:
        yield ""
        yield "NODES, BUSIEST"
    for one in picture.nodes:
        name = f"{clean(one['node']):<28.28}"
        yield f"  {name} {one['allocations']:>5} allocations  free {free(one)}"


def _use(queue: Item) -> str:
    """A bar for the resource of which most of the max is used, or of the root most of what the nodes have; words where
    there is no max."""
    used, most = queue["used"], queue["max"] or queue["capacity"]
    limited = [name for name in most if most[name] > 0]
    if not limited:
        return f"{'no max':<{_BAR}} {amounts(used)}"
    name = max(limited, key=lambda one: used.get(one, 0) / most[one])
    over = any(amount < used.get(key, 0) for key, amount in queue["guaranteed"].items())
    full = used.get(name, 0) >= most[name]
    words = ", full" if full else ", above its guarantee" if over else ""
    now, limit = used.get(name, 0), most[name]
    of_max = clean(part_of(name, now, limit))
    return f"{bar(now, limit, _BAR)} {of_max} ({share(now, limit)}){words}"


@click.command(epilog=EXIT_CODES)
@with_connection
def top(server: str, context_name: str, rm_id: str, partition: str) -> None:
    """Watch queues, what waits, gangs and nodes; Ctrl-C ends it."""
    where = {"rm": rm_id, "partition": partition}
    outage = Outage()
    with exit_codes(), connect(server, context_name) as client:
        picture = ask(client, where)
        if not sys.stdout.isatty():
            click.echo("\n".join(lines(picture)))
            return
        try:
            with Live(_shown(picture), screen=True, auto_refresh=False) as live:
                while True:
                    time.sleep(WATCH_SECONDS)
                    note = ""
                    try:
                        picture = ask(client, where)
                        outage.ends()
                    except ApiProblem as error:
                        note = outage.passes(error)
                    live.update(_shown(picture, note), refresh=True)
        except KeyboardInterrupt:
            sys.exit(130)


def _shown(picture: Picture, note: str = "") -> Group:
    """The picture; with a note if it is an old one."""
    shown = [note] if note else []
    return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in (*shown, *lines(picture))))
