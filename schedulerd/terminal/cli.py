"""The commands of the terminal."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from ruamel.yaml import YAML

from schedulerd.terminal import contexts
from schedulerd.terminal.api_client import ApiClient, ApiProblem, segment
from schedulerd.terminal.contexts import Context, ContextProblem
from schedulerd.terminal.tables import KINDS, table
from schedulerd.terminal.words import clean

USAGE = 1
REFUSED = 3
NO_ANSWER = 4
NOT_ALLOWED = 5
WATCH_SECONDS = 2.0
ROWS_MAX = 500
EXIT_CODES = (
    "Exit codes: 0 done, 1 wrong usage, 3 there is no such thing or the daemon refuses, 4 no daemon answers or it is "
    "too busy, 5 the token is missing or may not do this."
)

_PIPED_WIDTH = 1_000
"""Columns of a table that is read by another program."""

Command = Callable[..., Any]


def complete_contexts(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of contexts for the completion of a shell."""
    try:
        known = contexts.load(contexts.default_path())
    except ContextProblem:
        return []
    return [name for name in known.content.contexts if name.startswith(begun)]


def with_connection(command: Command) -> Command:
    """Adds the options that choose a daemon."""
    options = (
        click.option("--server", default="", metavar="URL", help="The daemon, like http://HOST:9080. Also as context."),
        click.option(
            "--context",
            "context_name",
            default="",
            metavar="NAME",
            help="One of the contexts.",
            shell_complete=complete_contexts,
        ),
        click.option("--rm", "rm_id", default="", metavar="RMID", help="Resource manager, if several are registered."),
        click.option("--partition", default="", metavar="NAME", help="Partition, if it is not `default`."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def with_output(command: Command) -> Command:
    """Adds the options of the output."""
    command = click.option("--watch", "-w", is_flag=True, help=f"Ask again every {WATCH_SECONDS:g} s.")(command)
    return click.option(
        "--output", "-o", type=click.Choice(["table", "json", "yaml"]), default="table", help="How to print."
    )(command)


def connect(server: str, context_name: str) -> ApiClient:
    """A client of the chosen daemon. Exits if the context cannot be used."""
    try:
        chosen = contexts.load(contexts.default_path()).choose(context_name)
        if server:
            # A token belongs to its server: it must not go to another one.
            chosen = chosen if server == chosen.server else Context(server=server)
        return ApiClient(chosen)
    except (ContextProblem, ApiProblem) as error:
        click.echo(f"Error: {clean(error)}", err=True)
        sys.exit(USAGE)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turns problems of the API into a line and an exit code."""
    try:
        yield
    except ApiProblem as error:
        click.echo(f"Error: {clean(error)}", err=True)
        if error.status in (401, 403):
            sys.exit(NOT_ALLOWED)
        sys.exit(NO_ANSWER if error.status in (0, 503) or error.status >= 500 else REFUSED)


def _console() -> Console:
    """Lines are as long as they are, unless a terminal would have to cut them."""
    console = Console()
    return console if console.is_terminal else Console(width=_PIPED_WIDTH)


def print_as(output: str, answer: object) -> None:
    """Prints an answer as JSON or YAML, all of it."""
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        writer = YAML()
        writer.allow_unicode = False  # so that nothing in it moves the cursor or turns the direction of writing
        writer.dump(answer, sys.stdout)


def repeat(watch: bool, show: Callable[[], None]) -> None:
    """Shows once, or again and again until the user stops it."""
    try:
        show()
        while watch:
            time.sleep(WATCH_SECONDS)
            click.clear()
            show()
    except KeyboardInterrupt:
        sys.exit(130)


@click.command(epilog=EXIT_CODES)
@click.argument("what")
@click.argument("name", default="")
@click.argument("ask", default="")
@with_connection
@with_output
def explain(
    what: str,
    name: str,
    ask: str,
    server: str,
    context_name: str,
    rm_id: str,
    partition: str,
    output: str,
    watch: bool,
) -> None:
    """Why does it wait?

    \b
    schedulerd explain APP              an application
    schedulerd explain APP ASK          one of its asks
    schedulerd explain pod NS/NAME      a Kubernetes pod
    schedulerd explain queue PATH       everything in a queue
    schedulerd explain app APP [ASK]    an application with one of these names
    """
    path, query = _explained(what, name, ask)
    query |= {"rm": rm_id, "partition": partition}
    with exit_codes(), connect(server, context_name) as client:

        def show() -> None:
            answer = client.get(path, query)
            if output == "table":
                click.echo("\n".join(_lines(answer)))
            else:
                print_as(output, answer)

        repeat(watch, show)


def _explained(what: str, name: str, ask: str) -> tuple[str, dict[str, object]]:
    """The route and its parameters."""
    match what:
        case "pod":
            namespace, slash, pod = name.rpartition("/")
            if not pod or ask:
                raise click.UsageError("write: schedulerd explain pod NAMESPACE/NAME")
            return "/explain/pod", {"namespace": namespace if slash else "default", "pod": pod}
        case "queue":
            if not name or ask:
                raise click.UsageError("write: schedulerd explain queue PATH, with a path like root.a")
            return "/explain/queue", {"queue": name}
        case "app":
            if not name:
                raise click.UsageError("write: schedulerd explain app APP [ASK]")
            what, name = name, ask
        case _ if ask:
            raise click.UsageError("write: schedulerd explain APP [ASK]")
    if name:
        return "/explain/ask", {"application": what, "ask": name}
    return "/explain/application", {"application": what}


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    """The sentences of an explanation; what a reader needs first comes first."""
    for one in answer["summary"]:
        yield clean(one)
    for one in answer.get("details", ()):
        yield f"  {clean(one)}"
    for one in answer.get("reasons", ()):
        yield f"  {one['allocations']:>6}  {clean(one['sentence'])}"
        yield f"          such as {clean(one['application'])} {clean(one['ask'])}"
    if answer.get("next_ask"):
        yield "Next ask:"
        for one in answer["next_ask"]:
            yield f"  {clean(one)}"


@click.command(epilog=EXIT_CODES)
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("name", default="")
@click.option("--queue", "-q", default="", help="Only in this queue and below.")
@click.option("--user", default="", help="Only of this user.")
@click.option("--app", "application", default="", help="Only of this application.")
@click.option("--namespace", "-n", default="", help="Only of this Kubernetes namespace.")
@click.option("--state", default="", help="Only in this state, such as Running, unschedulable or draining.")
@click.option("--pending", is_flag=True, default=None, help="Only what waits.")
@click.option("--attribute", "-l", default="", help="Only nodes with this attribute, NAME=VALUE.")
@click.option("--sort", default="", help="Such as id, time or queue; -id descends.")
@click.option("--limit", default=ROWS_MAX, type=click.IntRange(1, 1_000_000), help="Rows at most.")
@with_connection
@with_output
def get(kind: str, name: str, server: str, context_name: str, output: str, watch: bool, **given: Any) -> None:
    """List queues, apps, asks, nodes, gangs, reservations, users or events.

    NAME chooses one of them: a queue with all below it, an application, or the pod or object of an event.
    """
    limit = given.pop("limit")
    given["rm"] = given.pop("rm_id")
    chosen = KINDS[kind]
    query = {key: value for key, value in given.items() if value not in ("", None)}
    if name:
        query[_name_filter(kind)] = name
    wrong = sorted(query.keys() - chosen.filters - {"rm", "partition", "node"})
    if wrong:
        raise click.UsageError(f"{kind} cannot be filtered by {', '.join(wrong)}")
    with exit_codes(), connect(server, context_name) as client:
        if kind == "events":
            query.pop("partition", None)
            _events(client, query, limit, output, watch)
            return

        def show() -> None:
            path = f"/nodes/{segment(name)}" if "node" in query else chosen.path
            if "node" in query:
                where = {key: value for key, value in query.items() if key in ("rm", "partition")}
                items, more = [client.get(path, where)], False
            else:
                items, more = client.list(path, query, limit)
            if output == "table":
                _console().print(table(chosen, items, time.time_ns()))
                if more:
                    click.echo(f"... and more; --limit is {limit}", err=True)
            else:
                print_as(output, items)

        repeat(watch, show)


def _name_filter(kind: str) -> str:
    """The filter that NAME is for."""
    names = {"queues": "queue", "users": "queue", "nodes": "node", "events": "object"}
    return names.get(kind, "application")


def _events(client: ApiClient, query: dict[str, object], limit: int, output: str, watch: bool) -> None:
    """The last events; with `watch` new ones too, as they happen."""
    page = client.get("/events", {**query, "limit": min(limit, 1_000)})
    after = page["next"]
    _print_events(page["items"], output)
    try:
        while watch:
            for one in client.events(query, after):
                if "id" in one:
                    after = one["id"]
                    _print_events([one], output, with_header=False)
    except KeyboardInterrupt:
        sys.exit(130)


def _print_events(items: list[dict[str, Any]], output: str, *, with_header: bool = True) -> None:
    if output != "table":
        for one in items:
            click.echo(json.dumps(one)) if output == "json" else print_as(output, [one])
        return
    made = table(KINDS["events"], items, time.time_ns())
    made.show_header = with_header
    _console().print(made)


@click.group()
def context() -> None:
    """Which daemon the commands talk to."""


def _contexts(path: Path | None = None) -> contexts.Contexts:
    try:
        return contexts.load(path or contexts.default_path())
    except ContextProblem as error:
        click.echo(f"Error: {clean(error)}", err=True)
        sys.exit(USAGE)


@context.command("list")
def list_contexts() -> None:
    """List the contexts; the current one has a star."""
    known = _contexts()
    for name, one in known.content.contexts.items():
        star = "*" if name == known.content.current else " "
        click.echo(f"{star} {clean(name)}  {clean(one.server)}{'  with a token' if one.token else ''}")


@context.command("use")
@click.argument("name", shell_complete=complete_contexts)
def use_context(name: str) -> None:
    """Make a context the current one."""
    known = _contexts()
    _or_exit(lambda: known.choose(name))
    known.content.current = name
    _or_exit(known.save)


@context.command("set")
@click.argument("name")
@click.option("--server", required=True, metavar="URL", help="The daemon, like https://HOST:9080.")
@click.option("--ca-file", default="", metavar="FILE", help="Certificate authorities (PEM) of the daemon.")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input, as arguments are no secret.")
def set_context(name: str, server: str, ca_file: str, token_stdin: bool) -> None:
    """Add or change a context, and make it the current one."""
    known = _contexts()
    token = sys.stdin.readline().strip() if token_stdin else ""
    new = Context(server=server, ca_file=ca_file, token=token)
    if new.problem():
        raise click.UsageError(new.problem())
    known.content.contexts[name] = new
    known.content.current = name
    _or_exit(known.save)


@context.command("remove")
@click.argument("name", shell_complete=complete_contexts)
def remove_context(name: str) -> None:
    """Remove a context with its token."""
    known = _contexts()
    _or_exit(lambda: known.choose(name))
    del known.content.contexts[name]
    if known.content.current == name:
        known.content.current = ""
    _or_exit(known.save)


def _or_exit(change: Callable[[], object]) -> None:
    try:
        change()
    except ContextProblem as error:
        click.echo(f"Error: {clean(error)}", err=True)
        sys.exit(USAGE)
