"""`schedulerd context`: which daemon the other commands talk to."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from schedulerd.terminal import contexts
from schedulerd.terminal.cli import USAGE, complete_contexts
from schedulerd.terminal.contexts import Context, ContextProblem
from schedulerd.terminal.words import clean


@click.group()
def context() -> None:
    """Which daemon the commands talk to."""


def _contexts() -> contexts.Contexts:
    try:
        return contexts.load(contexts.default_path())
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
@click.option("--server", metavar="URL", help="The daemon, like https://HOST:9080.")
@click.option(
    "--ca-file", metavar="FILE", help="Certificate authorities (PEM) of the daemon; '' for those of the system."
)
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input, as arguments are no secret.")
def set_context(name: str, server: str | None, ca_file: str | None, token_stdin: bool) -> None:
    """Add or change a context, and make it the current one. What is not given stays as it is; a token goes if the
    server changes, as it belongs to its server."""
    known = _contexts()
    old = known.content.contexts.get(name)
    if old is None and server is None:
        raise click.UsageError(f"there is no context {name!r} yet; give its --server")
    new = Context(
        server=old.server if server is None and old is not None else server or "",
        ca_file=old.ca_file if ca_file is None and old is not None else ca_file or "",
        token=sys.stdin.readline().strip() if token_stdin else "",
    )
    if new.problem():
        raise click.UsageError(new.problem())
    if old is not None and old.token and not token_stdin:
        if old.is_at(new.server):
            new.token = old.token
        else:
            click.echo(f"The token for {clean(old.server)} is removed; set a new one with --token-stdin.", err=True)
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
