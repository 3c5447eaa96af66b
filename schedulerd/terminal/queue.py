"""`schedulerd queue`: one queue, shown, stopped or started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from schedulerd.amounts import amount_text, resource
from schedulerd.terminal.api_client import segment
from schedulerd.terminal.cli import (
    EXIT_CODES,
    connect,
    exit_codes,
    print_as,
    repeat,
    with_connection,
    with_output,
)
from schedulerd.terminal.words import clean

_STATES = {
    "active": "takes applications",
    "stopped": "takes no new applications, and finishes those it has: it is stopped, or a queue above it is",
    "draining": "takes no new applications, as the queue file no longer names it; it is removed when it is empty",
}


@click.command(epilog=EXIT_CODES)
@click.argument("name")
@click.argument("verb", type=click.Choice(["stop", "start"]), required=False)
@with_connection
@with_output
def queue(
    name: str, verb: str | None, server: str, context_name: str, rm_id: str, partition: str, output: str, watch: bool
) -> None:
    """Show the queue NAME (its full path), stop it, or start it again.

    A stopped queue, and every queue below it, takes no new applications, and finishes those it has. It stays stopped
    when the queue file changes, until it is started or its resource manager registers again.
    """
    path, where = f"/queues/{segment(name)}", {"rm": rm_id, "partition": partition}
    with exit_codes(), connect(server, context_name) as client:
        if verb is not None:
            _print(client.post(f"{path}/{verb}", {}, where), output)
            if not watch:
                return
        repeat(watch, lambda: client.get(path, where), lambda found: _print(found, output))


def _print(found: Mapping[str, Any], output: str) -> None:
    if output == "table":
        click.echo("\n".join(_lines(found)))
    else:
        print_as(output, found)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    kind = "leaf" if found["is_leaf"] else f"parent of {found['children']}"
    yield f"{clean(found['queue'])}: {found['state']} ({kind})"
    yield f"  {_STATES.get(found['state'], '')}"
    most = f" of at most {found['max_applications']}" if found["max_applications"] else ""
    yield f"  applications: {found['running_applications']} running{most}, {found['applications']} in the leaf itself"
    for name in sorted({*found["used"], *found["max"], *found["guaranteed"], *found["pending"]}):
        parts = [
            f"{key} {amount_text(name, found[key][name])}"
            for key in ("used", "guaranteed", "max", "pending")
            if name in found[key]
        ]
        yield f"  {clean(resource(name))}: {', '.join(parts)}"
