"""The command line: `serve` the daemon, `validate` a queue file, `simulate` a resource manager, run the `demo`.

The flags of `serve` are made from the settings model, so a setting exists once. The client commands are imported when
they are called: a daemon does not carry them, and need not have the terminal library they draw with.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from schedulerd import __version__
from schedulerd.config import QueueFileInvalid, Settings, SettingsInvalid, load_queue_file, load_settings

USAGE = 1
UNREADABLE = 2
INVALID = 3
INTERRUPTED = 130

_CLIENT_COMMANDS = {
    "demo": "Start a daemon and a simulated resource manager beside it.",
    "simulate": "Play a resource manager against a running scheduler.",
}


class _Commands(click.Group):
    """A group that imports `schedulerd.simulate` only when one of its commands is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_CLIENT_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _CLIENT_COMMANDS:
            return super().get_command(ctx, cmd_name)
        try:
            command = getattr(importlib.import_module("schedulerd.simulate.cli"), cmd_name)
        except ModuleNotFoundError as error:
            return _not_installed(cmd_name, error.name or "")
        assert isinstance(command, click.Command)
        return command


def _not_installed(name: str, module: str) -> click.Command:
    def say_so() -> None:
        raise click.ClickException(f"{name} needs the module {module}: pip install 'schedulerd[simulate]'")

    return click.Command(name, callback=say_so, help=_CLIENT_COMMANDS[name])


@click.group(cls=_Commands)
@click.version_option(__version__, message="schedulerd %(version)s")
def cli() -> None:
    """A batch scheduler that speaks the YuniKorn scheduler interface over gRPC."""


def _setting_options() -> list[click.Parameter]:
    """One flag per setting; None means not given, so that the environment and the file are asked."""
    options: list[click.Parameter] = [
        click.Option(["--settings"], type=click.Path(path_type=Path), help="Settings file (YAML).")
    ]
    for name, field in Settings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        default = "" if field.default is None else f" [default: {field.default}]"
        help_text = f"{field.description}{default}"
        if field.annotation is bool:
            options.append(click.Option([f"{flag}/--no-{flag[2:]}"], default=None, help=help_text))
        else:
            options.append(click.Option([flag], default=None, metavar="VALUE", help=help_text))
    return options


def _serve(settings: Path | None, **flags: object) -> None:
    # Imported here, because validating a file needs neither gRPC nor the scheduler.
    from schedulerd.daemon.failures import ExitCode
    from schedulerd.daemon.server import serve

    try:
        loaded = load_settings(flags, os.environ, settings)
    except SettingsInvalid as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(ExitCode.CONFIG)
    sys.exit(serve(loaded))


cli.add_command(
    click.Command(
        "serve",
        callback=_serve,
        params=_setting_options(),
        help="""Run the daemon until SIGTERM or SIGINT, which it answers by draining; a second signal ends it at once.

        A flag wins over the environment variable SCHEDULERD_NAME, and that over the settings file. Exit codes: 0
        drained, 69 a port is taken, 70 a bug of schedulerd, 78 settings, queue file or TLS files cannot be used.""",
    )
)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check a queue FILE and list all that is wrong with it, with line, key and what is allowed.

    Exit codes: 0 valid (warnings are printed), 1 wrong usage, 2 the file cannot be read, 3 it is not valid.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{file}: cannot be read: {error}", err=True)
        sys.exit(UNREADABLE)
    try:
        queue_file = load_queue_file(text, str(file))
    except QueueFileInvalid as error:
        click.echo(str(error), err=True)
        sys.exit(INVALID)
    for warning in queue_file.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{file}: valid")


def main() -> None:
    """Runs the command line; wrong usage exits with 1, because 2 and more have a meaning of their own."""
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.UsageError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
