"""What the commands of the terminal share, and `schedulerd explain`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from ruamel.yaml import YAML

from schedulerd.terminal import contexts, kubectl
from schedulerd.terminal.api_client import ApiClient, ApiProblem
from schedulerd.terminal.contexts import SERVER_VARIABLE, Context, ContextProblem
from schedulerd.terminal.words import clean

USAGE = 1
NOT_FOUND = 1
"""As with kubectl."""
REFUSED = 3
NO_ANSWER = 4
NOT_ALLOWED = 5
WATCH_SECONDS = 2.0
OUTAGE_SECONDS_MAX = 60.0
"""How long a command that watches goes on without an answer."""
EXIT_CODES = (
    "Exit codes: 0 done, 1 wrong usage or no object of this name (get), 3 there is no such thing or the daemon "
    "refuses, 4 no daemon answers or it is too busy, 5 the token is missing or may not do this."
)

_PIPED_WIDTH = 1_000
"""Columns of a table that is read by another program."""

Command = Callable[..., Any]
AnswerT = TypeVar("AnswerT")


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
        click.option(
            "--server",
            default="",
            metavar="URL",
            help=f"The daemon, like http://HOST:9080. Also as {SERVER_VARIABLE}, or as context.",
        ),
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
    """A client of the chosen daemon: that of a context that is named, of the environment, or of the current context.
    Exits if it cannot be used."""
    try:
        chosen = None if context_name else contexts.of_environment()
        if chosen is None:
            chosen = contexts.load(contexts.default_path()).choose(context_name)
        if server:
            # A token belongs to its server: it must not go to another one.
            chosen = chosen if chosen.is_at(server) else Context(server=server)
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
        click.echo(f"Error: {clean(error).replace('?rm=', '--rm')}", err=True)
        if error.status in (401, 403):
            sys.exit(NOT_ALLOWED)
        sys.exit(NO_ANSWER if error.status == 0 or error.status >= 500 else REFUSED)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        click.echo(f"Error: the answer is not that of a schedulerd of this version ({clean(said)})", err=True)
        sys.exit(NO_ANSWER)


def console() -> Console:
    """Lines are as long as they are, unless a terminal would have to cut them."""
    made = Console()
    return made if made.is_terminal else Console(width=_PIPED_WIDTH)


def print_as(output: str, answer: object) -> None:
    """Prints an answer as JSON or YAML, all of it."""
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        writer = YAML()
        writer.allow_unicode = False  # so that nothing in it moves the cursor or turns the direction of writing
        writer.dump(answer, sys.stdout)


class Outage:
    """A daemon that gives no answer for a while, to a command that goes on."""

    def __init__(self) -> None:
        self._since: float | None = None

    def ends(self) -> None:
        """There is an answer."""
        self._since = None

    def passes(self, error: ApiProblem) -> str:
        """What to tell. Raises the problem if it does not pass by itself, or has not for `OUTAGE_SECONDS_MAX`."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if error.status not in (0, 503) or now - self._since > OUTAGE_SECONDS_MAX:
            raise error
        return f"{time.strftime('%H:%M:%S')}: {clean(error)}; trying again"


def repeat(watch: bool, ask: Callable[[], AnswerT], show: Callable[[AnswerT], None]) -> None:
    """Asks and shows once, or again and again until the user stops it. What was shown last stays while the daemon gives
    no answer."""
    outage = Outage()
    try:
        show(ask())
        while watch:
            time.sleep(WATCH_SECONDS)
            try:
                answer = ask()
            except ApiProblem as error:
                click.echo(outage.passes(error), err=True)
                continue
            outage.ends()
            click.clear()
            show(answer)
    except KeyboardInterrupt:
        sys.exit(130)


@click.command(epilog=EXIT_CODES)
@click.argument("what")
@click.argument("name", default="")
@click.argument("ask", default="")
@click.option(
    "--namespace",
    "-n",
    default="",
    help="Of a pod, or of the application that its pods name so. Default: default for a pod; with kubectl, that of its "
    "context, in which an application is looked for first.",
)
@with_connection
@with_output
def explain(
    what: str,
    name: str,
    ask: str,
    namespace: str,
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
    schedulerd explain pod NS/NAME      a Kubernetes pod; or: explain pod NAME -n NS
    schedulerd explain queue PATH       everything in a queue
    schedulerd explain app APP [ASK]    an application with one of these names
    """
    if namespace and what == "queue":
        raise click.UsageError("--namespace is for pods and applications")
    path, query = _explained(what, name, ask, namespace)
    query |= {"rm": rm_id, "partition": partition}
    with exit_codes(), connect(server, context_name) as client:

        def show(answer: dict[str, Any]) -> None:
            if output == "table":
                click.echo("\n".join(_lines(answer)))
            else:
                print_as(output, answer)

        repeat(watch, lambda: _explanation(client, path, query), show)


def _explanation(client: ApiClient, path: str, query: dict[str, object]) -> dict[str, Any]:
    """With kubectl, an application of its namespace before those of others."""
    if "application" in query and not query["namespace"] and kubectl.is_plugin():
        try:
            return client.get(path, {**query, "namespace": kubectl.current_namespace()})
        except ApiProblem as problem:
            if problem.status != 404:
                raise
    return client.get(path, query)


def _explained(what: str, name: str, ask: str, namespace: str) -> tuple[str, dict[str, object]]:
    """The route and its parameters."""
    match what:
        case "pod":
            written, slash, pod = name.rpartition("/")
            if not pod or ask:
                raise click.UsageError("write: schedulerd explain pod NAMESPACE/NAME")
            if slash and namespace not in ("", written):
                raise click.UsageError(f"the pod is in namespace {written}, and --namespace is {namespace}")
            chosen = written if slash else namespace or kubectl.namespace_of_pods()
            return "/explain/pod", {"namespace": chosen, "pod": pod}
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
        return "/explain/ask", {"application": what, "ask": name, "namespace": namespace}
    return "/explain/application", {"application": what, "namespace": namespace}


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    """The sentences of an explanation; what a reader needs first comes first."""
    for one in answer["summary"]:
        yield clean(one)
    for one in answer.get("details", ()):
        yield f"  {clean(one)}"
    for one in answer.get("reasons", ()):
        yield f"  {one['allocations']:>6}  {clean(one['sentence'])}"
        yield f"          such as {clean(one['application'])} {clean(one['pod'] or one['ask'])}"
    if answer.get("next_ask"):
        yield "Next ask:"
        for one in answer["next_ask"]:
            yield f"  {clean(one)}"
